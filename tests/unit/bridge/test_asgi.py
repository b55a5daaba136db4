"""A call by way of ASGI: its body in messages, its reply in messages, and a client that leaves in one of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asgi_bridge import TOKEN, Served
from fakes import FOREVER, SSE, Answer, FakeTransport, completion, delta, request, sse
from osmosis_bridge.asgi import AsgiCall, AsgiReply
from osmosis_bridge.dialects.chat import CHAT_DIALECT

CALL = "/v1/chat/completions"


def test_a_body_comes_in_pieces_and_is_read_no_further_than_its_limit() -> None:
    async def body(limit: int, *pieces: bytes) -> list[bytes | int]:
        found: list[bytes | int] = []
        messages: list[dict[str, Any]] = [
            *({"type": "http.request", "body": piece, "more_body": True} for piece in pieces),
            {"type": "http.request"},
        ]

        async def receive() -> dict[str, Any]:
            if not messages:
                await asyncio.Event().wait()
            return messages.pop(0)

        call = AsgiCall({"headers": []}, receive, CHAT_DIALECT, None, AsgiReply(receive_nothing))
        async with call as asked:
            found += (await asked.body(limit), len(messages))
        return found

    assert asyncio.run(body(10, b"a", b"b")) == [b"ab", 0]
    assert asyncio.run(body(1, b"a", b"b", b"c")) == [b"ab", 2]


async def receive_nothing(message: Any) -> None:
    raise AssertionError(message)


class Line:
    """One connection by hand: `receive` gives what is put, `send` notes what comes."""

    def __init__(self, served: Served, path: str = CALL, body: bytes | None = b"") -> None:
        self.served = served
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        headers = [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer " + TOKEN.encode())]
        self.scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "headers": headers}
        if body is not None:
            self.inbox.put_nowait({"type": "http.request", "body": body or request(stream=True)})

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def serve(self) -> None:
        await self.served.app(self.scope, self.inbox.get, self.send)

    def leave(self) -> None:
        self.inbox.put_nowait({"type": "http.disconnect"})


@pytest.mark.parametrize("pieces", [[FOREVER], [sse(delta("he"), done=False), FOREVER]])
def test_a_client_that_leaves_stops_its_call_at_once(pieces: list[bytes | str]) -> None:
    async def main() -> None:
        served = Served(Answer(pieces, headers=SSE))
        line = Line(served)
        serving = asyncio.ensure_future(line.serve())
        async with asyncio.timeout(10):
            while served.transport.steps < len(pieces) + 1:
                await asyncio.sleep(0)
            line.leave()
            await serving
        assert (served.transport.open_exchanges, served.bridge.in_flight) == (0, 0)
        assert [record["status"] for record in served.ledger.records] == ["cancelled"]

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_of_http_1_0_gets_a_whole_reply_with_its_length(stream: bool) -> None:
    async def main() -> None:
        pieces = [sse(delta("a"), done=False), sse(delta(finish="stop"))]
        served = Served(Answer(pieces, headers=SSE) if stream else Answer([completion()]))
        line = Line(served, body=request(stream=stream))
        line.scope["http_version"] = "1.0"
        await line.serve()
        head, body = line.sent
        assert dict(head["headers"])[b"content-length"] == str(len(body["body"])).encode()
        assert not body.get("more_body", False)
        assert body["body"].endswith(b"data: [DONE]\n\n" if stream else b"}")

    asyncio.run(main())


def test_a_client_that_leaves_while_it_sends_its_request_leaves_no_record() -> None:
    async def main() -> None:
        served = Served()
        line = Line(served, body=None)
        line.inbox.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
        line.leave()
        await line.serve()
        assert (served.ledger.appends, line.sent[0]["status"]) == (0, 400)

    asyncio.run(main())


def test_a_client_that_leaves_after_its_reply_changes_nothing() -> None:
    async def main() -> None:
        # What follows the end keeps the call busy while the client goes.
        served = Served(Answer([sse(delta(finish="stop")), b"\n", b"\n", b"\n", b"\n"], headers=SSE))
        line = Line(served)
        serving = asyncio.ensure_future(line.serve())
        async with asyncio.timeout(10):
            while not (line.sent and not line.sent[-1].get("more_body", False) and "body" in line.sent[-1]):
                await asyncio.sleep(0)
            line.leave()
            await serving
        assert [record["status"] for record in served.ledger.records] == ["ok"]

    asyncio.run(main())


def test_the_end_of_the_server_is_no_client_that_left() -> None:
    async def main() -> None:
        served = Served(Answer([FOREVER]))
        line = Line(served, body=request())
        serving = asyncio.ensure_future(line.serve())
        async with asyncio.timeout(10):
            while served.transport.steps < 2:
                await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert [record["status"] for record in served.ledger.records] == ["cancelled"]

    asyncio.run(main())


def test_a_call_is_served_within_a_task() -> None:
    async def main() -> None:
        line = Line(Served())
        coroutine = line.serve()
        said = asyncio.get_running_loop().create_future()

        def outside_of_a_task() -> None:
            try:
                coroutine.send(None)
            except RuntimeError as error:
                said.set_result(str(error))

        asyncio.get_running_loop().call_soon(outside_of_a_task)
        assert await said == "a call is served within a task"

    asyncio.run(main())


def test_anything_but_http_is_passed_over() -> None:
    async def main() -> None:
        line = Line(Served())
        line.scope = {"type": "lifespan"}
        await line.serve()
        assert line.sent == []

    asyncio.run(main())


def test_a_fault_within_a_stream_leaves_it_unfinished() -> None:
    class BreaksLater(FakeTransport):
        async def step(self) -> None:
            await super().step()
            if self.steps == 3:
                raise ZeroDivisionError

    async def main() -> None:
        served = Served(transport=BreaksLater(Answer([sse(delta("a"), done=False)], headers=SSE)))
        line = Line(served)
        await line.serve()
        assert [message["type"] for message in line.sent] == ["http.response.start", "http.response.body"]
        assert line.sent[-1]["more_body"] is True
        assert served.ledger.records[0]["error_code"] == "internal_error"

    asyncio.run(main())
