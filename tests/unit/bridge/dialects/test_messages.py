"""Anthropic Messages: what is relayed, what is read, the shape of errors, and that no stream gains an ending."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes import admitted
from osmosis_bridge.call import Usage
from osmosis_bridge.client_headers import PASSED
from osmosis_bridge.dialects.messages import MESSAGES_DIALECT, VERSION, MessagesStream
from osmosis_bridge.errors import BridgeError, LedgerFailed, Refused, UpstreamFailed
from osmosis_bridge.redact import Redactor
from typed_events import (
    MESSAGE_STOP,
    MESSAGES,
    PING,
    event,
    message,
    message_delta,
    message_start,
    messages_stream,
    said,
    thought,
    used,
)

REDACTOR = Redactor(["the-secret-key"], ["gpu-7.internal"])
USAGE = Usage(15, 15, 30, 3, 7)


def plain(body: bytes | dict[str, Any], alias: str = "m"):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return MESSAGES_DIALECT.read_reply(raw, admitted(alias, stream=False), REDACTOR)


def refused(body: bytes | dict[str, Any]) -> UpstreamFailed:
    with pytest.raises(UpstreamFailed) as caught:
        plain(body)
    return caught.value


def stream_of(*pieces: bytes) -> tuple[bytes, MessagesStream]:
    stream = MESSAGES_DIALECT.open_stream(admitted(), REDACTOR)
    assert isinstance(stream, MessagesStream)
    out = b""
    for piece in pieces:
        out += stream.feed(piece)
        if stream.ended:
            return out, stream
    return out + stream.finish(), stream


def error_in(stream: MessagesStream) -> dict[str, Any]:
    """The error that ends a stream, in Anthropic's shape."""
    name, data = stream.last.rstrip(b"\n").split(b"\n")
    assert name == b"event: error"
    found = json.loads(data.removeprefix(b"data: "))
    assert found.keys() == {"type", "error"}
    assert found["type"] == "error"
    assert found["error"].keys() == {"type", "message"}
    return found["error"]


# --- plain replies


def test_a_reply_is_passed_on_byte_for_byte_but_for_its_model() -> None:
    body = (
        b'{ "id":"msg","type":"message" , "model" : "up/real","content":[{"type":"thinking","thinking":"t",'
        b'"signature":"c2ln/+=="},{"type":"tool_use","id":"toolu_1","name":"f","input":{"model":"up/real","n":1.10}}],'
        b'"stop_reason":"tool_use","stop_sequence":null,"container":null,'
        b'"usage":{"input_tokens":5,"output_tokens":15}}'
    )
    passed, outcome = plain(body)
    assert passed == body.replace(b'"model" : "up/real"', b'"model" : "m"')
    assert (outcome.status, outcome.finish_reasons, outcome.usage) == ("ok", ("tool_use",), Usage(5, 15, 20))


def test_the_prompt_is_input_and_cache_reads_and_cache_writes() -> None:
    _, outcome = plain(message())
    assert (outcome.usage, outcome.usage_source) == (USAGE, "provider")


@pytest.mark.parametrize(
    "reason",
    ["end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"],
)  # fmt: skip
def test_every_stop_reason_is_passed_on_and_recorded_as_it_is(reason: str) -> None:
    passed, outcome = plain(message(stop_reason=reason))
    assert json.loads(passed)["stop_reason"] == reason
    assert (outcome.status, outcome.finish_reasons) == ("ok", (reason,))
    out, stream = stream_of(*messages_stream(said(0, "hi"), stop_reason=reason))
    assert f'"stop_reason": "{reason}"'.encode() in out
    assert stream.reading.outcome("ok", 200).finish_reasons == (reason,)


def test_a_reply_without_usage_or_stop_reason_says_so() -> None:
    _, outcome = plain(message(usage=None, stop_reason=None))
    assert (outcome.usage, outcome.usage_source, outcome.finish_reasons) == (None, "missing", ())


def test_a_reply_of_any_json_is_read() -> None:
    body = (
        b'\xef\xbb\xbf{"model":"up/real","content":[{"text":"\\ud83d"}],"usage":{"input_tokens":1},"n":NaN}'
    )
    passed, outcome = plain(body)
    assert passed == body[3:].replace(b"up/real", b"m")
    assert outcome.usage == Usage(1, None, 1)


