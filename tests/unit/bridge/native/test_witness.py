"""What a provider itself said of a reply."""

from __future__ import annotations

import json

import pytest

from osmosis_bridge.native.eventstream import encode_frame
from osmosis_bridge.native.witness import Witness, openai_finish, with_empty_usage


def saw(dialect: str, *pieces: bytes, clean: bool = True) -> Witness:
    witness = Witness(dialect)
    for piece in pieces:
        witness.feed(piece)
    if clean:
        witness.end()
    return witness


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def frame(name: str, value: object) -> bytes:
    return encode_frame({":event-type": name}, json.dumps(value).encode())


def test_anthropic_s_stream_is_read_to_its_stop() -> None:
    start = event({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}})
    delta = event(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}
    )
    stop = event({"type": "message_stop"})
    witness = saw("anthropic", start, delta, stop)
    assert (witness.finishes, witness.counts, witness.ended) == (
        {0: "end_turn"},
        {"input_tokens": 5, "output_tokens": 7},
        True,
    )
    assert not saw("anthropic", start, delta).ended
    erred = saw(
        "anthropic", start, event({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    )
    assert erred.error == {"type": "overloaded_error", "message": "busy"}


def test_a_stream_is_read_alike_however_it_is_split() -> None:
    whole = event({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}) + event(
        {"type": "message_stop"}
    )
    witness = saw("anthropic", *(whole[n : n + 1] for n in range(len(whole))))
    assert (witness.finishes, witness.ended) == ({0: "max_tokens"}, True)


def test_gemini_s_candidates_and_blocks_are_read() -> None:
    two = event(
        {"candidates": [{"index": 1, "finishReason": "STOP"}, {"finishReason": "SAFETY", "index": 0}]}
    )
    assert saw("gemini", two).finishes == {1: "STOP", 0: "SAFETY"}
    blocked = saw(
        "gemini",
        json.dumps(
            {"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": {"promptTokenCount": 1}}
        ).encode(),
    )
    assert (blocked.finishes, blocked.usage, blocked.ended) == ({0: "SAFETY"}, True, True)
    assert saw("gemini", event({"error": {"message": "no"}})).error == {"message": "no"}


def test_converse_is_read_from_frames_and_its_exceptions_are_errors() -> None:
    witness = saw(
        "converse",
        frame("messageStop", {"stopReason": "tool_use"}) + frame("metadata", {"usage": {"inputTokens": 3}}),
    )
    assert (witness.finishes, witness.counts, witness.ended) == ({0: "tool_use"}, {"inputTokens": 3}, True)
    thrown = encode_frame({":exception-type": "throttlingException"}, b'{"message":"slower"}')
    assert saw("converse", thrown).error == {"type": "throttlingException", "message": "slower"}
    assert saw("converse", frame("messageStop", {})[:-2]).broken is not None
    assert saw("converse", b"\x00" * 40).broken is not None


def test_cohere_and_ollama_are_read() -> None:
    witness = saw(
        "cohere",
        event(
            {
                "type": "message-end",
                "delta": {"finish_reason": "COMPLETE", "usage": {"tokens": {"input_tokens": 1}}},
            }
        ),
    )
    assert (witness.finishes, witness.usage, witness.ended) == ({0: "COMPLETE"}, True, True)
    assert witness.message == {}
    plain = {"finish_reason": "TOOL_CALL", "message": {"tool_plan": "I look", "tool_calls": []}}
    assert saw("cohere", json.dumps(plain).encode()).message == plain["message"]
    lines = b'{"message":{},"done":false}\n{"done":true,"done_reason":"stop","eval_count":3}'
    witness = saw("ollama", lines[:20], lines[20:])
    assert (witness.finishes, witness.counts, witness.ended) == ({0: "stop"}, {"eval_count": 3}, True)
    assert saw("ollama", b'{"error":"no such model"}\n').error == "no such model"


def test_a_dialect_without_a_reader_is_only_asked_whether_it_counted() -> None:
    assert saw("other", b'{"x":{"usage":{"a":1}}}').usage
    assert not saw("other", b'{"x":1}').usage


def test_what_was_said_before_a_broken_frame_of_the_same_piece_counts() -> None:
    usage = {"inputTokens": 5, "outputTokens": 7}
    said = frame("messageStop", {"stopReason": "end_turn"}) + frame("metadata", {"usage": usage})
    witness = saw("converse", said + b"\x00" * 40)
    assert (witness.finishes, witness.counts) == ({0: "end_turn"}, usage)
    assert witness.broken is not None


def test_what_cannot_be_read_is_broken_and_raises_nothing() -> None:
    assert saw("anthropic", b"data: {oops\n\n").broken is not None
    assert not saw("anthropic", b"[oops").ended
    assert saw("anthropic", b"").finishes == {}


@pytest.mark.parametrize(
    ("dialect", "said", "tools", "meant"),
    [
        ("anthropic", "end_turn", False, "stop"),
        ("gemini", "STOP", True, "tool_calls"),
        ("anthropic", "tool_use", False, "stop"),
        ("anthropic", "pause_turn", False, "pause_turn"),
        ("cohere", "ERROR_TOXIC", False, "error"),
        ("other", "eos", False, "eos"),
    ],
)
def test_only_documented_equivalents_are_mapped(dialect: str, said: str, tools: bool, meant: str) -> None:
    assert openai_finish(dialect, said, calls_tools=tools) == meant


def test_an_empty_count_is_put_where_litellm_needs_one_and_no_count_is_lost() -> None:
    assert json.loads(with_empty_usage(b'{"a":1}', "anthropic"))["usage"] == {
        "input_tokens": 0,
        "output_tokens": 0,
    }
    assert json.loads(with_empty_usage(b'{"usage":{"input_tokens":4}}', "anthropic"))["usage"] == {
        "input_tokens": 4
    }
    assert with_empty_usage(b"oops", "anthropic") == b"oops"
    assert with_empty_usage(b"{}", "ollama") == b"{}"


def test_a_usage_of_null_is_none_and_gets_an_empty_count_as_well() -> None:
    for dialect, name in (("anthropic", "usage"), ("gemini", "usageMetadata"), ("cohere", "usage")):
        body = json.dumps({name: None, "x": 1}).encode()
        assert not saw(dialect, body).usage
        assert json.loads(with_empty_usage(body, dialect))[name]


def test_counts_are_the_last_that_were_said_and_never_added() -> None:
    usages = ({"promptTokenCount": 5, "candidatesTokenCount": n, "totalTokenCount": 5 + n} for n in (1, 3, 9))
    witness = saw("gemini", *(event({"usageMetadata": usage}) for usage in usages))
    assert witness.counts == {"promptTokenCount": 5, "candidatesTokenCount": 9, "totalTokenCount": 14}


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("anthropic", event({"type": "content_block_delta", "delta": {"text": '{"usage":{"input_tokens":9}}'}})),
        ("gemini", event({"candidates": [{"content": {"parts": [{"text": "usageMetadata"}]}}]})),
        ("cohere", event({"type": "content-delta", "delta": {"message": {"content": {"text": "usage"}}}})),
        ("ollama", b'{"message":{"content":"eval_count"},"done":false}\n'),
        ("converse", frame("contentBlockDelta", {"delta": {"text": "usage"}})),
    ],
)  # fmt: skip
def test_words_of_an_answer_are_no_usage(dialect: str, body: bytes) -> None:
    witness = saw(dialect, body)
    assert (witness.usage, witness.counts) == (False, {})
