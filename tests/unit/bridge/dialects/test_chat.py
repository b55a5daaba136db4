"""Chat completions on the wire lane: what is relayed, what is read, and that no stream gains an ending."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes import admitted, completion, delta, sse
from osmosis_bridge.call import Usage
from osmosis_bridge.dialects.chat import CHAT_DIALECT, COMPLETIONS_DIALECT, ChatStream, read_reply
from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.redact import Redactor

REDACTOR = Redactor(["the-secret-key"], ["gpu-7.internal"])
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def stream_of(*pieces: bytes, alias: str = "m", usage_asked: bool = False) -> tuple[bytes, ChatStream]:
    """Feed pieces until the stream ends, as a relay does; what came out before its end, and the stream."""
    stream = ChatStream(admitted(alias, usage_asked=usage_asked), REDACTOR)
    out = b""
    for piece in pieces:
        out += stream.feed(piece)
        if stream.ended:
            return out, stream
    return out + stream.finish(), stream


def frames(raw: bytes) -> list[Any]:
    return [
        json.loads(part.partition(b"data: ")[2])
        for part in raw.split(b"\n\n")
        if part and part != b"data: [DONE]"
    ]


def error_in(stream: ChatStream) -> dict[str, Any]:
    """The error that ends a stream for its client; asserts that nothing else looks like an ending."""
    assert stream.ended
    assert stream.failure is not None
    assert b"[DONE]" not in stream.last
    (frame,) = frames(stream.last)
    assert frame["error"]["message"]
    return frame["error"]


# --- plain replies


def plain(body: bytes, alias: str = "m"):
    return read_reply(body, admitted(alias, stream=False), REDACTOR)


def refused(body: bytes) -> UpstreamFailed:
    with pytest.raises(UpstreamFailed) as caught:
        plain(body)
    return caught.value


ODD_REPLY = (
    b'{ "id":"c" , "model" : "up/real","choices":[{"index":0,"finish_reason":"eos","native_finish_reason":"x",'
    b'"matched_stop":7,'
    b'"message":{"role":"assistant","content":null,"reasoning":"r","reasoning_details":[{"signature":"s=="}],"audio":null},'
    b'"logprobs":{"content":[{"logprob":-1.10e-05,"bytes":[240]}]}}],"big":12345678901234567890,"usage":{"cost":0.010},'
    b'"obfuscation":"zz","provider":"X"}'
)


def test_a_plain_reply_is_passed_on_byte_for_byte_but_for_its_model() -> None:
    assert plain(ODD_REPLY)[0] == ODD_REPLY.replace(b"up/real", b"m")
    compact = ODD_REPLY.replace(b'"model" : ', b'"model": ')
    assert plain(compact)[0] == compact.replace(b"up/real", b"m")


def test_a_reply_that_has_the_clients_alias_already_is_the_same_bytes() -> None:
    body = completion()
    assert plain(body, "up/real")[0] is body


def test_a_model_within_the_content_is_left_alone() -> None:
    body = completion('{"model":"up/real"}', extra={"model": "up/real"})
    passed = json.loads(plain(body)[0])
    assert (passed["model"], passed["extra"]["model"]) == ("m", "up/real")
    assert passed["choices"][0]["message"]["content"] == '{"model":"up/real"}'


def test_a_reply_without_a_model_gains_none_and_a_null_one_stays() -> None:
    for body in (b'{"choices":[]}', b'{"model":null,"choices":[]}'):
        assert plain(body)[0] == body


def test_an_alias_of_any_text_is_echoed() -> None:
    alias = 'é"\\\n\U0001f600'
    assert json.loads(plain(completion(), alias)[0])["model"] == alias


def test_a_secret_in_a_reply_does_not_reach_the_client() -> None:
    assert b"the-secret-key" not in plain(completion("your key is the-secret-key"))[0]


def test_usage_finish_reasons_and_cost_of_a_reply_are_read() -> None:
    _, outcome = plain(
        completion(usage={**USAGE, "cost": 0.5, "prompt_tokens_details": {"cached_tokens": 4}})
    )
    assert (outcome.status, outcome.http_status, outcome.error_code) == ("ok", 200, None)
    assert (outcome.usage, outcome.usage_source, outcome.cost_usd) == (Usage(10, 5, 15, 4), "provider", 0.5)
    assert outcome.finish_reasons == ("stop",)


@pytest.mark.parametrize("usage", [None, {}, [], "x", {"prompt_tokens": None}])
def test_a_reply_without_usage_says_missing_and_not_zero(usage: object) -> None:
    _, outcome = plain(completion(usage=usage))
    assert (outcome.usage, outcome.usage_source) == (None, "missing")


def test_each_choice_has_its_finish_reason_and_none_is_mapped_to_another() -> None:
    reasons = ["stop", "length", "eos", "abort", "weird", "content_filter", "tool_calls"]
    choices = [{"index": i, "message": {}, "finish_reason": reason} for i, reason in enumerate(reasons)]
    passed, outcome = plain(completion(choices=choices))
    assert outcome.finish_reasons == tuple(reasons)
    assert [choice["finish_reason"] for choice in json.loads(passed)["choices"]] == reasons


def test_a_finish_reason_of_error_is_passed_on_and_recorded_as_an_error() -> None:
    passed, outcome = plain(completion(choices=[{"index": 0, "message": {}, "finish_reason": "error"}]))
    assert json.loads(passed)["choices"][0]["finish_reason"] == "error"
    assert (outcome.status, outcome.error_code) == ("upstream_error", "finish_reason_error")


@pytest.mark.parametrize("reason", ['"\\ud800"', "7", '{"type":"stop"}', '"' + "x" * 500 + '"'])
def test_an_odd_finish_reason_is_recorded_as_short_text(reason: str) -> None:
    _, outcome = plain(f'{{"choices":[{{"finish_reason":{reason}}}]}}'.encode())
    (text,) = outcome.finish_reasons
    assert text.encode()
    assert len(text) <= 100


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"error":{"message":"no","code":429}}', 429, "no"),
        (b'{"error":"text"}', 502, "text"),
        (b'{"object":"error","message":"EngineDead","code":500}', 500, "EngineDead"),
        (b'{"error":{"message":"no"},"choices":[]}', 502, "no"),
        (b'{"error":{"message":"caf\xe9"}}', 502, "caf\ufffd"),
        (b'\xef\xbb\xbf{"error":{"message":"bom"}}', 502, "bom"),
        (b'{"error":{"message":"n","big":' + b"9" * 5000 + b"}}", 502, None),
        (b'{"error":{"message":"n","deep":' + b"[" * 9000 + b"]" * 9000 + b"}}", 502, None),
        (b'{"error":{"message":"\\ud800"}}', 502, "?"),
    ],
)
def test_an_error_under_http_200_is_an_error(body: bytes, status: int, message: str | None) -> None:
    error = refused(body)
    assert error.status == status
    assert message is None or error.message == message


@pytest.mark.parametrize("error", ["null", "false", '""', "{}", "[]", "0"])
def test_an_empty_error_field_is_no_error(error: str) -> None:
    assert plain(f'{{"choices":[],"error":{error}}}'.encode())[1].status == "ok"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>502</html>", b"null", b"[]", b'"x"', b"{", b"{}", b'{"choices":null}', b'{"choices":{}}'],
)
def test_what_is_no_completion_is_an_invalid_reply(body: bytes) -> None:
    error = refused(body)
    assert (error.status, error.code) == (502, "invalid_upstream_reply")


def test_a_reply_with_odd_types_is_read_as_far_as_it_goes() -> None:
    choices = b'[null,7,{"index":"a","finish_reason":"stop"}]'
    body = b'{"choices":' + choices + b',"x_groq":{"usage":{"total_tokens":3}},"n":"\\ud800"}'
    passed, outcome = plain(body)
    assert passed == body
    assert (outcome.finish_reasons, outcome.usage) == (("stop",), Usage(None, None, 3))


def test_a_reply_with_odd_types_and_a_model_still_gets_the_alias() -> None:
    body = b'{"model":"caf\xc3\xa9","choices":[null]}'
    assert json.loads(plain(body)[0])["model"] == "m"


def test_a_lone_surrogate_in_a_name_keeps_no_model_from_its_alias() -> None:
    body = b'{"model":"up","\\ud800":{"model":"x"},"choices":[]}'
    assert plain(body)[0] == body.replace(b'"up"', b'"m"')


# --- streams that end well


def test_frames_are_relayed_as_they_came_but_for_the_model_and_the_end_is_kept_back() -> None:
    choice = b'{"index":0,"delta":{"content":"h\\u00e9","x":null},"logprob":-1.10}'
    raw = b'data: {"id":"c","model":"up/real","choices":[' + choice + b"]}\n\n"
    end = sse(delta(finish="stop"))
    out, stream = stream_of(raw, end)
    assert out.startswith(raw.replace(b"up/real", b"m"))
    assert (stream.last, stream.failure, stream.status) == (b"data: [DONE]\n\n", None, "ok")
    assert b"[DONE]" not in out


def test_the_framing_of_the_provider_is_kept() -> None:
    head = b": hello\r\nid: 7\r\nevent: chunk\r\n"
    raw = head + b'data:{"model":"up/real","choices":[{"index":0,"finish_reason":"stop"}]}\r\n\r\n'
    out, stream = stream_of(raw + b"data:[DONE]\r\n\r\n")
    assert out == raw.replace(b"up/real", b"m")
    assert stream.last == b"data:[DONE]\r\n\r\n"


def test_data_on_several_lines_is_read_as_one_and_its_event_name_kept() -> None:
    raw = (
        b'event: chunk\ndata: {"model":"up/real",\ndata: "choices":[{"index":0,"finish_reason":"stop"}]}\n\n'
    )
    out, stream = stream_of(raw)
    assert json.loads(out.partition(b"data: ")[2].replace(b"\ndata: ", b"")) == {
        "model": "m", "choices": [{"index": 0, "finish_reason": "stop"}]
    }  # fmt: skip
    assert out.startswith(b"event: chunk\n")
    assert stream.failure is None
    assert stream_of(raw.replace(b"event: chunk\n", b""))[0].startswith(b"data: ")
    assert stream_of(raw, alias="up/real")[0] == raw


def test_a_stream_is_complete_with_a_finish_reason_and_no_done_and_gains_none() -> None:
    out, stream = stream_of(sse(delta("a"), delta(finish="length"), done=False))
    assert (stream.failure, stream.last, stream.status) == (None, b"", "ok")
    assert b"[DONE]" not in out


def test_the_last_event_may_lack_its_blank_line() -> None:
    whole = sse(delta("a"), delta(finish="stop"))
    for cut in (1, 2):
        out, stream = stream_of(whole[:-cut])
        assert stream.failure is None
        assert stream.last.strip() == b"data: [DONE]"
        assert stream.last.endswith(b"\n\n")
    bare = sse(delta("a"), delta(finish="stop"), done=False)
    out, stream = stream_of(bare[:-2])
    assert (out, stream.failure) == (bare.replace(b"up/real", b"m"), None)


def test_an_unterminated_event_without_data_is_nothing() -> None:
    for tail in (b"data:", b"data: \n", b": comment", b"id: 7"):
        _, stream = stream_of(sse(delta("a"), delta(finish="stop"), done=False) + tail)
        assert stream.failure is None


@pytest.mark.parametrize("done", [b"data:[DONE]\n\n", b"data: [DONE] \n\n", b"event: x\ndata: [DONE]\n\n"])
def test_done_is_known_in_every_spelling(done: bytes) -> None:
    _, stream = stream_of(sse(delta(finish="stop"), done=False) + done)
    assert (stream.failure, stream.last) == (None, done)


def test_nothing_that_follows_done_is_read() -> None:
    out, stream = stream_of(sse(delta("a"), delta(finish="stop")) + sse({"error": {"message": "late"}}))
    assert stream.failure is None
    assert b"late" not in out + stream.last


def test_comments_are_relayed_once_the_stream_has_begun_and_dropped_before() -> None:
    out, stream = stream_of(
        b": PROCESSING\n\n", sse(delta("a"), done=False), b": still\n\n", sse(delta(finish="stop"))
    )
    assert b"PROCESSING" not in out
    assert b": still\n\n" in out
    assert stream.started


def test_comments_alone_do_not_begin_a_stream() -> None:
    stream = ChatStream(admitted(), REDACTOR)
    assert stream.feed(b": a\n\n: b\n\n") == b""
    assert not stream.started


def test_an_event_of_empty_data_is_dropped() -> None:
    out, stream = stream_of(b"data:\n\ndata:  \n\n" + sse(delta("a"), delta(finish="stop")))
    assert out == sse(delta("a"), delta(finish="stop"), done=False).replace(b"up/real", b"m")
    assert stream.failure is None


def test_role_null_content_null_and_an_empty_finish_reason_pass_and_finish_nothing() -> None:
    chunk = delta(finish="")
    chunk["choices"] = [{"index": 0, "delta": {"role": None, "content": None}, "finish_reason": ""}]
    out, stream = stream_of(sse(chunk))
    assert b'"finish_reason": ""' in out
    assert stream.status == "truncated"


def test_a_hundred_and_twenty_equal_chunks_are_legal() -> None:
    out, stream = stream_of(sse(*[delta("same")] * 120, delta(finish="stop")))
    assert (len(frames(out)), stream.failure) == (121, None)


@pytest.mark.parametrize("reason", ["stop", "length", "eos", "abort", "weird", "content_filter", "Error"])
def test_no_finish_reason_of_a_stream_is_mapped_to_another(reason: str) -> None:
    out, stream = stream_of(sse(delta(finish=reason)))
    assert frames(out)[-1]["choices"][0]["finish_reason"] == reason
    assert stream.reading.outcome("ok", 200).finish_reasons == (reason,)


def test_a_missing_index_counts_as_zero() -> None:
    _, stream = stream_of(
        sse({"choices": [{"delta": {"content": "a"}}]}, {"choices": [{"index": 0, "finish_reason": "stop"}]})
    )
    assert stream.failure is None


def test_a_secret_in_a_frame_does_not_reach_the_client() -> None:
    out, stream = stream_of(
        b": the-secret-key\n\n", sse(delta("the-secret-key"), delta(finish="stop"), done=False)
    )
    assert b"the-secret-key" not in out + stream.last


# --- usage of streams


def used(*data: object, **options: Any) -> tuple[bytes, Any]:
    out, stream = stream_of(sse(*data), **options)
    assert stream.failure is None
    return out, stream.reading.outcome("ok", 200)


LAST = {"id": "c-1", "model": "up/real", "choices": [], "usage": USAGE}


def test_a_usage_only_frame_is_hidden_from_a_client_that_did_not_ask_and_counted() -> None:
    out, outcome = used(delta("a"), delta(finish="stop"), LAST)
    assert (len(frames(out)), outcome.usage, outcome.usage_source) == (2, Usage(10, 5, 15), "provider")


def test_a_client_that_asked_gets_the_usage_frame_with_its_own_bytes() -> None:
    out, outcome = used(delta("a"), delta(finish="stop"), LAST, usage_asked=True)
    assert out.endswith(sse({**LAST, "model": "m"}, done=False))
    assert outcome.usage == Usage(10, 5, 15)


def test_usage_that_comes_with_content_is_not_hidden() -> None:
    out, outcome = used(delta("a", usage=USAGE), delta(finish="stop", usage={**USAGE, "total_tokens": 16}))
    assert [frame["usage"]["total_tokens"] for frame in frames(out)] == [15, 16]
    assert outcome.usage == Usage(10, 5, 16)


def test_cumulative_usage_is_read_by_its_last_value_and_never_added() -> None:
    chunks = [delta("a", usage={"prompt_tokens": 10, "completion_tokens": n}) for n in (1, 2, 3)]
    assert used(*chunks, delta(finish="stop"), LAST)[1].usage == Usage(10, 5, 15)
    assert used(*chunks, delta(finish="stop"))[1].usage == Usage(10, 3, 13)


def test_usage_null_on_chunks_passes_and_does_not_erase_what_was_said() -> None:
    out, outcome = used(delta("a", usage=USAGE), delta(finish="stop", usage=None))
    assert frames(out)[-1]["usage"] is None
    assert outcome.usage == Usage(10, 5, 15)


def test_a_frame_of_no_choices_and_no_usage_is_passed_on() -> None:
    azure = {"choices": [], "prompt_filter_results": [], "usage": None}
    out, _ = used(azure, delta(finish="stop"))
    assert frames(out)[0] == azure


def test_a_stream_without_usage_says_missing() -> None:
    assert used(delta("a"), delta(finish="stop"))[1].usage_source == "missing"


def test_usage_within_a_choice_or_within_x_groq_is_found() -> None:
    moonshot = delta(finish="stop")
    moonshot["choices"] = [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]
    assert used(moonshot)[1].usage == Usage(10, 5, 15)
    assert used(delta("a", x_groq={"id": "r"}), delta(finish="stop", x_groq={"usage": USAGE}))[
        1
    ].usage == Usage(10, 5, 15)
    assert used(delta(finish="stop", x_groq="odd"))[1].usage_source == "missing"


# --- streams that do not end well


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"data: [DONE]\n\n",
        b": bye\n\n",
        b'data: {"choi',
        b"data: [DO",
        b'data: {"choices":[],"usage":{"total_tokens":3}}\n\n',
    ],
)
def test_an_end_without_a_finish_reason_is_a_truncation_and_no_done_is_passed_on(tail: bytes) -> None:
    out, stream = stream_of(sse(delta("he"), done=False) + tail)
    assert error_in(stream)["code"] == "upstream_truncated"
    assert stream.status == "truncated"
    assert b"[DONE]" not in out


def test_a_cut_in_the_middle_of_an_event_is_a_truncation_even_after_the_finish() -> None:
    _, stream = stream_of(sse(delta("he"), delta(finish="stop"), done=False) + b'data: {"choices":[],"usa')
    assert (error_in(stream)["code"], stream.status) == ("upstream_truncated", "truncated")


@pytest.mark.parametrize("body", [b"", b"\n\n", b"data: [DONE]\n\n", b": only\n\n", sse(LAST)])
def test_a_stream_that_never_began_ends_as_a_truncation(body: bytes) -> None:
    out, stream = stream_of(body)
    assert error_in(stream)["code"] == "upstream_truncated"
    assert (out, stream.started) == (b"", False)


def test_every_choice_that_was_seen_must_finish() -> None:
    both = {"choices": [{"index": 0, "finish_reason": "stop"}, {"index": 1, "delta": {"content": "b"}}]}
    assert stream_of(sse(both))[1].status == "truncated"
    assert stream_of(sse(both, {"choices": [{"index": 1, "finish_reason": "stop"}]}))[1].status == "ok"


ERRORS = [
    (b'data: {"error":{"message":"boom","type":"t","code":500}}\n\n', "boom"),
    (b'data: {"error":"boom"}\n\n', "boom"),
    (b'data: {"object":"error","message":"boom","code":500}\n\n', "boom"),
    (b'event: error\ndata: {"message":"boom"}\n\n', "boom"),
    (b"event: error\ndata: boom\n\n", "boom"),
    (b'event: error\ndata: {"message": "boom\n\n', "boom"),
    (
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"message":"boom"}}\n\n',
        "boom",
    ),
    (b"data: boom\n\n", "boom"),
    (b"data: [1]\n\n", "[1]"),
    (b"data: 7\n\n", "7"),
    (b"data: <html>boom</html>\n\n", "boom"),
]


@pytest.mark.parametrize(("event", "part"), ERRORS)
def test_an_error_within_the_stream_ends_it_with_its_message_and_nothing_follows(
    event: bytes, part: str
) -> None:
    out, stream = stream_of(sse(delta("he"), done=False) + event + sse(delta(finish="stop")))
    assert part in error_in(stream)["message"]
    assert stream.status == "upstream_error"
    assert out == sse(delta("he"), done=False).replace(b"up/real", b"m")


@pytest.mark.parametrize(("event", "part"), ERRORS)
def test_an_error_as_the_first_event_does_not_begin_the_stream(event: bytes, part: str) -> None:
    out, stream = stream_of(event)
    assert (out, stream.started) == (b"", False)
    assert part in error_in(stream)["message"]


@pytest.mark.parametrize("event", [b"event: error\ndata: boom", b'data: {"error":"boom"}\n'])
def test_an_error_that_is_not_terminated_is_told_as_well(event: bytes) -> None:
    _, stream = stream_of(sse(delta("he"), done=False) + event)
    assert (error_in(stream)["message"], stream.status) == ("boom", "upstream_error")
    assert stream.last.endswith(b"\n\n")


def test_an_error_keeps_its_type_and_code_and_has_the_status_its_code_says() -> None:
    _, stream = stream_of(
        sse({"error": {"message": "slow", "type": "rate_limit_error", "code": 429, "param": None}})
    )
    assert error_in(stream) == {"message": "slow", "type": "rate_limit_error", "code": 429, "param": None}
    assert stream.failure is not None
    assert stream.failure.status == 429


def test_an_error_frame_with_choices_keeps_its_other_fields_and_counts_its_usage() -> None:
    raw = {
        **delta(finish="error"),
        "provider": "X",
        "usage": USAGE,
        "error": {"message": "the-secret-key", "code": 502},
    }
    _, stream = stream_of(sse(delta("he"), raw))
    (frame,) = frames(stream.last)
    assert (frame["model"], frame["provider"], frame["error"]["message"]) == ("m", "X", "[REDACTED]")
    assert frame["choices"][0]["finish_reason"] == "error"
    assert stream.reading.outcome("upstream_error", 200).usage == Usage(10, 5, 15)
    bare = stream_of(sse({"choices": [], "error": {"message": "x"}}))[1]
    assert "model" not in frames(bare.last)[0]


def test_a_finish_reason_of_error_is_relayed_and_followed_by_an_error_event() -> None:
    out, stream = stream_of(sse(delta("he"), delta(finish="error")))
    assert frames(out)[-1]["choices"][0]["finish_reason"] == "error"
    assert error_in(stream)["code"] == "finish_reason_error"


def test_an_error_within_a_choice_ends_the_stream_with_its_message() -> None:
    odd = delta()
    odd["choices"] = [{"index": 0, "delta": {"content": "l"}, "error": {"message": "boom", "code": 429}}]
    out, stream = stream_of(sse(delta("he"), odd))
    assert (error_in(stream)["message"], error_in(stream)["code"]) == ("boom", 429)
    assert frames(out)[-1]["choices"][0]["delta"] == {"content": "l"}
    first, begun = stream_of(sse(odd))
    assert (first, begun.started) == (b"", False)
    assert begun.failure is not None
    assert begun.failure.status == 429


def test_an_event_that_only_says_an_error_is_one() -> None:
    _, stream = stream_of(sse(delta("he"), {"message": "boom", "code": 500}))
    assert error_in(stream)["message"] == "boom"
    out, stream = stream_of(sse(delta("he"), {"object": "note", "text": "fine"}, delta(finish="stop")))
    assert (frames(out)[1], stream.failure) == ({"object": "note", "text": "fine"}, None)


def test_an_error_does_not_show_secrets_private_hosts_or_urls_with_queries() -> None:
    text = "the-secret-key at http://gpu-7.internal/v1?x=1"
    for event in (sse({"error": {"message": text}}), f"data: {text}\n\n".encode()):
        _, stream = stream_of(event)
        assert error_in(stream)["message"].endswith("[REDACTED] at http://[private host]/v1?…")


def test_an_empty_error_field_within_a_chunk_is_no_error() -> None:
    out, stream = stream_of(sse(delta("a", error=None), delta("b", error={}), delta(finish="stop", error="")))
    assert (len(frames(out)), stream.failure) == (3, None)


def test_an_event_too_large_ends_the_stream_with_an_error() -> None:
    stream = ChatStream(admitted(), REDACTOR)
    stream.feed(sse(delta("a"), done=False))
    for _ in range(17):
        stream.feed(b"x" * 1024 * 1024)
    assert error_in(stream)["code"] == "invalid_upstream_stream"


def test_a_stream_fails_once_and_its_first_failure_stands() -> None:
    stream = ChatStream(admitted(), REDACTOR)
    stream.fail(UpstreamFailed("first", code="a"), "truncated")
    stream.fail(UpstreamFailed("second", code="b"))
    assert (error_in(stream)["message"], stream.status) == ("first", "truncated")
    ended = stream_of(sse(delta(finish="stop")))[1]
    ended.fail(UpstreamFailed("late"))
    assert (ended.failure, ended.last) == (None, b"data: [DONE]\n\n")


def test_finishing_a_stream_that_has_ended_changes_nothing() -> None:
    _, stream = stream_of(sse(delta(finish="stop")))
    assert (stream.finish(), stream.last, stream.failure) == (b"", b"data: [DONE]\n\n", None)


def test_an_error_event_has_the_shape_that_openais_client_raises_on() -> None:
    (frame,) = frames(CHAT_DIALECT.error_event(UpstreamFailed("m", type="t", code="c")))
    assert frame == {"error": {"message": "m", "type": "t", "param": None, "code": "c"}}


# --- the elder form


def test_text_completions_are_read_and_relayed_like_chat() -> None:
    choice = {"index": 0, "text": "1 + 1 = 2", "logprobs": None, "finish_reason": "length"}
    body = json.dumps(
        {"id": "cmpl-1", "object": "text_completion", "model": "up/real", "choices": [choice], "usage": USAGE}
    )
    passed, outcome = COMPLETIONS_DIALECT.read_reply(body.encode(), admitted(stream=False), REDACTOR)
    assert passed.decode() == body.replace("up/real", "m")
    assert (outcome.finish_reasons, outcome.usage) == (("length",), Usage(10, 5, 15))
    stream = COMPLETIONS_DIALECT.open_stream(admitted(), REDACTOR)
    chunk = {"object": "text_completion", "model": "up/real", "choices": [choice]}
    out = stream.feed(sse(chunk, {"choices": [], "usage": USAGE}))
    assert frames(out) == [{**chunk, "model": "m"}]
    assert (stream.last, stream.status) == (b"data: [DONE]\n\n", "ok")
    assert stream.reading.outcome("ok", 200).usage == Usage(10, 5, 15)
