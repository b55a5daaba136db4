"""OpenAI Responses: what is relayed, what is read, and that no stream gains an ending."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes import admitted
from osmosis_bridge.call import Usage
from osmosis_bridge.dialects.responses import RESPONSES_DIALECT, ResponsesStream
from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.redact import Redactor
from typed_events import (
    RESPONSES,
    RESPONSES_USAGE,
    call_events,
    event,
    numbered,
    response,
    responses_stream,
    text_events,
    text_item,
)

REDACTOR = Redactor(["the-secret-key"], ["gpu-7.internal"])
USAGE = Usage(20, 8, 28, 12, 3, 5)
BEGUN = numbered(
    ("response.created", {"response": response("in_progress")}),
    ("response.in_progress", {"response": response("in_progress")}),
)


def plain(body: bytes | dict[str, Any], alias: str = "m"):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return RESPONSES_DIALECT.read_reply(raw, admitted(alias, stream=False), REDACTOR)


def refused(body: bytes | dict[str, Any]) -> UpstreamFailed:
    with pytest.raises(UpstreamFailed) as caught:
        plain(body)
    return caught.value


def stream_of(*pieces: bytes) -> tuple[bytes, ResponsesStream]:
    stream = RESPONSES_DIALECT.open_stream(admitted(), REDACTOR)
    assert isinstance(stream, ResponsesStream)
    out = b""
    for piece in pieces:
        out += stream.feed(piece)
        if stream.ended:
            return out, stream
    return out + stream.finish(), stream


def events_in(raw: bytes) -> list[Any]:
    return [json.loads(part.partition(b"data: ")[2]) for part in raw.split(b"\n\n") if part]


# --- plain replies


def test_a_reply_is_passed_on_byte_for_byte_but_for_its_model() -> None:
    body = (
        b'{ "id":"r", "object":"response","model" : "up/real", "error" : null,"status":"completed",'
        b'"output":[{"type":"reasoning","encrypted_content":"x==","summary":[]},'
        b'{"type":"message","content":[{"type":"output_text","text":"\\"model\\": \\"up/real\\""}]}],'
        b'"temperature":1.00,"big":12345678901234567890,"odd":null,"tools":[{"model":"up/real"}]}'
    )
    passed, outcome = plain(body)
    assert passed == body.replace(b'"model" : "up/real"', b'"model" : "m"')
    assert (outcome.status, outcome.finish_reasons) == ("ok", ("completed",))


def test_usage_cost_and_the_ending_of_a_reply_are_read() -> None:
    _, outcome = plain(response(output=[text_item("hi")], usage={**RESPONSES_USAGE, "cost": 0.5}))
    assert (outcome.usage, outcome.usage_source, outcome.cost_usd) == (USAGE, "provider", 0.5)
    assert (outcome.http_status, outcome.error_code) == (200, None)


@pytest.mark.parametrize(
    ("fields", "finish"),
    [
        ({"status": "completed"}, ("completed",)),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, ("max_output_tokens",)),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, ("content_filter",)),
        ({"status": "incomplete", "incomplete_details": None}, ("incomplete",)),
        ({"status": "incomplete", "incomplete_details": "odd"}, ("incomplete",)),
        ({"status": "incomplete", "incomplete_details": {"reason": 7}}, ("7",)),
        ({"status": "cancelled"}, ("cancelled",)),
        ({"status": "queued"}, ()),
        ({"status": "in_progress"}, ()),
        ({"status": None}, ()),
        ({"status": "x" * 500}, ("x" * 100,)),
        ({"status": ["odd"]}, ('["odd"]',)),
    ],
)  # fmt: skip
def test_the_ending_is_the_reason_else_the_status(fields: dict[str, Any], finish: tuple[str, ...]) -> None:
    _, outcome = plain({**response(), **fields})
    assert (outcome.status, outcome.finish_reasons) == ("ok", finish)


def test_a_reply_without_usage_says_missing_and_not_zero() -> None:
    _, outcome = plain(response())
    assert (outcome.usage, outcome.usage_source, outcome.cost_usd) == (None, "missing", None)


def test_a_reply_of_any_json_is_read() -> None:
    body = b'\xef\xbb\xbf{"model":"up/real","output":[{"text":"\\ud83d"}],"usage":{"input_tokens":1},"n":NaN}'
    passed, outcome = plain(body)
    assert passed == body[3:].replace(b"up/real", b"m")
    assert outcome.usage == Usage(1, None, 1)


def test_a_secret_in_a_reply_does_not_reach_the_client() -> None:
    assert b"the-secret-key" not in plain(response(output=[text_item("the-secret-key")]))[0]


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("server_error", 500, "upstream_error"),
        ("rate_limit_exceeded", 429, "rate_limit_error"),
        ("invalid_prompt", 400, "invalid_request_error"),
        ("image_too_large", 400, "invalid_request_error"),
        ("vector_store_timeout", 504, "upstream_error"),
        ("not_known", 502, "upstream_error"),
        (None, 502, "upstream_error"),
    ],
)
def test_a_response_that_failed_is_an_error_with_the_status_its_code_stands_for(
    code: str | None, status: int, kind: str
) -> None:
    error = {"code": code, "message": "it broke"}
    failure = refused(response("failed", error=error))
    assert (failure.status, failure.code, failure.type, failure.message) == (status, code, kind, "it broke")


def test_a_response_that_failed_without_a_word_is_an_error_too() -> None:
    failure = refused(response("failed", usage=RESPONSES_USAGE))
    assert failure.status == 502
    assert "failed" in failure.message
    assert "up/real" not in failure.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"output":null}',
        b'{"output":"x"}',
        b'{"output":{}}',
        b'{"id":"x"}',
        b"{",
    ],
)
def test_what_is_no_response_is_an_invalid_reply(body: bytes) -> None:
    failure = refused(body)
    assert (failure.status, failure.code) == (502, "invalid_upstream_reply")


def test_an_error_under_http_200_is_that_error() -> None:
    failure = refused({"error": {"message": "slow down", "code": "rate_limit_exceeded", "param": "input"}})
    assert (failure.status, failure.param, failure.message) == (429, "input", "slow down")
    assert refused({"error": "down"}).message == "down"


# --- streams


def test_a_stream_with_tools_and_text_is_read_to_its_end() -> None:
    events = responses_stream(
        *call_events("add", ['{"a":', "1}"]), *text_events("a model", ' named "model"', index=1)
    )
    out, stream = stream_of(*events)
    assert out + stream.last == b"".join(events).replace(b'"up/real"', b'"m"')
    outcome = stream.reading.outcome("ok", 200)
    assert (outcome.usage, outcome.usage_source, outcome.finish_reasons) == (
        USAGE,
        "provider",
        ("completed",),
    )


def test_only_the_model_of_the_response_itself_gets_the_alias() -> None:
    inner = text_item('{"model":"up/real"}')
    shown = response("in_progress", [{**inner, "model": "up/real"}], instructions='"model": "up/real"')
    raw = event("response.created", model="up/real", response=shown)
    out, _ = stream_of(raw)
    assert events_in(out)[0] == {
        "type": "response.created", "model": "up/real", "response": {**shown, "model": "m"},
    }  # fmt: skip
    assert len(out) == len(raw) - len("up/real") + 1


@pytest.mark.parametrize("shown", [{}, {"model": None}, {"id": "x", "usage": None}])
def test_a_response_without_a_model_gains_none(shown: dict[str, object]) -> None:
    raw = event("response.created", response=shown)
    assert stream_of(raw)[0] == raw


@pytest.mark.parametrize("shown", [None, 7, "x", []])
def test_a_response_that_is_no_object_is_passed_on(shown: object) -> None:
    raw = event("response.created", response=shown)
    out, stream = stream_of(raw, *RESPONSES)
    assert out.startswith(raw)
    assert stream.status == "ok"


def test_an_incomplete_response_is_an_end_with_its_reason() -> None:
    fields = {"incomplete_details": {"reason": "max_output_tokens"}, "usage": RESPONSES_USAGE}
    last = event("response.incomplete", sequence_number=2, response=response("incomplete", **fields))
    out, stream = stream_of(*BEGUN, last)
    assert (stream.status, stream.last) == ("ok", last.replace(b"up/real", b"m"))
    outcome = stream.reading.outcome(stream.status, 200)
    assert (outcome.finish_reasons, outcome.usage) == (("max_output_tokens",), USAGE)
    assert b"incomplete\n" not in out


def test_a_completed_event_without_a_response_is_an_end() -> None:
    _, stream = stream_of(*BEGUN, event("response.completed"))
    assert stream.status == "ok"
    assert stream.reading.outcome("ok", 200).finish_reasons == ()


def test_an_end_that_is_the_first_event_is_an_end() -> None:
    out, stream = stream_of(event("response.completed", response=response(usage=RESPONSES_USAGE)))
    assert (out, stream.started, stream.status) == (b"", True, "ok")


def test_a_stream_that_is_cut_has_the_usage_it_told_of_and_no_finish_reason() -> None:
    early = event("response.in_progress", response=response("in_progress", usage=RESPONSES_USAGE))
    _, stream = stream_of(BEGUN[0], early)
    outcome = stream.reading.outcome(stream.status, 200)
    assert (outcome.status, outcome.usage, outcome.finish_reasons) == ("truncated", USAGE, ())


@pytest.mark.parametrize("kind", ["response.failed", "response.completed", "response.incomplete"])
@pytest.mark.parametrize("status", ["failed", "completed"])
def test_a_response_that_failed_first_of_all_is_a_failure_with_a_status(kind: str, status: str) -> None:
    error = {"code": "rate_limit_exceeded", "message": "slow down"}
    _, stream = stream_of(event(kind, response=response(status, error=error)))
    assert not stream.started
    assert stream.failure is not None
    assert (stream.failure.status, stream.failure.code) == (429, "rate_limit_exceeded")


def test_a_response_that_failed_is_passed_on_cleaned_and_followed_by_an_error_that_clients_raise() -> None:
    told = "key the-secret-key refused by http://gpu-7.internal:8000/x?token=abc"
    shown = response("failed", error={"code": "server_error", "message": told}, usage=RESPONSES_USAGE)
    out, stream = stream_of(*BEGUN, event("response.failed", sequence_number=2, response=shown))
    failed, error = events_in(stream.last)
    clean = "key [REDACTED] refused by http://[private host]/x?…"
    assert failed == {
        "type": "response.failed", "sequence_number": 2,
        "response": {**shown, "model": "m", "error": {"code": "server_error", "message": clean}},
    }  # fmt: skip
    assert error == {
        "type": "error", "code": "server_error", "message": clean, "param": None, "sequence_number": 3,
        "error": {"message": clean, "type": "upstream_error", "param": None, "code": "server_error"},
    }  # fmt: skip
    assert b"response.failed" not in out
    outcome = stream.reading.outcome(stream.status, 200)
    assert (outcome.status, outcome.usage, outcome.finish_reasons) == ("upstream_error", USAGE, ("failed",))


@pytest.mark.parametrize("fields", [{}, {"response": None}, {"response": response("failed")}])
def test_a_failed_response_that_does_not_say_why_is_a_failure(fields: dict[str, object]) -> None:
    _, stream = stream_of(*BEGUN, event("response.failed", **fields))
    failed, error = events_in(stream.last)
    assert failed["type"] == "response.failed"
    assert "failed" in error["error"]["message"]
    assert stream.status == "upstream_error"


def test_a_completed_event_of_a_failed_response_is_not_passed_on() -> None:
    out, stream = stream_of(*BEGUN, event("response.completed", response=response("failed")))
    (error,) = events_in(stream.last)
    assert error["type"] == "error"
    assert b"response.completed" not in out + stream.last


@pytest.mark.parametrize(
    ("numbers", "then"),
    [
        ([0, 1], 2),
        ([5, 6], 7),
        ([None, None], 2),
        ([7, None], 9),
        ([0, "x"], 2),
        ([0, -3], 2),
        ([0, 10**30], 2),
        ([], 0),
    ],
)
def test_the_error_event_goes_on_counting(numbers: list[object], then: int) -> None:
    events = [event("response.in_progress", sequence_number=number) for number in numbers]
    for last in (event("error", message="x", sequence_number=99), b""):
        _, stream = stream_of(*events, *([last] if last else []))
        (error,) = events_in(stream.last)
        assert error["sequence_number"] == then


def test_an_error_of_the_bridge_is_an_event_of_the_dialect() -> None:
    failure = UpstreamFailed("cut", code="upstream_cut")
    (found,) = events_in(RESPONSES_DIALECT.error_event(failure))
    assert found == {
        "type": "error", "code": "upstream_cut", "message": "cut", "param": None, "sequence_number": 0,
        "error": {"message": "cut", "type": "upstream_error", "param": None, "code": "upstream_cut"},
    }  # fmt: skip
    assert json.loads(RESPONSES_DIALECT.error_body(failure)) == {"error": found["error"]}


def test_there_are_no_headers_of_its_own() -> None:
    assert RESPONSES_DIALECT.headers("key", {b"openai-beta": b"x", b"authorization": b"y"}) == ()
    assert RESPONSES_DIALECT.outgoing(((b"a", b"b"),), "api.anthropic.com") == ((b"a", b"b"),)
