"""The door of the native lane's process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from osmosis_bridge.errors import BridgeError, Refused, UpstreamFailed
from osmosis_bridge.native.app import NativeApp
from osmosis_bridge.native.gate import Explained
from osmosis_bridge.native.lane import Spoken, Whole
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.plan import Unsupported
from osmosis_bridge.redact import Redactor
from spoken_plainly import Plainly, line

HEADERS = httpx.Headers(
    [("x-amzn-requestid", "rq"), ("set-cookie", "c"), ("x-ratelimit-limit-requests", "9")]
)


class Call:
    relayed: httpx.Response | None = None
    translation: Any = None
    stream = False
    headers = HEADERS
    error: BridgeError | None = None
    fault: Exception | None = None
    closed = False

    def whole(self) -> Whole:
        if self.fault is not None:
            raise self.fault
        return Whole({"choices": []}, HEADERS)

    async def events(self) -> AsyncIterator[bytes]:
        yield b""
        if self.error is not None and self.error.status == 400:
            raise self.error
        yield b"data: 1\n\n"
        if self.error is not None:
            raise self.error
        yield b"data: [DONE]\n\n"

    async def close(self) -> None:
        self.closed = True


class Lane:
    ready = False

    def __init__(self, call: Call) -> None:
        self.call = call
        self.asked: list[tuple[bytes, str, str]] = []

    async def open(self, body: bytes, rollout_id: str, spoken: Spoken) -> Call:
        self.asked.append((body, rollout_id, spoken.route))
        return self.call

    async def explain(self, body: bytes, rollout_id: str, spoken: Spoken) -> Explained:
        self.asked.append((body, rollout_id, spoken.route))
        if self.call.error is not None:
            raise self.call.error
        request = httpx.Request(
            "POST", "https://h/p?key=s3cret&alt=sse", headers={"x-goog-api-key": "s3cret", "x-note": "n"}
        )
        return Explained((FieldRow("a", "forwarded", "a"),), request, {"a": 1})


def ask(
    call: Call, path: str = "/v1/chat/completions", *, bearer: str = "b", method: str = "POST"
) -> tuple[httpx.Response, Lane]:
    lane: Any = Lane(call)

    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(NativeApp(lane, "b", Redactor(["s3cret"])))
        async with httpx.AsyncClient(transport=transport, base_url="http://w") as client:
            headers = {"authorization": f"Bearer {bearer}", "x-osmosis-rollout-id": "r-1"}
            return await client.request(method, path, headers=headers, content=b"{}")

    return asyncio.run(main()), lane


def test_health_answers_before_anything_is_loaded_and_asks_for_no_bearer() -> None:
    reply, _ = ask(Call(), "/health", bearer="wrong", method="GET")
    assert reply.json() == {"status": "ok", "loaded": False}


def test_a_wrong_bearer_or_route_is_refused() -> None:
    assert ask(Call(), bearer="wrong")[0].status_code == 401
    assert ask(Call(), "/v1/other")[0].status_code == 404


def test_a_whole_reply_carries_the_provider_s_headers_but_those_of_the_connection() -> None:
    call = Call()
    reply, lane = ask(call)
    assert reply.json() == {"choices": []}
    assert reply.headers["x-request-id"] == "rq"
    assert reply.headers["x-ratelimit-limit-requests"] == "9"
    assert "set-cookie" not in reply.headers
    assert lane.asked == [(b"{}", "r-1", "/chat/completions")]
    assert call.closed


def test_a_stream_passes_its_events_on() -> None:
    call = Call()
    call.stream = True
    reply, _ = ask(call)
    assert reply.text == "data: 1\n\ndata: [DONE]\n\n"
    assert reply.headers["content-type"].startswith("text/event-stream")


def test_a_stream_that_fails_ends_with_the_error_and_without_done() -> None:
    call = Call()
    call.stream = True
    call.error = UpstreamFailed("cut", code="upstream_cut")
    reply, _ = ask(call)
    assert json.loads(reply.text.split("data: ")[-1])["error"]["code"] == "upstream_cut"
    assert "[DONE]" not in reply.text


def test_a_stream_that_fails_before_it_began_is_an_error_of_its_own() -> None:
    call = Call()
    call.stream = True
    call.error = Refused("no", code="x")
    reply, _ = ask(call)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "x")
    assert call.closed


def test_a_relayed_reply_passes_with_its_status_and_bytes() -> None:
    call = Call()
    call.relayed = httpx.Response(
        418, headers={"retry-after": "3", "content-type": "application/x"}, stream=httpx.ByteStream(b"raw ")
    )
    reply, _ = ask(call)
    assert (reply.status_code, reply.content, reply.headers["retry-after"]) == (418, b"raw ", "3")
    assert reply.headers["content-type"] == "application/x"


def test_a_fault_of_ours_is_an_error_of_its_own_without_its_details() -> None:
    call = Call()
    call.fault = ZeroDivisionError("with the prompt in it")
    reply, _ = ask(call)
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal_error")
    assert "prompt" not in reply.text
    assert call.closed


def test_an_explanation_masks_what_authorises() -> None:
    reply, _ = ask(Call(), "/v1/explain/chat/completions")
    outgoing = reply.json()["outgoing"]
    assert "s3cret" not in reply.text
    assert outgoing["headers"]["x-note"] == "n"
    assert outgoing["url"].endswith("&alt=sse")
    assert reply.json()["fields"] == [{"field": "a", "became": "forwarded", "at": "a"}]


def spoken_call(*, stream: bool = False) -> Call:
    call = Call()
    call.stream = stream
    call.translation = Plainly({"stream": stream})
    return call


def chat_stream(*events: bytes) -> httpx.ByteStream:
    return httpx.ByteStream(b"".join(events))


SAID = line({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]})


def test_every_dialect_has_its_route_and_its_explanation() -> None:
    for route in ("/messages", "/responses", "/completions", "/embeddings"):
        reply, lane = ask(Call(), f"/v1{route}")
        assert (reply.status_code, lane.asked) == (200, [(b"{}", "r-1", route)])
        assert ask(Call(), f"/v1/explain{route}")[1].asked == [(b"{}", "r-1", route)]


def test_a_relayed_stream_is_said_in_the_client_s_dialect() -> None:
    call = spoken_call(stream=True)
    call.relayed = httpx.Response(
        200,
        headers={"content-type": "text/event-stream", "x-request-id": "rq"},
        stream=chat_stream(SAID, b"data: [DONE]\n\n"),
    )
    reply, _ = ask(call, "/v1/messages")
    assert reply.content == line("hi") + line("END")
    assert reply.headers["x-request-id"] == "rq"
    assert call.closed


def test_a_relayed_stream_that_is_cut_ends_with_an_error() -> None:
    class Cut(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield SAID
            raise httpx.ReadError("gone")

    call = spoken_call(stream=True)
    call.relayed = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Cut())
    reply, _ = ask(call, "/v1/messages")
    assert reply.content.startswith(line("hi"))
    assert b"upstream_cut" in reply.content
    assert b"END" not in reply.content


def test_a_stream_that_was_made_here_is_said_in_the_client_s_dialect() -> None:
    class Made(Call):
        async def events(self) -> AsyncIterator[bytes]:
            yield SAID
            if self.error is not None:
                raise self.error
            yield b"data: [DONE]\n\n"

    call = Made()
    call.stream, call.translation = True, Plainly({"stream": True})
    assert ask(call, "/v1/messages")[0].content == line("hi") + line("END")
    call = Made()
    call.stream, call.translation = True, Plainly({"stream": True})
    call.error = UpstreamFailed("busy", code="theirs")
    content = ask(call, "/v1/messages")[0].content
    assert b"theirs" in content
    assert b"END" not in content


def test_an_error_under_http_200_is_an_error_of_the_provider_s() -> None:
    call = spoken_call()
    error = {"error": {"message": "busy", "type": "rate_limit_error"}}
    call.relayed = httpx.Response(
        200, headers={"retry-after": "3"}, stream=httpx.ByteStream(json.dumps(error).encode())
    )
    reply, _ = ask(call, "/v1/messages")
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "3")
    assert reply.headers["x-osmosis-error-origin"] == "upstream"


def test_an_explanation_of_what_is_refused_names_all_of_it() -> None:
    call = Call()
    call.error = Unsupported({"seed": "no such parameter", "user": "neither"})
    reply, _ = ask(call, "/v1/explain/chat/completions")
    assert reply.status_code == 400
    assert reply.json()["refused"] == {"seed": "no such parameter", "user": "neither"}
    assert reply.json()["error"]["param"] == "seed"
