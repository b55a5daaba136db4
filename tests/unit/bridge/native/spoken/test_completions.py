"""OpenAI's elder completions, said as chat completions and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis_bridge.errors import Refused, UpstreamFailed
from osmosis_bridge.native.plan import CODE
from osmosis_bridge.native.spoken.completions import say_completions

ENVELOPE: dict[str, Any] = {"id": "c-1", "object": "chat.completion.chunk", "created": 5, "model": "m"}


def events(raw: bytes) -> list[Any]:
    return [json.loads(block.removeprefix(b"data: ")) for block in raw.split(b"\n\n") if block]


def test_a_prompt_is_one_message_of_the_user_s_and_other_fields_keep_their_names() -> None:
    said = say_completions(
        {"model": "m", "prompt": " hi\n", "max_tokens": 5, "n": 2, "x_new": None, "stop": ["a"], "user": "u"}
    )
    assert said.request == {
        "model": "m", "max_tokens": 5, "n": 2, "x_new": None, "stop": ["a"], "user": "u",
        "messages": [{"role": "user", "content": " hi\n"}], "stream": False,
    }  # fmt: skip
    assert said.sources["messages[0].content"] == "prompt"


def test_a_list_of_one_prompt_is_that_prompt() -> None:
    said = say_completions({"prompt": ["hi"]})
    assert said.request["messages"][0]["content"] == "hi"
    assert said.sources["messages[0].content"] == "prompt[0]"


def test_a_stream_asks_for_its_usage_and_keeps_other_options() -> None:
    said = say_completions({"prompt": "hi", "stream": True, "stream_options": {"x": 1}})
    assert said.request["stream"] is True
    assert said.request["stream_options"] == {"x": 1, "include_usage": True}
    assert "stream_options" not in say_completions({"prompt": "hi"}).request


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", ["a", "b"]),
        ("prompt", [1, 2]),
        ("prompt", [[1], [2]]),
        ("suffix", "end"),
        ("echo", True),
        ("best_of", 2),
        ("best_of", True),
        ("logprobs", 0),
        ("logprobs", 3),
        ("logprobs", True),
        ("messages", [{"role": "user", "content": "mine"}]),
        ("tools", []),
        ("functions", None),
    ],
)
def test_what_a_chat_completion_cannot_be_asked_for_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(Refused) as caught:
        say_completions({"prompt": "hi"} | {field: value})
    assert (caught.value.code, caught.value.param) == (CODE, field)


@pytest.mark.parametrize("prompt", [None, [], 5, {}])
def test_a_prompt_is_a_text(prompt: Any) -> None:
    with pytest.raises(Refused) as caught:
        say_completions({"prompt": prompt})
    assert (caught.value.code, caught.value.param) == ("invalid_prompt", "prompt")


def test_what_asks_for_nothing_is_left_out_and_told() -> None:
    said = say_completions({"prompt": "hi", "suffix": None, "echo": False, "best_of": 1, "logprobs": None})
    assert said.request.keys() == {"messages", "stream"}
    assert said.left_out.keys() == {"suffix", "echo", "best_of", "logprobs"}


def test_an_answer_is_a_text_completion() -> None:
    message = {"role": "assistant", "content": "yes", "reasoning_content": "hm"}
    parts = {"role": "assistant", "content": [{"type": "text", "text": "n"}, {"type": "text", "text": "o"}]}
    refusal = {"role": "assistant", "content": None, "refusal": "never"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    reply = say_completions({"prompt": "hi"}).reply(
        ENVELOPE
        | {
            "choices": [
                {"index": 0, "message": message, "finish_reason": "stop"},
                {"index": 1, "message": parts, "finish_reason": "length"},
                {"index": 2, "message": refusal, "finish_reason": "content_filter"},
            ],
            "usage": usage,
            "system_fingerprint": "f",
        }
    )
    assert (reply["object"], reply["id"], reply["created"], reply["model"]) == (
        "text_completion",
        "c-1",
        5,
        "m",
    )
    assert [choice["text"] for choice in reply["choices"]] == ["yes", "no", ""]
    assert [choice["finish_reason"] for choice in reply["choices"]] == ["stop", "length", "content_filter"]
    assert reply["choices"][0]["reasoning_content"] == "hm"
    assert reply["choices"][2]["refusal"] == "never"
    assert (reply["usage"], reply["system_fingerprint"]) == (usage, "f")


def test_a_stream_s_chunks_are_texts_its_end_and_its_usage() -> None:
    said = say_completions({"prompt": "hi", "stream": True})

    def chunk(delta: dict[str, Any], finish: str | None = None) -> list[Any]:
        return events(
            said.chunk(ENVELOPE | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        )

    assert chunk({"role": "assistant", "content": ""}) == []
    (event,) = chunk({"content": "ye"})
    assert event == ENVELOPE | {
        "object": "text_completion",
        "choices": [{"text": "ye", "index": 0, "logprobs": None, "finish_reason": None}],
    }
    assert chunk({"reasoning_content": "hm"})[0]["choices"][0]["reasoning_content"] == "hm"
    assert chunk({}, "stop")[0]["choices"][0]["finish_reason"] == "stop"
    (usage,) = events(said.chunk(ENVELOPE | {"choices": [], "usage": {"total_tokens": 3}}))
    assert (usage["choices"], usage["usage"]) == ([], {"total_tokens": 3})
    assert said.end() == b"data: [DONE]\n\n"


def test_a_call_of_a_tool_is_never_passed_over() -> None:
    said = say_completions({"prompt": "hi", "stream": True})
    calls = {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    with pytest.raises(UpstreamFailed):
        said.reply({"choices": [{"message": calls}]})
    with pytest.raises(UpstreamFailed):
        said.chunk({"choices": [{"delta": calls}]})
