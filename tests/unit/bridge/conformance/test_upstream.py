"""The scripted upstream: which script a request gets, what is kept of it, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from osmosis_bridge.conformance.client import Address, Wire
from osmosis_bridge.conformance.packing import gzipped
from osmosis_bridge.conformance.reply import Reply
from osmosis_bridge.conformance.script import Drip, Hold, Pause, Until, head, plain, raw, stream
from osmosis_bridge.conformance.upstream import STRAY, Received, ScriptedUpstream, token_of


def request(body: bytes, *headers: bytes) -> bytes:
    lines = [b"POST /v1/chat/completions HTTP/1.1", b"Host: x", *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", b""]) + body


def said(text: str) -> bytes:
    return b'{"messages":[{"role":"user","content":"%s"}],"stream":true}' % text.encode()


def received(body: bytes) -> Received:
    return Received(b"POST /x HTTP/1.1\r\n\r\n", body, 1)


@pytest.mark.parametrize(
    ("body", "token"),
    [
        (said("say case:a.1f please"), "a.1f"),
        (
            b'{"messages":[{"content":"case:a.1"},{"content":[{"type":"text","text":"case:b.2"}]}],"x":"case:c.3"}',
            "b.2",
        ),
        (b'{"messages":[{"content":"none"}],"x":"case:c.3"}', "c.3"),
        (b"no json case:S4-x~n1.0a", "S4-x~n1.0a"),
        (b"{}", STRAY),
    ],
)
def test_the_last_message_with_a_token_chooses_the_script(body: bytes, token: str) -> None:
    assert token_of(received(body)) == token


def test_a_packed_request_is_read() -> None:
    seen = Received(b"POST /x HTTP/1.1\r\nContent-Encoding: gzip\r\n\r\n", gzipped(said("case:z.9")), 1)
    assert token_of(seen) == "z.9"


def on_wire(work: Callable[[ScriptedUpstream, Wire], Awaitable[None]]) -> None:
    async def run() -> None:
        upstream = ScriptedUpstream()
        port = await upstream.start()
        try:
            async with Wire(Address.parse(f"http://127.0.0.1:{port}"), upstream.progress("t.1")) as wire:
                await work(upstream, wire)
        finally:
            await upstream.stop()

    asyncio.run(run())


async def ask(wire: Wire, *headers: bytes) -> Reply:
    await wire.send(request(said("case:t.1"), *headers))
    return await wire.reply(5)


def test_a_script_is_played_and_the_request_kept_to_the_byte() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", plain('"hi"', 418))
        reply = await ask(wire, b"Authorization: Bearer k1", b"X-Y:  z ")
        assert (reply.status, reply.body) == (418, b'"hi"')
        (call,) = upstream.received("t.1")
        assert call.head + call.body == request(said("case:t.1"), b"Authorization: Bearer k1", b"X-Y:  z ")
        assert (call.secret(), call.headers("x-y"), call.target) == ("k1", ["z"], "/v1/chat/completions")

    on_wire(work)


def test_a_request_without_a_script_is_answered_and_counts_as_a_stray() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        assert (await ask(wire)).content() == "hello"
        assert len(upstream.received(STRAY)) == 1

    on_wire(work)


def test_a_kept_connection_carries_the_next_request() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", plain("1"))
        await ask(wire)
        await ask(wire)
        assert [call.connection for call in upstream.received("t.1")] == [1, 1]

    on_wire(work)


@pytest.mark.parametrize(("end", "said_end"), [("close", "cut"), ("reset", "cut")])
def test_a_script_may_end_by_closing_or_by_reset(end: str, said_end: str) -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", raw(head(200, ("Content-Length", "9")), b"half", Pause(0.02), end=end))  # pyright: ignore[reportArgumentType]
        assert (await ask(wire)).end == said_end

    on_wire(work)


def test_a_request_in_chunks_is_read() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", plain("1"))
        body = said("case:t.1")
        chunks = b"%x\r\n%s\r\n0\r\nx: y\r\n\r\n" % (len(body), body)
        await wire.send(b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        assert (await wire.reply(5)).status == 200
        assert upstream.received("t.1")[0].body == body

    on_wire(work)


def test_a_script_waits_for_what_the_client_has_received() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", stream(b"data: 1\n\n", Until(b"data: 1"), b"data: 2\n\n"))
        reply = await ask(wire)
        assert reply.end == "clean"
        assert upstream.received("t.1")[0].late is None

    on_wire(work)


def test_what_the_client_does_not_receive_in_time_is_noted() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", stream(Until(b"never", 0.05), b"data: 2\n\n"))
        await ask(wire)
        assert upstream.received("t.1")[0].late == b"never"

    on_wire(work)


def test_a_stream_is_played_only_to_who_asks_for_one() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", stream(b"data: 1\n\n"))
        await wire.send(request(said("case:t.1").replace(b"true", b"false")))
        assert (await wire.reply(5)).content() == "hello"
        assert upstream.received("t.1")[0].unstreamed

    on_wire(work)


def test_a_peer_that_closes_is_seen_while_the_upstream_is_silent() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", raw(Hold(8)))
        await wire.send(request(said("case:t.1")))
        while not upstream.received("t.1"):
            await asyncio.sleep(0.005)
        wire.leave("rst")
        await asyncio.wait_for(upstream.received("t.1")[0].peer_closed.wait(), 5)

    on_wire(work)


def test_bytes_may_come_one_by_one() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", raw(Drip(head(200, ("Content-Length", "2")) + b"ab")))
        assert (await ask(wire)).body == b"ab"

    on_wire(work)


def test_a_stopped_upstream_refuses_and_comes_back_on_its_port() -> None:
    async def run() -> None:
        upstream = ScriptedUpstream()
        port = await upstream.start()
        await upstream.stop()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        assert await upstream.start() == port
        await upstream.stop()

    asyncio.run(run())


def test_what_is_forgotten_is_gone() -> None:
    async def work(upstream: ScriptedUpstream, wire: Wire) -> None:
        upstream.play("t.1", plain("1"))
        await ask(wire)
        upstream.forget("t.1")
        assert upstream.received("t.1") == []

    on_wire(work)
