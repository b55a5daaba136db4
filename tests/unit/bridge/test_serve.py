"""One call from top to bottom, on fakes: what the client sees, what the record says, what the provider was sent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from structlog.testing import CapturingLogger

from fakes import (
    FOREVER,
    JSON,
    SSE,
    Answer,
    FakeLedger,
    FakeReply,
    FakeTransport,
    a_bridge,
    a_call,
    a_log,
    completion,
    delta,
    request,
    sse,
)
from osmosis_bridge.ledger import Trouble
from osmosis_bridge.policy import Policy, admit
from osmosis_bridge.serve import Bridge
from osmosis_bridge.upstream import Reason, TransportError
from virtual_loop import run_in_virtual_time

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
STREAM = sse(delta("he"), delta("y"), delta(finish="stop"), {"choices": [], "usage": USAGE})


class Seen:
    """One served call: the bridge, what the client saw, the one record."""

    def __init__(self, *answers: Answer | TransportError, body: bytes = b"", **fields: Any) -> None:
        self.transport = FakeTransport(*answers)
        self.ledger = fields.pop("ledger", FakeLedger())
        retry = fields.pop("retry_count", None)
        self.bridge = a_bridge(self.transport, self.ledger, **fields)
        self.reply = FakeReply()
        run_in_virtual_time(self.bridge.serve(a_call(body or request(), retry_count=retry), self.reply))
        assert self.transport.open_exchanges == 0
        assert self.bridge.in_flight == 0

    @property
    def record(self) -> dict[str, Any]:
        (record,) = self.ledger.records
        return record

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.reply.body)["error"]

    @property
    def frames(self) -> list[Any]:
        parts = self.reply.body.split(b"\n\n")
        return [json.loads(part[6:]) if part != b"data: [DONE]" else "[DONE]" for part in parts if part]


def streamed(*pieces: bytes | TransportError | str, body: bytes = b"", **fields: Any) -> Seen:
    headers = fields.pop("headers", SSE)
    return Seen(Answer(pieces, headers=headers), body=body or request(stream=True), **fields)


# --- plain replies


def test_a_plain_reply_is_passed_on_and_recorded() -> None:
    seen = Seen(
        Answer([completion(usage={**USAGE, "cost": 0.25})]), body=request(model="mine", seed=1, api_key="K")
    )
    assert (seen.reply.status, seen.reply.ended) == (200, True)
    assert seen.reply.body == completion(usage={**USAGE, "cost": 0.25}).replace(b"up/real", b"mine")
    assert seen.reply.headers == {
        b"content-type": b"application/json", b"x-osmosis-call-id": b"call-1", b"x-osmosis-stripped": b"api_key"
    }  # fmt: skip
    assert seen.record == {
        "call_id": "call-1", "rollout_id": "r-1", "seq": 1, "started_at": "2023-11-14T22:13:20.000Z",
        "duration_ms": 0.0,
        "status": "ok", "dialect": "chat", "lane": "wire", "model": "up/real", "provider": "fake", "alias": "mine",
        "endpoint": "http://127.0.0.1:9", "served_model": "up/real", "stream": False, "http_status": 200,
        "finish_reasons": ["stop"], "usage": USAGE, "usage_source": "provider", "cost_usd": 0.25,
        "stripped": ["api_key"], "forwarded": ["seed"],
    }  # fmt: skip


def told(dialect: str, reply: dict[str, Any], *, status: int = 200) -> dict[str, Any]:
    """The record of a plain call of any dialect."""
    transport, ledger = FakeTransport(Answer([json.dumps(reply).encode()], status=status)), FakeLedger()
    body = json.dumps({"messages": [], "input": "x", "prompt": "x"}).encode()
    call = msgspec.structs.replace(a_call(body), dialect=dialect)
    run_in_virtual_time(a_bridge(transport, ledger).serve(call, FakeReply()))
    return ledger.records[0]


COUNTS = {
    "prompt_tokens": 1,
    "completion_tokens": 2,
    "input_tokens": 1,
    "output_tokens": 2,
    "total_tokens": 3,
}
CHOICES = [{"index": 0, "message": {"content": "a"}, "text": "a", "finish_reason": "stop"}]
REPLIES: dict[str, dict[str, Any]] = {
    "chat": {"choices": CHOICES, "system_fingerprint": "fp_1"},
    "completions": {"choices": CHOICES},
    "responses": {"output": [], "status": "completed"},
    "messages": {"content": [], "stop_reason": "end_turn"},
    "embeddings": {"data": []},
}


@pytest.mark.parametrize("dialect", REPLIES)
def test_the_record_says_which_model_answered_by_the_providers_word(dialect: str) -> None:
    reply = {**REPLIES[dialect], "usage": COUNTS}
    record = told(dialect, {**reply, "model": "real-2024"})
    assert (record["status"], record["served_model"]) == ("ok", "real-2024")
    assert record.get("system_fingerprint") == reply.get("system_fingerprint")
    for none in ("", None, 7, {"a": 1}):
        assert "served_model" not in told(dialect, {**reply, "model": none})
    long = told(dialect, {**reply, "model": "x" * 190 + "the-secret-key"})["served_model"]
    assert len(long) == 200
    assert "the-" not in long


@pytest.mark.parametrize("dialect", REPLIES)
def test_a_reply_that_tells_of_a_failure_still_counts_what_it_used(dialect: str) -> None:
    failed = {"model": "real", "usage": COUNTS, "error": {"message": "no", "code": "server_error"}}
    for reply in (failed, {**REPLIES[dialect], **failed}):
        record = told(dialect, reply)
        assert (record["status"], record["served_model"]) == ("upstream_error", "real")
        assert (record["usage"]["total_tokens"], record["usage_source"]) == (3, "provider")
        assert "usage" not in told(dialect, {**reply, "usage": None})
        assert "usage_source" not in told(dialect, {**reply, "usage": None})


@pytest.mark.parametrize("status", ["failed", "incomplete"])
def test_a_response_that_was_not_completed_counts_what_it_used(status: str) -> None:
    error = {"error": {"code": "rate_limit_exceeded", "message": "x"}} if status == "failed" else {}
    details = {"incomplete_details": {"reason": "max_output_tokens"}} if status == "incomplete" else {}
    record = told("responses", {"output": [], "status": status, "usage": COUNTS, **error, **details})
    assert record["usage"]["total_tokens"] == 3
    expected = ("upstream_error", 429, ["failed"]) if error else ("ok", 200, ["max_output_tokens"])
    assert (record["status"], record["http_status"], record["finish_reasons"]) == expected


def test_of_a_stream_the_first_model_and_fingerprint_that_are_told_stand() -> None:
    opening = delta("a", model="", system_fingerprint=None)
    second = delta("b", model="real-1", system_fingerprint="fp_1")
    seen = streamed(sse(opening, second, delta(finish="stop", model="real-2", system_fingerprint="fp_2")))
    assert (seen.record["served_model"], seen.record["system_fingerprint"]) == ("real-1", "fp_1")


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        (
            "responses",
            [
                {"type": "response.created", "response": {"model": "real-1"}},
                {"type": "response.completed", "response": {"model": "real-2", "status": "completed"}},
            ],
        ),
        (
            "messages",
            [
                {"type": "message_start", "message": {"model": "real-1"}},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn", "model": "real-2"}},
                {"type": "message_stop"},
            ],
        ),
    ],
)
def test_of_typed_events_the_first_model_that_is_told_stands(dialect: str, events: list[Any]) -> None:
    ledger = FakeLedger()
    call = msgspec.structs.replace(
        a_call(json.dumps({"stream": True, "input": "x", "messages": []}).encode()), dialect=dialect
    )
    transport = FakeTransport(Answer([sse(*events, done=False)], headers=SSE))
    run_in_virtual_time(a_bridge(transport, ledger).serve(call, FakeReply()))
    assert (ledger.records[0]["status"], ledger.records[0]["served_model"]) == ("ok", "real-1")


def test_a_translator_of_ours_is_no_provider_that_says_what_answered_or_where() -> None:
    ledger = FakeLedger()
    bridge = a_bridge(FakeTransport(Answer([completion(usage=USAGE)])), ledger)
    native = msgspec.structs.replace(bridge.target, lane="native")
    bridge = replace(bridge, target=native)
    run_in_virtual_time(bridge.serve(a_call(request()), FakeReply()))
    assert ledger.records[0]["lane"] == "native"
    assert not ledger.records[0].keys() & {"endpoint", "served_model"}


def test_the_provider_is_sent_the_admitted_body_with_the_operators_headers_only() -> None:
    plain, stream = Seen(Answer([completion()])), streamed(STREAM)
    assert plain.transport.sent == [
        {
            "target": b"/v1/chat/completions",
            "method": b"POST",
            "headers": {b"accept": b"application/json"},
            "body": admit(request(), Policy("up/real")).body,
            "queue": "r-1",
        }
    ]
    assert stream.transport.sent[0]["headers"] == {b"accept": b"text/event-stream"}
    assert json.loads(stream.transport.sent[0]["body"])["stream_options"] == {"include_usage": True}


def test_the_totals_of_the_rollout_are_those_of_its_records() -> None:
    seen = Seen(Answer([completion(usage=USAGE)]))
    assert seen.bridge.accounts.totals("r-1").as_dict() == {
        "calls": 1, "tokens": 15, "max_context_tokens": 15, "prompt_tokens": 10, "completion_tokens": 5,
        "calls_without_usage": 0,
    }  # fmt: skip


def test_what_the_provider_says_of_limits_and_ids_is_passed_on_and_nothing_else_of_its_head() -> None:
    headers = (
        *JSON, (b"x-request-id", b"req-7"), (b"x-ratelimit-remaining-tokens", b"9"), (b"openai-processing-ms", b"3"),
        (b"retry-after", b"1"), (b"set-cookie", b"a=b"), (b"server", b"x"), (b"content-encoding", b"gzip"),
        (b"openai-organization", b"org"), (b"anthropic-ratelimit-requests-limit", b"the-secret-key"),
    )  # fmt: skip
    seen = Seen(Answer([completion()], headers=headers))
    own = {b"content-type", b"x-osmosis-call-id"}
    assert {name: value for name, value in seen.reply.headers.items() if name not in own} == {
        b"x-request-id": b"req-7", b"x-ratelimit-remaining-tokens": b"9", b"openai-processing-ms": b"3",
        b"retry-after": b"1", b"anthropic-ratelimit-requests-limit": b"[REDACTED]",
    }  # fmt: skip
    assert seen.record["upstream_request_id"] == "req-7"


def test_a_success_that_is_not_200_keeps_its_status() -> None:
    assert Seen(Answer([completion()], status=201)).reply.status == 201


def test_a_plain_request_answered_with_events_is_an_error() -> None:
    seen = Seen(Answer([STREAM], headers=((b"content-type", b"Text/Event-Stream; charset=utf-8"),)))
    assert (seen.reply.status, seen.error["code"]) == (502, "invalid_upstream_reply")
    assert seen.record["status"] == "upstream_error"


def test_a_plain_reply_that_is_cut_is_truncated() -> None:
    seen = Seen(Answer([completion()[:20], TransportError("cut", "the reply ended early")]))
    assert (seen.reply.status, seen.error["code"]) == (502, "upstream_cut")
    assert (seen.record["status"], seen.record["error_code"]) == ("truncated", "upstream_cut")


def test_a_plain_reply_that_comes_too_slowly_is_a_time_out_and_no_truncation() -> None:
    seen = Seen(Answer([completion()[:20], TransportError("timeout_idle", "nothing came for 600 s")]))
    assert (seen.reply.status, seen.error["code"]) == (504, "upstream_timeout")
    assert seen.record["status"] == "upstream_error"


def test_a_reply_without_usage_is_marked_and_counted_as_such() -> None:
    seen = Seen(Answer([completion()]))
    assert seen.record["usage_source"] == "missing"
    assert "usage" not in seen.record
    assert seen.bridge.accounts.whole.calls_without_usage == 1


# --- refusals


def test_a_refused_call_is_recorded_and_nothing_is_sent() -> None:
    seen = Seen(Answer([completion()]), body=b'{"stream":"true","messages":[]}')
    assert seen.transport.sent == []
    assert (seen.reply.status, seen.error["param"], seen.reply.headers[b"x-osmosis-error-origin"]) == (
        400,
        "stream",
        b"bridge",
    )
    assert {key: seen.record.get(key) for key in ("status", "http_status", "error_code", "alias", "usage_source")} == {
        "status": "refused", "http_status": 400, "error_code": "invalid_stream", "alias": None, "usage_source": None
    }  # fmt: skip


def test_controls_are_refused_by_name_where_the_operator_wants_it() -> None:
    seen = Seen(
        Answer([completion()]), body=request(api_base="http://evil"), policy=Policy("up", controls="reject")
    )
    assert (seen.reply.status, seen.error["param"]) == (400, "api_base")
    assert "evil" not in seen.reply.body.decode() + seen.ledger.lines[0].decode()


# --- the provider's failures


@pytest.mark.parametrize(
    "status", [400, 401, 402, 403, 404, 408, 409, 413, 415, 422, 424, 429, 451, 500, 503, 529]
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_providers_error_keeps_its_status_and_what_goes_with_it(status: int, stream: bool) -> None:
    headers = (*JSON, (b"retry-after", b"7"), (b"x-request-id", b"req-9"), (b"www-authenticate", b"x"))
    body = b'{"error":{"message":"no","type":"t","param":"p","code":"c"}}'
    seen = Seen(Answer([body], status=status, headers=headers), body=request(stream=stream))
    assert (seen.reply.status, seen.error) == (
        status,
        {"message": "no", "type": "t", "param": "p", "code": "c"},
    )
    assert seen.reply.headers == {
        b"content-type": b"application/json", b"retry-after": b"7", b"x-request-id": b"req-9",
        b"x-osmosis-call-id": b"call-1", b"x-osmosis-error-origin": b"upstream",
    }  # fmt: skip
    assert (seen.record["status"], seen.record["http_status"], seen.record["error_code"]) == (
        "upstream_error",
        status,
        "c",
    )
    assert "usage_source" not in seen.record


def test_a_provider_is_asked_once_whatever_it_answers() -> None:
    for status in (400, 408, 429, 500, 503):
        assert len(Seen(Answer([b"{}"], status=status)).transport.sent) == 1


def test_an_error_whose_body_breaks_off_is_told_by_its_status() -> None:
    seen = Seen(Answer([b'{"error":', TransportError("cut", "x")], status=429))
    assert (seen.reply.status, seen.error["type"]) == (429, "rate_limit_error")


def test_an_error_page_is_told_in_words_and_without_secrets() -> None:
    page = b"<html><title>Bad gateway</title><p>the-secret-key at gpu-7.internal</p></html>"
    seen = Seen(Answer([page], status=502, headers=((b"content-type", b"text/html"),)))
    assert seen.reply.status == 502
    assert seen.error["message"] == "the provider answered 502: Bad gateway: [REDACTED] at [private host]"


def test_an_error_under_http_200_is_an_error() -> None:
    seen = Seen(Answer([b'{"error":{"message":"slow","code":429}}']))
    assert (seen.reply.status, seen.error["message"], seen.record["status"]) == (
        429,
        "slow",
        "upstream_error",
    )


TRANSPORT_FAULTS: list[tuple[Reason, int, str]] = [
    ("connect", 502, "upstream_unreachable"), ("tls", 502, "upstream_tls"),
    ("timeout_connect", 504, "upstream_timeout"),
    ("timeout_idle", 504, "upstream_timeout"), ("timeout_total", 504, "upstream_timeout"), ("cut", 502, "upstream_cut"),
    ("malformed", 502, "invalid_upstream_reply"), ("too_large", 502, "upstream_reply_too_large"),
    ("no_slot", 503, "upstream_busy"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "status", "code"), TRANSPORT_FAULTS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_provider_that_cannot_be_reached_has_a_status_by_its_reason(
    reason: Reason, status: int, code: str, stream: bool
) -> None:
    seen = Seen(TransportError(reason, "the-secret-key"), body=request(stream=stream))
    assert (seen.reply.status, seen.error["code"]) == (status, code)
    assert (seen.record["status"], seen.record["http_status"], seen.record["error_code"]) == (
        "upstream_error",
        status,
        code,
    )
    assert "the-secret-key" not in seen.reply.body.decode()


def test_a_call_that_found_no_slot_is_told_when_to_come_back() -> None:
    seen = Seen(TransportError("no_slot", "all 1000 are in use"))
    assert (seen.reply.headers[b"retry-after"], seen.reply.headers[b"x-osmosis-error-origin"]) == (
        b"1",
        b"bridge",
    )


# --- streams


def test_a_stream_is_relayed_and_its_end_sent_after_the_record_is_kept() -> None:
    class Client(FakeReply):
        async def end(self, piece: bytes) -> None:
            assert len(ledger.lines) == 1
            await super().end(piece)

    ledger, transport, reply = FakeLedger(), FakeTransport(Answer([STREAM], headers=SSE)), Client()
    asyncio.run(a_bridge(transport, ledger).serve(a_call(request(stream=True)), reply))
    assert reply.pieces[-1] == b"data: [DONE]\n\n"
    assert reply.body == sse(delta("he"), delta("y"), delta(finish="stop")).replace(b"up/real", b"m")
    assert reply.headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert ledger.records[0]["usage"] == USAGE


def test_a_plain_reply_too_is_sent_after_the_record_is_kept() -> None:
    class Client(FakeReply):
        async def start(self, status: int, headers: Any) -> None:
            assert len(ledger.lines) == 1
            await super().start(status, headers)

    ledger, reply = FakeLedger(), Client()
    asyncio.run(a_bridge(FakeTransport(Answer([completion()])), ledger).serve(a_call(request()), reply))
    assert reply.ended


def test_each_piece_is_relayed_as_it_comes() -> None:
    first, second = sse(delta("a"), done=False), sse(delta("b"), done=False)
    seen = streamed(first, second, sse(delta(finish="stop")))
    assert len(seen.reply.pieces) == 4
    assert seen.reply.pieces[0] == first.replace(b"up/real", b"m")


def test_the_time_to_the_first_event_is_recorded() -> None:
    ticks = iter((1.0, 3.0))
    seen = streamed(b": wait\n\n", STREAM, clock=lambda: next(ticks))
    assert (seen.record["ttft_ms"], seen.record["duration_ms"]) == (1000.0, 3000.0)


@pytest.mark.parametrize(
    ("event", "status", "code"),
    [
        (sse({"error": {"code": 429, "message": "x"}}), 429, "429"),
        (b'event: error\ndata: {"message":"boom"}\n\n', 502, "upstream_error"),
        (sse({"object": "error", "message": "EngineDead", "code": 500}), 500, "500"),
        (b"data: [DONE]\n\n", 502, "upstream_truncated"),
        (b"", 502, "upstream_truncated"),
    ],
)
def test_an_error_as_the_first_event_has_a_status(event: bytes, status: int, code: str) -> None:
    seen = streamed(b": hello\n\n" + event)
    assert (seen.reply.status, seen.reply.headers[b"content-type"]) == (status, b"application/json")
    assert seen.reply.headers[b"x-osmosis-error-origin"] == b"upstream"
    expected = "truncated" if code == "upstream_truncated" else "upstream_error"
    assert (seen.record["status"], seen.record["http_status"], seen.record["error_code"]) == (
        expected,
        status,
        code,
    )


@pytest.mark.parametrize("reason", ["cut", "timeout_idle", "malformed"])
def test_a_stream_that_breaks_off_ends_with_an_error_event(reason: Reason) -> None:
    seen = streamed(sse(delta("he"), done=False), TransportError(reason, "the connection was reset"))
    assert seen.reply.status == 200
    assert "[DONE]" not in seen.frames
    message = seen.frames[-1]["error"]["message"]
    assert message.startswith("the provider could not answer: the connection was reset; ")
    assert (seen.record["status"], seen.record["http_status"]) == ("truncated", 200)
    assert seen.record["usage_source"] == "missing"


def test_usage_that_a_broken_stream_had_given_is_kept() -> None:
    seen = streamed(sse(delta("he", usage=USAGE), done=False))
    assert (seen.record["status"], seen.record["usage"]) == ("truncated", USAGE)


def test_an_error_within_a_stream_is_relayed_and_recorded() -> None:
    seen = streamed(sse(delta("he"), {"error": {"message": "boom", "code": 500}}, delta(finish="stop")))
    assert [frame.get("error", {}).get("message") for frame in seen.frames] == [None, "boom"]
    assert (seen.record["status"], seen.record["error_code"]) == ("upstream_error", "500")


@pytest.mark.parametrize(
    "kind", [b"application/json", b"text/html", b"text/plain", b"application/problem+json", b""]
)
def test_an_error_body_in_place_of_a_stream_is_that_error(kind: bytes) -> None:
    for pieces in ([b'{"error":{"message":"over', b'loaded","code":503}}'], [b' \n{"error":"overloaded"}']):
        seen = streamed(*pieces, headers=((b"content-type", kind),))
        assert (seen.error["message"], seen.record["status"]) == ("overloaded", "upstream_error")


def test_a_completion_in_place_of_a_stream_is_refused_and_its_usage_kept() -> None:
    seen = streamed(completion(usage=USAGE), headers=JSON)
    assert (seen.reply.status, seen.error["code"]) == (502, "invalid_upstream_stream")
    assert (seen.record["status"], seen.record["usage"], seen.record["http_status"]) == (
        "upstream_error",
        USAGE,
        502,
    )


def test_a_stream_under_another_name_is_relayed_all_the_same() -> None:
    for kind in (b"text/plain", b"application/octet-stream", b""):
        seen = streamed(b": x\n\n", STREAM, headers=((b"content-type", kind),))
        assert seen.frames[-1] == "[DONE]"
    assert streamed(b"", headers=((b"content-type", b"text/plain"),)).record["status"] == "truncated"


def test_a_body_of_no_name_that_breaks_off_at_once_is_an_error() -> None:
    seen = streamed(TransportError("cut", "x"), headers=())
    assert (seen.reply.status, seen.error["code"]) == (502, "upstream_cut")


def test_what_follows_the_end_is_read_so_that_the_connection_can_be_used_again() -> None:
    seen = streamed(STREAM, b"\n", b": bye\n\n")
    assert seen.record["status"] == "ok"
    assert seen.transport.steps == 5
    assert streamed(STREAM, TransportError("cut", "x")).record["status"] == "ok"


def test_a_provider_that_never_closes_is_not_waited_for() -> None:
    assert streamed(STREAM, FOREVER).reply.ended


# --- signs of life


def test_a_silent_stream_sends_comments_and_its_error_comes_as_an_event() -> None:
    class Slow(FakeTransport):
        async def step(self) -> None:
            await asyncio.sleep(40)
            await super().step()

    def serve(*pieces: bytes) -> tuple[FakeReply, FakeLedger]:
        ledger, reply = FakeLedger(), FakeReply()
        bridge = a_bridge(Slow(Answer(pieces, headers=SSE)), ledger, keepalive_s=15.0)
        run_in_virtual_time(bridge.serve(a_call(request(stream=True)), reply))
        return reply, ledger

    reply, ledger = serve(STREAM)
    assert reply.body.startswith(b": keep-alive\n\n" * 5 + b"data: ")
    assert reply.body.endswith(b"data: [DONE]\n\n")
    assert reply.headers[b"content-type"].startswith(b"text/event-stream")
    reply, ledger = serve(sse({"error": {"message": "late", "code": 429}}))
    assert (reply.status, reply.pieces[-1]) == (
        200,
        b'data: {"error":{"message":"late","type":"rate_limit_error","param":null,"code":429}}\n\n',
    )
    assert ledger.records[0]["status"] == "upstream_error"


def test_a_slow_plain_reply_begins_with_white_space_where_the_operator_wants_it() -> None:
    class Slow(FakeTransport):
        async def step(self) -> None:
            await asyncio.sleep(25)
            await super().step()

    def serve(answer: Answer | TransportError, seconds: float) -> FakeReply:
        reply = FakeReply()
        bridge = a_bridge(Slow(answer), plain_keepalive_s=seconds)
        run_in_virtual_time(bridge.serve(a_call(request()), reply))
        return reply

    reply = serve(Answer([completion()]), 10.0)
    assert reply.body == b" " * 7 + completion().replace(b"up/real", b"m")
    assert (reply.status, reply.headers[b"content-type"]) == (200, b"application/json")
    assert json.loads(serve(TransportError("cut", "x"), 10.0).body)["error"]["code"] == "upstream_cut"
    assert serve(TransportError("cut", "x"), 0.0).status == 502


# --- clients that leave


def leave_when(bridge: Bridge, transport: FakeTransport, reply: FakeReply, body: bytes, steps: int) -> None:
    """Serve a call and cancel it once the transport was waited for `steps` times."""

    async def main() -> None:
        serving = asyncio.ensure_future(bridge.serve(a_call(body), reply))
        async with asyncio.timeout(10):
            while transport.steps < steps:
                await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "stream", "steps"),
    [
        (Answer([FOREVER], headers=SSE), True, 2),
        (Answer([sse(delta("he"), done=False), FOREVER], headers=SSE), True, 3),
        (Answer([FOREVER]), False, 2),
        (Answer([FOREVER], status=500), False, 2),
    ],
)
def test_a_client_that_leaves_closes_the_upstream_and_is_recorded_as_cancelled(
    answer: Answer, stream: bool, steps: int
) -> None:
    transport, ledger, reply = FakeTransport(answer), FakeLedger(), FakeReply()
    leave_when(a_bridge(transport, ledger), transport, reply, request(stream=stream), steps)
    assert transport.open_exchanges == 0
    assert [(record["status"], record.get("usage_source")) for record in ledger.records] == [
        ("cancelled", "missing")
    ]
    assert not reply.ended


def test_a_cancelled_call_keeps_the_usage_it_had() -> None:
    pieces = [sse(delta("he", usage=USAGE), done=False), FOREVER]
    transport, ledger = FakeTransport(Answer(pieces, headers=SSE)), FakeLedger()
    leave_when(a_bridge(transport, ledger), transport, FakeReply(), request(stream=True), 3)
    assert ledger.records[0]["usage"] == USAGE


def test_a_cancelled_call_whose_record_is_refused_still_closes_the_upstream() -> None:
    transport, ledger = FakeTransport(Answer([FOREVER])), FakeLedger(fail_at=1)
    leave_when(a_bridge(transport, ledger), transport, FakeReply(), request(), 2)
    assert (transport.open_exchanges, ledger.lines) == (0, [])


# --- the ledger refuses, or we are at fault


def test_while_its_record_waits_a_plain_call_is_a_500_that_counts_and_is_not_to_be_sent_again() -> None:
    seen = Seen(Answer([completion(usage=USAGE)]), ledger=FakeLedger(fail_at=1))
    assert (seen.reply.status, seen.error["code"], seen.ledger.lines) == (500, "ledger_unavailable", [])
    assert b"56" not in seen.reply.body
    assert seen.reply.headers[b"x-should-retry"] == b"false"
    assert (seen.bridge.accounts.whole.calls, seen.bridge.accounts.whole.tokens) == (1, 15)
    seen.ledger.mend()
    assert (seen.ledger.records[0]["usage"], seen.ledger.records[0]["http_status"]) == (USAGE, 500)


def test_while_no_record_can_be_kept_nothing_is_sent_and_a_client_may_come_back() -> None:
    ledger = FakeLedger(fail_from=1)
    ledger.trouble = Trouble("/x/calls.jsonl", "cannot be written: No space left on device", "make room")
    seen = Seen(Answer([completion(usage=USAGE)]), ledger=ledger)
    assert (seen.reply.status, seen.error["code"], seen.error["type"]) == (
        503,
        "ledger_unavailable",
        "server_error",
    )
    assert all(
        word in seen.error["message"] for word in ("/x/calls.jsonl", "No space left on device", "make room")
    )
    assert seen.reply.headers[b"retry-after"] == b"1"
    assert b"x-should-retry" not in seen.reply.headers
    assert seen.transport.sent == []
    ledger.mend()
    assert [(record["status"], record["http_status"]) for record in ledger.records] == [("refused", 503)]


def test_without_a_record_a_stream_ends_with_an_error_event() -> None:
    seen = streamed(STREAM, ledger=FakeLedger(fail_at=1))
    assert seen.frames[-1]["error"]["code"] == "ledger_unavailable"
    assert b"[DONE]" not in seen.reply.body


def test_without_a_record_a_refusal_and_a_providers_error_are_a_500_too() -> None:
    for seen in (
        Seen(Answer([completion()]), body=b"{", ledger=FakeLedger(fail_at=1)),
        Seen(Answer([b"{}"], status=429), ledger=FakeLedger(fail_at=1)),
    ):
        assert (seen.reply.status, seen.error["code"]) == (500, "ledger_unavailable")


def test_a_call_whose_record_waits_is_logged_as_its_client_saw_it() -> None:
    kept = CapturingLogger()
    Seen(Answer([completion()]), ledger=FakeLedger(fail_at=1), log=a_log(kept))
    (line,) = kept.calls
    assert (line.kwargs["event"], line.kwargs["http_status"], line.kwargs["error_code"]) == (
        "call", 500, "ledger_unavailable"
    )  # fmt: skip


def test_every_call_is_logged_in_one_line_at_its_end() -> None:
    kept = CapturingLogger()
    Seen(Answer([completion("THE ANSWER", usage=USAGE)]), log=a_log(kept), body=request(api_key="K"))
    (line,) = kept.calls
    assert line.kwargs["event"] == "call"
    assert (line.kwargs["status"], line.kwargs["tokens"], line.kwargs["stripped"]) == ("ok", 15, ["api_key"])
    assert "THE ANSWER" not in repr(line)


def test_a_fault_of_ours_is_recorded_and_raised() -> None:
    class Broken(FakeTransport):
        async def step(self) -> None:
            raise ZeroDivisionError

    ledger, transport = FakeLedger(), Broken(Answer())
    with pytest.raises(ZeroDivisionError):
        asyncio.run(a_bridge(transport, ledger).serve(a_call(request()), FakeReply()))
    assert [(record["http_status"], record["error_code"]) for record in ledger.records] == [
        (500, "internal_error")
    ]


def test_names_and_aliases_of_any_length_make_no_long_record() -> None:
    fields = {f"{'x' * 10_000}{number}": 1 for number in range(200)}
    controls = {f"aws_{'x' * 10_000}{number}": 1 for number in range(200)}
    seen = Seen(Answer([completion()]), body=request(**fields, **controls, model="m" * 100_000))
    assert len(seen.ledger.lines[0]) < 32_000
    assert len(seen.record["forwarded"]) == len(seen.record["stripped"]) == 64


def test_a_secret_used_as_a_name_is_in_no_record_and_no_reply() -> None:
    seen = Seen(
        Answer([completion()]),
        body=request(model="the-secret-key", **{"the-secret-key": 1, "aws_the-secret-key": 1}),
    )
    assert b"the-secret-key" not in seen.ledger.lines[0] + seen.reply.body


def test_an_odd_finish_reason_does_not_cost_the_record() -> None:
    body = b'{"choices":[{"index":0,"message":{},"finish_reason":"\\ud800"}]}'
    assert Seen(Answer([body])).record["finish_reasons"] == ["?"]


# --- clients that ask again


class Client:
    """Calls one bridge again and again; counts what the provider was asked."""

    def __init__(self, *answers: Answer | TransportError, **fields: Any) -> None:
        self.transport = FakeTransport(*answers)
        self.ledger = FakeLedger()
        self.bridge = a_bridge(self.transport, self.ledger, **fields)

    async def call(self, retry_count: int | None, body: bytes = b"", rollout_id: str = "r-1") -> FakeReply:
        reply = FakeReply()
        await self.bridge.serve(a_call(body or request(), rollout_id, retry_count=retry_count), reply)
        return reply


@pytest.mark.parametrize("stream", [False, True])
def test_a_marked_retry_gets_the_finished_reply_again_and_is_paid_for_once(stream: bool) -> None:
    async def main() -> None:
        answer = Answer([STREAM], headers=SSE) if stream else Answer([completion(usage=USAGE)])
        client = Client(answer)
        body = request(stream=stream)
        first, again = await client.call(0, body), await client.call(1, body)
        assert again.body == first.body
        assert again.headers[b"content-type"] == first.headers[b"content-type"]
        assert len(client.transport.sent) == 1
        assert [record.get("replay_of") for record in client.ledger.records] == [None, "call-1"]
        assert client.bridge.accounts.whole.as_dict()["tokens"] == 15

    asyncio.run(main())


def test_a_marked_retry_joins_an_attempt_that_is_still_running() -> None:
    async def main() -> None:
        client = Client(Answer([completion(usage=USAGE)]))
        replies = await asyncio.gather(client.call(0), client.call(1))
        assert replies[0].body == replies[1].body
        assert len(client.transport.sent) == 1
        assert len(client.ledger.lines) == 2

    asyncio.run(main())


def test_an_attempt_that_failed_is_made_again() -> None:
    async def main() -> None:
        client = Client(TransportError("connect", "x"), Answer([completion()]))
        assert (await client.call(0)).status == 502
        assert (await client.call(1)).status == 200
        assert [record["status"] for record in client.ledger.records] == ["upstream_error", "ok"]

    asyncio.run(main())


def test_unmarked_calls_other_bodies_and_other_rollouts_are_new_samples() -> None:
    async def main() -> None:
        client = Client(Answer([completion()]))
        await client.call(0)
        await client.call(None)
        await client.call(0)
        await client.call(1, request(seed=1))
        await client.call(1, rollout_id="r-2")
        assert len(client.transport.sent) == 5

    asyncio.run(main())


def test_an_attempt_serves_one_retry() -> None:
    async def main() -> None:
        client = Client(Answer([completion()]))
        await client.call(0)
        await client.call(1)
        await client.call(2)
        assert len(client.transport.sent) == 2

    asyncio.run(main())


# --- lanes


def test_on_the_native_lane_every_dialect_goes_to_the_translator_on_its_own_route() -> None:
    refusal = {"error": {"message": "no", "type": "invalid_request_error", "code": "dialect_not_translated"}}
    refused = Answer(
        [json.dumps(refusal).encode()], status=400, headers=((b"x-osmosis-error-origin", b"bridge"),)
    )
    transport, ledger = FakeTransport(refused), FakeLedger()
    bridge = a_bridge(transport, ledger)
    bridge.target = msgspec.structs.replace(bridge.target, lane="native")
    reply = FakeReply()
    call = msgspec.structs.replace(a_call(b'{"messages":[],"max_tokens":1}'), dialect="messages")
    asyncio.run(bridge.serve(call, reply))
    assert transport.sent[0]["target"].endswith(b"/messages")
    record = ledger.records[0]
    assert (reply.status, record["dialect"], record["status"]) == (400, "messages", "refused")
    assert record["error_code"] == "dialect_not_translated"
    assert json.loads(reply.body) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "no"},
    }


@pytest.mark.parametrize(
    ("code", "status"), [("upstream_cut", "truncated"), ("rate_limited", "upstream_error")]
)
def test_a_stream_that_the_translator_saw_break_off_is_truncated(code: str, status: str) -> None:
    error = {"error": {"message": "m", "type": "upstream_error", "param": None, "code": code}}
    transport, ledger = (
        FakeTransport(Answer([sse(delta("he"), error, done=False)], headers=SSE)),
        FakeLedger(),
    )
    bridge = a_bridge(transport, ledger)
    bridge.target = msgspec.structs.replace(bridge.target, lane="native")
    asyncio.run(bridge.serve(a_call(request(stream=True)), FakeReply()))
    assert ledger.records[0]["status"] == status


@pytest.mark.parametrize(("body", "status", "told"), [(b"<p>hi", 200, b"false"), (b"{}", 503, None)])
def test_an_answer_that_was_paid_for_is_not_asked_for_again(
    body: bytes, status: int, told: bytes | None
) -> None:
    reply = FakeReply()
    bridge = a_bridge(FakeTransport(Answer([body], status=status)))
    asyncio.run(bridge.serve(a_call(request()), reply))
    assert reply.headers.get(b"x-should-retry") == told


def test_a_call_whose_record_is_lost_is_not_paid_for_again_by_an_sdk_of_its_own_accord() -> None:
    reply, transport = FakeReply(), FakeTransport(Answer([completion(usage=USAGE)]))
    asyncio.run(a_bridge(transport, FakeLedger(fail_at=1)).serve(a_call(request()), reply))
    assert (reply.status, reply.headers[b"x-should-retry"]) == (500, b"false")
