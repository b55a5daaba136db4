"""A client's connection: what is no request, several requests on it, and how long it lives."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from asgi_bridge import Served
from fakes import FOREVER, SSE, Answer, FakeTransport, completion, delta, request, sse
from osmosis_bridge.crowd import crowd_of
from osmosis_bridge.door.connection import Door
from serving import BEARER, Serving, asked, error_of, reply_of, served, until

CLOSE = b"connection: close"
BEGUN = sse(delta("a"), done=False)
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


def lines(*more: bytes) -> bytes:
    return (
        b"\r\n".join([b"POST /v1/chat/completions HTTP/1.1", b"host: localhost", BEARER, *more]) + b"\r\n\r\n"
    )


# What is no request, or might be two.


@pytest.mark.parametrize(
    "sent",
    [
        lines(b"content-length: 2", b"transfer-encoding: chunked") + b"0\r\n\r\n",
        lines(b"transfer-encoding: chunked", b"content-length: 2") + b"0\r\n\r\n",
        lines(b"content-length: 2", b"content-length: 3") + b"{}0",
        lines(b"content-length: 2", b"content-length: 2") + b"{}",
        lines(b"content-length: +2") + b"{}",
        lines(b"content-length: 2, 2") + b"{}",
        lines(b"content-length: 0x2") + b"{}",
        lines(b"content-length: 99999999999999999999") + b"{}",
        lines(b"transfer-encoding: gzip") + b"{}",
        lines(b"transfer-encoding: chunked, gzip") + b"{}",
        lines(b"transfer-encoding : chunked") + b"0\r\n\r\n",
        lines(b"x-a: 1", b" folded: 2", b"content-length: 2") + b"{}",
        lines(b"x-a: 1\x00", b"content-length: 2") + b"{}",
        lines(b"x-a: 1\rx-b: 2", b"content-length: 2") + b"{}",
        lines(b"content-length: 2").replace(b"\r\n", b"\n") + b"{}",
        lines(b"content-length: 2").replace(b" HTTP/1.1", b" HTTP/1.1 ") + b"{}",
        lines(b"content-length: 2").replace(b"HTTP/1.1", b"HTTP/3.1") + b"{}",
        lines(b"content-length: 2").replace(b"/chat", b"/ch at") + b"{}",
        lines(b"content-length: 2").replace(b"POST", b"PO ST") + b"{}",
        lines(b"content-length: 2").replace(b"/chat", b"/ch\xc3\xa4t") + b"{}",
        b"\x00" + lines(b"content-length: 2") + b"{}",
        b"GET http://[::1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_not_read(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Served()

    async def use(serving: Serving) -> None:
        status, error, _ = error_of(await serving.raw(sent + asked(request())))
        assert status == b"HTTP/1.1 400 Bad Request"
        assert error["code"] == "invalid_http"
        assert app.transport.sent == []
        assert app.ledger.records == []

    served(app.app, use, monkeypatch)


@pytest.mark.parametrize(
    ("sent", "more"),
    [
        (b"GET / HTTP/1.1\r\nx: ", b"a" * 1000),
        (b"GET / HTTP/1.1\r\n", b"x: " + b"a" * 1000 + b"\r\n"),
        (b"GET /", b"a" * 1000),
        (lines(b"transfer-encoding: chunked") + b"2;", b"a" * 1000),
        (lines(b"transfer-encoding: chunked") + b"2\r\n{}\r\n0\r\nx: ", b"a" * 1000),
        (lines(b"transfer-encoding: chunked") + b"2\r\n{}\r\n0\r\n", b"x: " + b"a" * 1000 + b"\r\n"),
    ],
    ids=["a value", "headers", "a target", "an extension", "a trailer", "trailers"],
)
def test_what_never_ends_is_not_kept_for_ever(
    sent: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(sent)
        for _ in range(66):
            await asyncio.sleep(0.001)
            writer.write(more)
        status, error, _ = error_of(await reader.read(-1))
        assert status == b"HTTP/1.1 431 Request Header Fields Too Large"
        assert error["code"] == "headers_too_large"

    served(Served().app, use, monkeypatch)


def test_a_body_of_many_small_chunks_is_no_endless_head(monkeypatch: pytest.MonkeyPatch) -> None:
    body = request(messages=[{"role": "user", "content": "a" * 30_000}])
    sent = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(lines(b"transfer-encoding: chunked", CLOSE))
        for at in range(0, len(sent), 10_000):
            writer.write(sent[at : at + 10_000])
            await asyncio.sleep(0.002)
        assert (await reader.read(-1)).startswith(b"HTTP/1.1 200 ")

    served(Served(max_body=100_000).app, use, monkeypatch)


OFFER = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAAAAIAAAAB")


@pytest.mark.parametrize(
    "sent",
    [
        asked(request(), *OFFER),
        HEALTH[:-2] + b"\r\n".join(OFFER) + b"\r\n\r\n",
        lines(b"transfer-encoding: chunked", *OFFER) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(request()), request()),
        HEALTH[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ],
    ids=["a call", "another request", "a call in chunks", "a web socket"],
)
def test_who_offers_another_protocol_is_answered_in_this_one(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        for at in range(0, len(sent), 100):
            writer.write(sent[at : at + 100])
            await asyncio.sleep(0.001)
        head, _ = await reply_of(reader)
        assert head[0] == b"HTTP/1.1 200 OK"
        writer.write(sent + HEALTH)
        for _ in range(2):
            head, _ = await reply_of(reader)
            assert head[0] == b"HTTP/1.1 200 OK"

    served(Served().app, use, monkeypatch)


def test_an_offer_may_be_the_last_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        came = await serving.raw(
            asked(request(), b"connection: close, upgrade", b"upgrade: h2c") + b"PRI * HTTP/2.0"
        )
        assert came.startswith(b"HTTP/1.1 200 ")
        assert came.count(b"HTTP/1.1") == 1

    served(Served().app, use, monkeypatch)


def test_the_bridge_is_no_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        came = await serving.raw(
            b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        )
        assert error_of(came)[0] == b"HTTP/1.1 400 Bad Request"

    served(Served().app, use, monkeypatch)


# Several requests.


def test_replies_leave_in_the_order_of_their_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [*[b" "] * 50, completion("first")]
    app = Served(Answer(slow), Answer([completion("second")]))

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(asked(request()) + HEALTH + asked(request()) + HEALTH)
        bodies = [(await reply_of(reader))[1] for _ in range(4)]
        assert b"first" in bodies[0]
        assert b"second" in bodies[2]
        assert bodies[1] == bodies[3] == b'{"status":"ok"}'
        writer.write(HEALTH)
        assert (await reply_of(reader))[1] == b'{"status":"ok"}'

    served(app.app, use, monkeypatch)


@pytest.mark.parametrize(
    "rest", [b"no HTTP\r\n\r\n", asked(b"{}").replace(b"content-length: 2", b"content-length: x")]
)
def test_what_is_no_request_behind_one_does_not_get_into_its_reply(
    rest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Served(Answer([BEGUN, *[b"\n"] * 50, sse(delta(finish="stop"))], headers=SSE))

    async def use(serving: Serving) -> None:
        for together in (True, False):
            reader, writer = await serving.connect()
            writer.write(asked(request(stream=True)) + (rest if together else b""))
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"" if together else rest)
            came = await reader.read(-1)
            assert came.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
            assert b"HTTP/1.1 400" not in came

    served(app.app, use, monkeypatch)


def test_a_broken_body_behind_a_request_ends_the_connection_after_its_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Served(Answer([*[b" "] * 50, completion("first")]))

    async def use(serving: Serving) -> None:
        came = await serving.raw(asked(request()) + lines(b"transfer-encoding: chunked") + b"zz\r\n")
        assert came.startswith(b"HTTP/1.1 200 ")
        assert came.count(b"HTTP/1.1") == 1
        assert len(app.ledger.records) == 1

    served(app.app, use, monkeypatch)


# How long it lives.


def test_a_connection_that_asks_nothing_is_closed_and_one_that_is_answered_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Served(Answer([completion()]), Answer([BEGUN, FOREVER], headers=SSE))

    async def use(serving: Serving) -> None:
        idle, writer = await serving.connect()
        writer.write(asked(request()))
        await reply_of(idle)
        busy, writer = await serving.connect()
        writer.write(HEALTH)
        await reply_of(busy)
        writer.write(asked(request(stream=True)))
        await busy.readuntil(b"\n\n\r\n")
        assert await idle.read(-1) == b""
        await asyncio.sleep(0.5)
        assert not busy.at_eof()
        assert app.ledger.appends == 1

    served(app.app, use, monkeypatch, keep_alive_s=1)


def test_half_a_request_does_not_keep_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(HEALTH)
        await reply_of(reader)
        writer.write(HEALTH[:20])
        assert await reader.read(-1) == b""

    served(Served().app, use, monkeypatch, keep_alive_s=1)


def test_told_to_stop_it_closes_idle_connections_and_answers_what_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waits(FakeTransport):
        async def step(self) -> None:
            await super().step()
            if self.steps == 6:
                await go.wait()

    go = asyncio.Event()
    stream = Answer([BEGUN, sse(delta(finish="stop"))], headers=SSE)
    app = Served(transport=Waits(Answer([completion()]), stream))

    async def use(serving: Serving) -> None:
        idle, writer = await serving.connect()
        writer.write(asked(request()))
        await reply_of(idle)
        silent, _ = await serving.connect()
        busy, writer = await serving.connect()
        writer.write(asked(request(stream=True)))
        await busy.readuntil(b"\r\n\r\n")
        os.kill(os.getpid(), signal.SIGTERM)
        assert await idle.read(-1) == b""
        assert await silent.read(-1) == b""
        go.set()
        assert (await busy.read(-1)).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert [record["status"] for record in app.ledger.records] == ["ok", "ok"]

    served(app.app, use, monkeypatch, grace_s=600)


def test_a_reply_that_begins_after_the_word_to_stop_says_that_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waits(FakeTransport):
        async def step(self) -> None:
            await super().step()
            await go.wait()

    go = asyncio.Event()
    app = Served(transport=Waits(Answer([completion()])))

    async def use(serving: Serving) -> None:
        silent, _ = await serving.connect()
        reader, writer = await serving.connect()
        writer.write(asked(request()))
        await until(lambda: app.transport.steps)
        serving.server._stop()
        assert await silent.read(-1) == b"", "now it has heard"
        go.set()
        came = await reader.read(-1)
        assert came.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nconnection: close\r\n" in came

    served(app.app, use, monkeypatch, grace_s=600)


def test_a_connection_that_is_lost_lets_go_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        state: Any = serving.server.server_state
        _, writer = await serving.connect()
        writer.write(HEALTH + HEALTH[:10])
        await until(lambda: state.total_requests)
        (door,) = state.connections
        writer.transport.abort()
        await until(lambda: not state.connections)
        assert (door._parser, door._timer, door._active) == (None, None, None)
        door.data_received(b"more")
        door.write(b"more")
        door.break_off()

    served(Served().app, use, monkeypatch)


# When what is written leaves.


class Socket(asyncio.Transport):
    """Keeps what it is given, by the call."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[bytes] = []
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closing
        self.given.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True


