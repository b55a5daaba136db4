"""A call on a connection: its body as it comes in, its reply to the byte, and a client that is slow or leaves."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from asgi_bridge import Served
from fakes import FOREVER, SSE, Answer, FakeTransport, completion, delta, request, sse
from osmosis_bridge.dialects.chat import CHAT_DIALECT
from osmosis_bridge.door.call import InboundCall
from serving import BEARER, Serving, asked, error_of, head_and_body, reply_of, served, until

CLOSE = b"connection: close"
STREAM = [sse(delta("a"), done=False), sse(delta("b"), delta(finish="stop"))]
SAID = b"".join(STREAM).replace(b"up/real", b"m")


# Its reply.


def test_a_plain_reply_says_its_length_and_the_connection_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Served()

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        for seq in (1, 2):
            writer.write(asked(request()))
            lines, body = await reply_of(reader)
            assert lines[0] == b"HTTP/1.1 200 OK"
            assert [line.split(b": ")[0] for line in lines[1:]] == [
                b"date", b"content-type", b"x-osmosis-call-id", b"content-length",
            ]  # fmt: skip
            assert json.loads(body)["model"] == "m"
            assert len(app.ledger.records) == seq

    served(app.app, use, monkeypatch)


def test_a_stream_comes_in_chunks_and_the_connection_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Served(Answer(STREAM, headers=SSE))

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        for _ in range(2):
            writer.write(asked(request(stream=True)))
            lines, body = await reply_of(reader)
            assert b"transfer-encoding: chunked" in lines
            assert not any(line.startswith(b"content-length") for line in lines)
            assert body == SAID

    served(app.app, use, monkeypatch)


def test_the_head_of_a_stream_does_not_wait_for_more_than_its_first_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Served(Answer([STREAM[0], FOREVER], headers=SSE))

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(asked(request(stream=True)))
        came = await reader.readuntil(b"\n\n\r\n")
        assert came.startswith(b"HTTP/1.1 200 OK\r\n")
        assert came.endswith(
            b"\r\n%x\r\n" % (len(STREAM[0]) - 6) + STREAM[0].replace(b"up/real", b"m") + b"\r\n"
        )

    served(app.app, use, monkeypatch)


def test_a_sign_of_life_brings_the_head_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Served(Answer([FOREVER], headers=SSE), keepalive_s=0.01)

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(asked(request(stream=True)))
        assert b"\r\n\r\n" in await reader.readuntil(b": keep-alive\n\n\r\n")

    served(app.app, use, monkeypatch)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("headers", [(), (b"connection: keep-alive",)])
def test_a_client_of_http_1_0_gets_a_whole_reply_and_the_end_of_its_connection(
    stream: bool, headers: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Served(Answer(STREAM, headers=SSE) if stream else Answer([completion()]))

    async def use(serving: Serving) -> None:
        lines, body = head_and_body(
            await serving.raw(asked(request(stream=stream), *headers, version=b"1.0"))
        )
        assert b"content-length: %d" % len(body) in lines
        assert CLOSE in lines
        assert body == SAID if stream else json.loads(body)

    served(app.app, use, monkeypatch)


def test_a_client_that_says_close_is_told_so_and_what_it_sends_after_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Served()

    async def use(serving: Serving) -> None:
        came = await serving.raw(asked(request(), CLOSE) + asked(request()) + b"and no HTTP")
        lines, body = head_and_body(came)
        assert CLOSE in lines
        assert json.loads(body)["model"] == "m"
        assert len(app.ledger.records) == 1

    served(app.app, use, monkeypatch)


def test_a_large_reply_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "x" * 3_000_000
    app = Served(Answer([completion(said)]))

    async def use(serving: Serving) -> None:
        _, body = head_and_body(await serving.raw(asked(request(), CLOSE)))
        assert json.loads(body)["choices"][0]["message"]["content"] == said

    served(app.app, use, monkeypatch)


def test_a_header_that_would_split_the_reply_makes_it_a_500(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = ((b"content-type", b"application/json"), (b"x-request-id", b"a\r\nset-cookie: b"))
    app = Served(Answer([completion()], headers=headers))

    async def use(serving: Serving) -> None:
        came = await serving.raw(asked(request(), CLOSE))
        status, error, head = error_of(came)
        assert status == b"HTTP/1.1 500 Internal Server Error"
        assert error["code"] == "internal_error"
        assert b"set-cookie" not in head

    served(app.app, use, monkeypatch)


def test_a_fault_within_a_stream_leaves_it_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    class BreaksLater(FakeTransport):
        async def step(self) -> None:
            await super().step()
            if self.steps == 3:
                raise ZeroDivisionError

    app = Served(transport=BreaksLater(Answer(STREAM[:1], headers=SSE)))

    async def use(serving: Serving) -> None:
        came = await serving.raw(asked(request(stream=True)))
        assert came.endswith(STREAM[0].replace(b"up/real", b"m") + b"\r\n")
        assert app.ledger.records[0]["error_code"] == "internal_error"

    served(app.app, use, monkeypatch)


# Its body.


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


CHUNKED = b"transfer-encoding: chunked"


def test_a_body_may_come_in_any_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Served()
    body = request()

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        for sent in (asked(body), asked(chunked(body[:5], body[5:]), CHUNKED, length=False)):
            for at in range(0, len(sent), 7):
                writer.write(sent[at : at + 7])
                await asyncio.sleep(0.001)
            lines, _ = await reply_of(reader)
            assert lines[0] == b"HTTP/1.1 200 OK"
        assert [sent["body"] for sent in app.transport.sent] == [app.transport.sent[0]["body"]] * 2

    served(app.app, use, monkeypatch)


def test_a_client_that_waits_for_word_to_go_on_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Served()
    sent = asked(request(), b"Expect: 100-Continue")

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(sent.removesuffix(request()))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(request())
        lines, _ = await reply_of(reader)
        assert lines[0] == b"HTTP/1.1 200 OK"

    served(app.app, use, monkeypatch)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (asked(b"a" * 1001, b"expect: 100-continue")[:-1001], b"413 "),
        (asked(b"{}", b"expect: 100-continue").replace(BEARER, b"x: y")[:-2], b"401 "),
    ],
)
def test_a_body_that_will_not_be_read_is_not_asked_for(
    sent: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(sent)
        lines, _ = await reply_of(reader)
        assert lines[0].startswith(b"HTTP/1.1 " + status)

    served(Served().app, use, monkeypatch)


@pytest.mark.parametrize(
    "sent",
    [
        asked(b"a" * 1001),
        asked(chunked(b"a" * 600, b"a" * 600, end=b""), CHUNKED, length=False),
    ],
    ids=["its length says so", "it does not end"],
)
def test_too_large_a_body_is_413_and_ends_the_connection(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(serving: Serving) -> None:
        status, error, _ = error_of(await serving.raw(sent))
        assert status == b"HTTP/1.1 413 Request Entity Too Large"
        assert error["code"] == "body_too_large"

    served(Served().app, use, monkeypatch)


def test_a_call_that_is_refused_before_its_body_came_leaves_the_connection_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = asked(request()).replace(BEARER, b"x: y")

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(refused[:-5])
        lines, _ = await reply_of(reader)
        assert lines[0] == b"HTTP/1.1 401 Unauthorized"
        writer.write(refused[-5:] + asked(request()))
        lines, _ = await reply_of(reader)
        assert lines[0] == b"HTTP/1.1 200 OK"

    served(Served().app, use, monkeypatch)


def test_a_trailer_is_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    end = b"0\r\n" + BEARER + b"\r\n\r\n"
    sent = asked(chunked(request(), end=end), CHUNKED, b"trailer: authorization", CLOSE, length=False)

    async def use(serving: Serving) -> None:
        assert (await serving.raw(sent)).startswith(b"HTTP/1.1 200 ")
        without = sent.replace(BEARER, b"x: y", 1)
        assert (await serving.raw(without)).startswith(b"HTTP/1.1 401 ")

    served(Served().app, use, monkeypatch)


@pytest.mark.parametrize(
    "broken",
    [
        b"zz\r\n{}\r\n0\r\n\r\n",
        b"-1\r\n{}\r\n",
        b"2\r\n{}0\r\n\r\n",
        b"2\n{}\r\n0\r\n\r\n",
        b"0x2\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_a_body_with_a_broken_chunk_is_told_so_and_leaves_no_record(
    broken: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Served()

    async def use(serving: Serving) -> None:
        for pieces in ([broken], [b"1\r\n{\r\n", broken]):
            reader, writer = await serving.connect()
            writer.write(asked(b"", CHUNKED, length=False))
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.01)
            status, error, _ = error_of(await reader.read(-1))
            assert status == b"HTTP/1.1 400 Bad Request"
            assert error["code"] == "invalid_http"
        assert app.ledger.records == []
        assert app.transport.sent == []

    served(app.app, use, monkeypatch)


# A client that leaves.


@pytest.mark.parametrize("pieces", [[FOREVER], [STREAM[0], FOREVER]], ids=["before the reply", "within it"])
@pytest.mark.parametrize("how", ["aborts", "closes", "says that it will send no more"])
def test_a_client_that_leaves_stops_its_call_at_once(
    pieces: list[Any], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Served(Answer(pieces, headers=SSE))

    async def use(serving: Serving) -> None:
        _, writer = await serving.connect()
        writer.write(asked(request(stream=True)))
        await until(lambda: app.transport.steps == len(pieces) + 1)
        {"aborts": writer.transport.abort, "closes": writer.close}.get(how, writer.write_eof)()
        await until(lambda: app.ledger.records)
        await until(lambda: not serving.server.server_state.tasks)
        assert app.ledger.records[0]["status"] == "cancelled"
        assert (app.transport.open_exchanges, app.bridge.in_flight) == (0, 0)

    served(app.app, use, monkeypatch)


def test_a_client_that_leaves_while_it_sends_its_request_leaves_no_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Served()

    async def use(serving: Serving) -> None:
        _, writer = await serving.connect()
        writer.write(asked(request())[:-1])
        await until(lambda: serving.server.server_state.tasks)
        writer.transport.abort()
        await until(lambda: not serving.server.server_state.tasks)
        assert app.ledger.appends == 0

    served(app.app, use, monkeypatch)


def test_a_client_that_leaves_after_its_reply_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # What follows the end keeps the call busy while the client goes.
    app = Served(Answer([STREAM[1], *[b"\n"] * 50], headers=SSE))

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(asked(request(stream=True)))
        await reply_of(reader)
        writer.transport.abort()
        await until(lambda: not serving.server.server_state.tasks)
        assert [record["status"] for record in app.ledger.records] == ["ok"]

    served(app.app, use, monkeypatch)


class Wire:
    """A connection that notes what is written to it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()
        self.full = False
        self.written: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.written.append(piece)

    def write_last(self, *pieces: bytes) -> None:
        self.written.append(b"".join(pieces))

    def usual_headers(self) -> list[tuple[bytes, bytes]]:
        return []

    async def room(self) -> None:
        raise AssertionError

    def ended(self, *, keep: bool) -> None:
        self.written.append(b"kept" if keep else b"closed")

    def break_off(self) -> None:
        self.written.append(b"broken off")


