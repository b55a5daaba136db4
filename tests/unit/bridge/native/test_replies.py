"""From LiteLLM's replies to OpenAI's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.replies import StreamWriter, completion, ended_in_error
from osmosis_bridge.native.witness import Witness


def witness(dialect: str = "anthropic", **said: Any) -> Witness:
    made = Witness(dialect)
    for name, value in said.items():
        setattr(made, name, value)
    return made


def made(**message: Any) -> dict[str, Any]:
    return {
        "id": "i", "created": 1, "usage": {"prompt_tokens": 99, "completion_tokens": 99},
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "a"} | message}],
    }  # fmt: skip


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "i",
        "created": 1,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    } | more


def events(data: bytes) -> list[Any]:
    return [
        json.loads(block[6:]) if block != b"data: [DONE]" else None for block in data.split(b"\n\n") if block
    ]


def test_usage_is_the_provider_s_and_never_litellm_s() -> None:
    counted = witness(usage=True, counts={"input_tokens": 3, "output_tokens": 2}, finishes={0: "end_turn"})
    assert completion(made(), counted, "m")["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
    }
    assert "usage" not in completion(made(), witness(finishes={0: "end_turn"}), "m")
    assert "usage" not in completion(made(), witness("other"), "m")
    assert completion(made(), witness("other", usage=True), "m")["usage"]["prompt_tokens"] == 99


def test_a_finish_reason_is_the_provider_s() -> None:
    reply = completion(made(), witness(finishes={0: "pause_turn"}), "m")
    assert reply["choices"][0]["finish_reason"] == "pause_turn"
    called = completion(made(tool_calls=[{"id": "c"}]), witness("gemini", finishes={0: "STOP"}), "m")
    assert called["choices"][0]["finish_reason"] == "tool_calls"
    assert completion(made(), witness("other"), "m")["choices"][0]["finish_reason"] == "stop"


def test_a_message_is_shown_without_litellm_s_empty_annexes() -> None:
    message = completion(
        made(
            images=[], thinking_blocks=[], audio=None,
            provider_specific_fields={"thinking_blocks": [], "citations": ["c"]},
            tool_calls=[{"id": "c", "provider_specific_fields": {"thought_signature": "s"}}],
        ),
        witness(), "m",
    )["choices"][0]["message"]  # fmt: skip
    assert message["role"] == "assistant"
    assert message["provider_specific_fields"] == {"citations": ["c"]}
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert not {"images", "audio", "thinking_blocks"} & message.keys()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"error": {"type": "overloaded_error", "message": "busy"}}, "overloaded_error"),
        ({"error": "plain words"}, "upstream_error"),
        ({"broken": "half a frame"}, "invalid_upstream_reply"),
        ({"dialect": "cohere", "finishes": {0: "TIMEOUT"}}, "finish_reason_error"),
    ],
)
def test_what_ended_in_an_error_is_one(said: dict[str, Any], code: str) -> None:
    found = witness(**said)
    failure = ended_in_error(found)
    assert failure is not None
    assert failure.code == code
    with pytest.raises(UpstreamFailed):
        completion(made(), found, "m")


def test_a_stream_is_written_as_it_comes_and_ends_with_the_provider_s_word() -> None:
    said = witness()
    writer = StreamWriter(said, "m", usage_asked=True)
    first = events(writer.chunk(chunk({"role": "assistant", "content": "a"})))
    assert first[0]["choices"][0]["delta"] == {"role": "assistant", "content": "a"}
    assert events(writer.chunk(chunk({}, "stop", id="another", usage={"prompt_tokens": 99}))) == []
    said.finishes, said.counts, said.usage, said.ended = (
        {0: "max_tokens"},
        {"input_tokens": 1, "output_tokens": 2},
        True,
        True,
    )
    finish, usage, done = events(writer.end())
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]
    assert (usage["id"], usage["choices"], usage["usage"]["total_tokens"]) == ("i", [], 3)
    assert done is None


def test_a_stream_that_the_provider_did_not_end_is_truncated() -> None:
    for said in (witness(finishes={0: "end_turn"}), witness("other")):
        writer = StreamWriter(said, "m", usage_asked=False)
        writer.chunk(chunk({"content": "a"}))
        with pytest.raises(UpstreamFailed) as caught:
            writer.end()
        assert caught.value.code == "upstream_truncated"


def test_a_stream_s_message_is_put_together_for_the_memory() -> None:
    writer = StreamWriter(witness(), "m", usage_asked=False)
    for piece in ("h", "m"):
        writer.chunk(chunk({"thinking_blocks": [{"type": "thinking", "thinking": piece}]}))
    writer.chunk(chunk({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "s"}]}))
    writer.chunk(chunk({"thinking_blocks": [{"type": "redacted_thinking", "data": "d"}]}))
    writer.chunk(chunk({"content": "a", "provider_specific_fields": {"thought_signatures": ["t"]}}))
    writer.chunk(chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}))
    writer.chunk(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}))
    assert writer.messages[0] == {
        "thinking_blocks": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
        ],
        "content": "a",
        "provider_specific_fields": {"thought_signatures": ["t"]},
        "tool_calls": [{"id": "c"}],
    }


def test_what_cohere_says_beside_tool_calls_is_put_back() -> None:
    said = {
        "content": [{"type": "text", "text": "I look"}, {"type": "text", "text": " up"}],
        "tool_plan": "look",
    }
    cohere = witness("cohere", finishes={0: "TOOL_CALL"}, message=said)
    (choice,) = completion(made(content=None, tool_calls=[{"id": "c"}]), cohere, "m")["choices"]
    assert choice["message"]["content"] == "I look up"
    assert choice["message"]["provider_specific_fields"] == {"tool_plan": "look"}
    (kept,) = completion(made(), witness("cohere", finishes={0: "COMPLETE"}, message=said), "m")["choices"]
    assert kept["message"]["content"] == "a"