def test_a_secret_in_a_reply_does_not_reach_the_client() -> None:
    content = [{"type": "text", "text": "the-secret-key"}]
    assert b"the-secret-key" not in plain(message(content))[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"content":null}',
        b'{"content":"x"}',
        b'{"type":"message"}',
        b"{",
        b"<html>",
    ],
)
def test_what_is_no_message_is_an_invalid_reply(body: bytes) -> None:
    failure = refused(body)
    assert (failure.status, failure.code) == (502, "invalid_upstream_reply")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("billing_error", 402),
        ("permission_error", 403),
        ("not_found_error", 404),
        ("conflict_error", 409),
        ("request_too_large", 413),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("timeout_error", 504),
        ("overloaded_error", 529),
        ("odd_error", 502),
    ],
)
def test_an_error_under_http_200_has_the_status_its_type_stands_for(kind: str, status: int) -> None:
    told = {"type": "error", "error": {"type": kind, "message": "no"}}
    failure = refused(told)
    assert (failure.status, failure.type, failure.message) == (status, kind, "no")
    out, stream = stream_of(event("error", error=told["error"]))
    assert (out, stream.started) == (b"", False)
    assert stream.failure is not None
    assert (stream.failure.status, stream.failure.type) == (status, kind)
    _, stream = stream_of(message_start(), event("error", error=told["error"]))
    assert error_in(stream) == {"type": kind, "message": "no"}
    assert json.loads(MESSAGES_DIALECT.error_body(failure)) == told


# --- the shape of errors


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Refused("x"), "invalid_request_error"),
        (Refused("x", status=401, type="authentication_error"), "authentication_error"),
        (Refused("x", status=403, type="permission_error"), "permission_error"),
        (Refused("x", status=404, type="not_found_error"), "not_found_error"),
        (Refused("x", status=405), "invalid_request_error"),
        (Refused("x", status=409, code="rollout_closed"), "conflict_error"),
        (Refused("x", status=413), "request_too_large"),
        (Refused("x", status=415), "invalid_request_error"),
        (BridgeError("x"), "api_error"),
        (LedgerFailed("x"), "api_error"),
        (BridgeError("x", status=503), "overloaded_error"),
        (UpstreamFailed("x"), "api_error"),
        (UpstreamFailed("x", status=504), "timeout_error"),
        (UpstreamFailed("x", status=529), "overloaded_error"),
        (UpstreamFailed("x", status=400, type="billing_error"), "billing_error"),
        (UpstreamFailed("x", status=502, type="server_error"), "api_error"),
        (UpstreamFailed("x", status=429, type="insufficient_quota"), "insufficient_quota"),
    ],
)
def test_every_error_has_anthropics_shape(error: BridgeError, kind: str) -> None:
    shape = {"type": "error", "error": {"type": kind, "message": "x"}}
    assert json.loads(MESSAGES_DIALECT.error_body(error)) == shape
    raw = MESSAGES_DIALECT.error_event(error)
    assert raw.startswith(b"event: error\ndata: ")
    assert raw.endswith(b"\n\n")
    assert json.loads(raw.partition(b"data: ")[2]) == shape


def test_the_message_of_an_error_is_one_bounded_line() -> None:
    found = json.loads(MESSAGES_DIALECT.error_body(Refused("a\nb " + "x" * 5000)))
    assert found["error"]["message"].startswith("a b x")
    assert len(found["error"]["message"]) == 1000


# --- headers


def test_the_clients_version_passes_here_and_nowhere_else() -> None:
    assert MESSAGES_DIALECT.passed == PASSED | {b"anthropic-version"}
    client = {b"anthropic-version": b"2099-01-01", b"x-api-key": b"bearer"}
    assert MESSAGES_DIALECT.headers("provider-key", client) == ((b"x-api-key", b"provider-key"),)


def test_a_client_that_names_no_version_means_the_one_there_is() -> None:
    assert MESSAGES_DIALECT.headers(None, {}) == ((b"anthropic-version", VERSION),)


@pytest.mark.parametrize(("host", "bearer"), [("api.anthropic.com", False), ("gateway.example", True)])
def test_the_bearer_goes_to_others_than_anthropic(host: str, bearer: bool) -> None:
    usual = ((b"accept", b"x"), (b"authorization", b"Bearer key"))
    assert ((b"authorization", b"Bearer key") in MESSAGES_DIALECT.outgoing(usual, host)) is bearer
    assert (b"accept", b"x") in MESSAGES_DIALECT.outgoing(usual, host)


# --- streams


def test_thinking_signatures_tools_and_text_are_passed_on_byte_for_byte() -> None:
    events = messages_stream(
        thought(0, "a model", "c2ln/+model=="), said(1, '"model": "up/real"'), used(2, "f", '{"model":', '"up/real"}'),
        stop_reason="tool_use",
    )  # fmt: skip
    out, stream = stream_of(*events)
    assert out + stream.last == b"".join([events[0].replace(b"up/real", b"m"), *events[1:]])
    assert stream.last == MESSAGE_STOP