def door() -> tuple[Door, Socket]:
    opened, socket = Door(Config(Served().app), ServerState(), {}), Socket()
    opened.connection_made(socket)
    return opened, socket


def test_what_is_written_in_a_turn_leaves_at_its_end_in_one_piece() -> None:
    async def main() -> None:
        (one, first), (other, second) = door(), door()
        one.write(b"a")
        other.write(b"c")
        one.write(b"b")
        assert first.given == second.given == []
        await asyncio.sleep(0)
        assert (first.given, second.given) == ([b"ab"], [b"c"])
        one.write(b"d")
        await asyncio.sleep(0)
        assert first.given == [b"ab", b"d"]

    asyncio.run(main())


def test_the_last_of_a_reply_leaves_at_once_with_what_was_written_unless_others_are_heard() -> None:
    async def main() -> None:
        one, socket = door()
        one.write(b"a")
        one.write_last(b"b")
        assert socket.given == [b"ab"]
        await asyncio.sleep(0)
        assert socket.given == [b"ab"]
        crowd_of(asyncio.get_running_loop()).together = True
        one.write_last(b"c")
        assert socket.given == [b"ab"]
        await asyncio.sleep(0)
        assert socket.given == [b"ab", b"c"]
        one.break_off()
        one.write_last(b"d")
        assert socket.given == [b"ab", b"c"]

    asyncio.run(main())