async def nobody_answers(asked: InboundCall, reply: InboundCall) -> None:
    raise AssertionError


def test_a_call_whose_client_leaves_in_the_same_turn_is_not_waited_for() -> None:
    async def main() -> None:
        wire = Wire()
        call = InboundCall(wire, nobody_answers, CHAT_DIALECT, None, [])
        call.begin()
        assert len(wire.tasks) == 1
        call.leave()
        assert wire.tasks == set()
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_head_does_not_wait_for_a_piece_and_a_piece_of_nothing_is_no_end() -> None:
    async def main() -> None:
        wire = Wire()
        call = InboundCall(wire, nobody_answers, CHAT_DIALECT, None, [])
        await call.start(200, ())
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        assert wire.written == [head]
        await call.send(b"")
        await call.send(b"a")
        await call.end(b"")
        assert wire.written == [head, b"1\r\na\r\n", b"0\r\n\r\n", b"kept"]

    asyncio.run(main())


def test_the_second_signal_cancels_a_call_so_that_it_records_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Served(Answer([STREAM[0], FOREVER], headers=SSE))

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(asked(request(stream=True)))
        await reader.readuntil(b"\n\n\r\n")
        serving.server._stop()
        serving.server._stop()
        assert await reader.read(-1) == b""
        assert [record["status"] for record in app.ledger.records] == ["cancelled"]

    served(app.app, use, monkeypatch, grace_s=600)