def test_only_the_messages_own_model_gets_the_alias() -> None:
    shown = message([{"type": "text", "text": '"model": "up/real"', "model": "up/real"}])
    raw = event("message_start", model="up/real", message=shown)
    out, _ = stream_of(raw)
    assert json.loads(out.partition(b"data: ")[2]) == {
        "type": "message_start", "model": "up/real", "message": {**shown, "model": "m"},
    }  # fmt: skip
    assert len(out) == len(raw) - len("up/real") + 1


@pytest.mark.parametrize("shown", [{}, {"model": None}, None, 7, "x", []])
def test_a_start_without_a_model_gains_none(shown: object) -> None:
    raw = event("message_start", message=shown)
    out, stream = stream_of(raw, message_delta(), MESSAGE_STOP)
    assert out.startswith(raw)
    assert stream.status == "ok"


def test_a_ping_before_the_first_event_waits_for_nothing_and_tells_nothing() -> None:
    out, stream = stream_of(PING, PING)
    assert (out, stream.started) == (b"", False)
    out, stream = stream_of(PING, *MESSAGES)
    assert (out, stream.status) == (stream_of(*MESSAGES)[0], "ok")
    assert out.count(PING) == 1


def test_an_error_after_a_ping_still_has_its_status() -> None:
    _, stream = stream_of(PING, event("error", error={"type": "overloaded_error", "message": "Overloaded"}))
    assert not stream.started
    assert stream.failure is not None
    assert stream.failure.status == 529


@pytest.mark.parametrize("reason", [None, ""])
def test_a_stop_without_a_stop_reason_is_a_truncation(reason: str | None) -> None:
    out, stream = stream_of(message_start(), *said(0, "hi"), message_delta(reason), MESSAGE_STOP)
    assert stream.status == "truncated"
    assert error_in(stream)["type"] == "api_error"
    assert b"message_stop" not in out + stream.last


def test_a_stop_reason_in_the_start_counts() -> None:
    start = event("message_start", message=message(stop_reason="end_turn"))
    assert stream_of(start, MESSAGE_STOP)[1].status == "ok"


def test_a_later_delta_without_a_stop_reason_takes_none_back() -> None:
    _, stream = stream_of(message_start(), message_delta("refusal"), message_delta(None), MESSAGE_STOP)
    assert stream.reading.outcome("ok", 200).finish_reasons == ("refusal",)


@pytest.mark.parametrize("raw", [event("message_delta"), event("message_delta", delta=7, usage=None)])
def test_a_delta_that_says_nothing_is_passed_on(raw: bytes) -> None:
    out, stream = stream_of(message_start(), raw, message_delta(), MESSAGE_STOP)
    assert raw in out
    assert stream.status == "ok"


@pytest.mark.parametrize(
    ("deltas", "usage"),
    [
        ([{"output_tokens": 15}], USAGE),
        ([{"output_tokens": 4}, {"output_tokens": 15}], USAGE),
        ([{"input_tokens": 50, "output_tokens": 15}], Usage(60, 15, 75, 3, 7)),
        ([{"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 15}], USAGE),
        ([{"input_tokens": None, "output_tokens": 15}], USAGE),
        (
            [{"output_tokens": 15, "output_tokens_details": {"thinking_tokens": 9}}],
            Usage(15, 15, 30, 3, 7, 9),
        ),
    ],
)
def test_usage_is_read_from_its_parts_by_last_value(deltas: list[dict[str, Any]], usage: Usage) -> None:
    parts = [message_delta("end_turn", **{"output_tokens": 1, **delta}) for delta in deltas]
    _, stream = stream_of(message_start(), *parts, MESSAGE_STOP)
    assert stream.reading.outcome("ok", 200).usage == usage


def test_a_stream_that_is_cut_has_the_usage_it_told_of_and_no_stop_reason() -> None:
    _, stream = stream_of(message_start(), *said(0, "hi"))
    outcome = stream.reading.outcome(stream.status, 200)
    assert (outcome.status, outcome.finish_reasons, outcome.usage) == (
        "truncated",
        (),
        Usage(15, 1, 16, 3, 7),
    )


def test_the_cost_that_a_gateway_adds_is_read() -> None:
    _, stream = stream_of(message_start(), message_delta("end_turn", cost=0.25), MESSAGE_STOP)
    assert stream.reading.outcome("ok", 200).cost_usd == 0.25