def test_requests_that_come_in_one_turn_are_a_crowd() -> None:
    async def main() -> list[bool]:
        crowd = crowd_of(asyncio.get_running_loop())
        (one, _), (other, _) = door(), door()
        seen = []
        for some in ((one,), (other,), (one, other)):
            for each in some:
                each.data_received(b"GET /healthz HTTP/1.1\r\n")
            await asyncio.sleep(0)
            seen.append(crowd.together)
        return seen

    assert asyncio.run(main()) == [False, False, True]


def test_much_leaves_at_once_behind_what_was_written_before() -> None:
    async def main() -> None:
        one, socket = door()
        much = b"m" * 100_000
        one.write(b"a")
        one.write(much)
        assert socket.given == [b"a" + much]
        one.write(b"b")
        await asyncio.sleep(0)
        assert socket.given == [b"a" + much, b"b"]

    asyncio.run(main())


def test_what_was_written_leaves_before_the_connection_is_closed_and_nothing_after_it_is_lost() -> None:
    async def main() -> None:
        one, closed = door()
        one.write(b"a")
        one.break_off()
        one.write(b"b")
        other, lost = door()
        other.write(b"a")
        lost.closing = True
        other.connection_lost(ConnectionResetError())
        await asyncio.sleep(0)
        assert (closed.given, closed.closing) == ([b"a"], True)
        assert lost.given == []

    asyncio.run(main())