# A client that is slow.


def test_a_client_that_does_not_read_stops_its_own_upstream_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = [sse(delta("x" * 50_000), done=False)] * 200
    app = Served(Answer([*pieces, sse(delta(finish="stop"))], headers=SSE), Answer([completion()]))

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(asked(request(stream=True)))
        steps = -1
        while steps != app.transport.steps:
            steps = app.transport.steps
            await asyncio.sleep(0.2)
        assert steps < 190
        assert (await serving.raw(asked(request(), CLOSE))).startswith(b"HTTP/1.1 200 "), "others are served"
        _, body = await reply_of(reader)
        assert body.count(b"x" * 50_000) == 200
        assert body.endswith(b"data: [DONE]\n\n")

    served(app.app, use, monkeypatch)


def test_a_client_that_does_not_read_and_leaves_stops_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Served(Answer([sse(delta("x" * 50_000), done=False)] * 400, headers=SSE))

    async def use(serving: Serving) -> None:
        _, writer = await serving.connect()
        writer.write(asked(request(stream=True)))
        steps = -1
        while steps != app.transport.steps:
            steps = app.transport.steps
            await asyncio.sleep(0.2)
        writer.transport.abort()
        await until(lambda: app.ledger.records)
        assert app.ledger.records[0]["status"] == "cancelled"

    served(app.app, use, monkeypatch)
