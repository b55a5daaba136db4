"""Requests of Responses said as chat completions: every field is said, left out with a reason, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.spoken.responses import translate_responses

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}


def request(**fields: Any) -> dict[str, Any]:
    return translate_responses({"model": "m", "input": "hi"} | fields).request


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_output_tokens", 5, {"max_tokens": 5}),
        ("temperature", 0, {"temperature": 0}),
        ("top_p", 0.5, {"top_p": 0.5}),
        ("top_logprobs", 2, {"logprobs": True, "top_logprobs": 2}),
        ("include", ["message.output_text.logprobs"], {"logprobs": True}),
        ("reasoning", {"effort": "high", "summary": "auto"}, {"reasoning_effort": "high"}),
        ("text", {"format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
        ("text", {"verbosity": "low"}, {"verbosity": "low"}),
        ("metadata", {"a": "b"}, {"metadata": {"a": "b"}}),
        ("user", "u", {"user": "u"}),
        ("safety_identifier", "s", {"safety_identifier": "s"}),
        ("prompt_cache_key", "k", {"prompt_cache_key": "k"}),
        ("service_tier", "flex", {"service_tier": "flex"}),
        ("stop", ["END"], {"stop": ["END"]}),
        ("top_k", 3, {"top_k": 3}),
        ("nobody_knows", None, {"nobody_knows": None}),
    ],
)
def test_a_field_is_said(name: str, value: Any, said: dict[str, Any]):
    plain = request()
    found = request(**{name: value})
    assert {key: value for key, value in found.items() if key not in plain} == said


def test_tools_and_what_goes_with_them_are_said():
    found = request(tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    assert found["tools"][0]["function"]["name"] == "f"
    assert found["tool_choice"] == "required"
    assert found["parallel_tool_calls"] is False


def test_a_stream_is_asked_for_with_its_usage():
    found = request(stream=True)
    assert found["stream"] is True
    assert found["stream_options"] == {"include_usage": True}
    assert "stream_options" not in request()


@pytest.mark.parametrize(
    "fields",
    [
        {"store": False},
        {"store": None},
        {"truncation": "disabled"},
        {"background": False},
        {"previous_response_id": None},
        {"include": ["reasoning.encrypted_content"]},
        {"include": []},
        {"reasoning": None},
        {"reasoning": {}},
        {"reasoning": {"summary": "auto"}},
        {"text": {"format": {"type": "text"}}},
        {"tools": []},
        {"tool_choice": "auto"},
        {"parallel_tool_calls": True},
        {"top_logprobs": 0},
        {"metadata": {}},
        {"max_tool_calls": 3},
        {"n": 1},
        {"modalities": ["text"]},
        {"stream_options": {"include_obfuscation": False}},
        {"temperature": None},
    ],
)
def test_what_is_so_anyway_is_left_out_and_said_to_be(fields: dict[str, Any]):
    found = translate_responses({"model": "m", "input": "hi"} | fields)
    assert found.request == request()
    assert {place.partition(".")[0] for place in found.left_out} == set(fields)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"include": ["file_search_call.results"]}, "include[0]"),
        ({"include": "x"}, "include"),
        ({"reasoning": "high"}, "reasoning"),
        ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"n": 2}, "n"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"messages": [{"role": "user", "content": "x"}]}, "messages"),
        ({"functions": [{}]}, "functions"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice.type"),
    ],
)
def test_what_has_no_equal_is_refused_by_name(fields: dict[str, Any], param: str):
    with pytest.raises(Refused) as refusal:
        request(**fields)
    assert refusal.value.param == param


@pytest.mark.parametrize(
    "fields",
    [
        {"max_output_tokens": 5, "max_tokens": 6},
        {"max_tokens": 6, "max_output_tokens": 5},
        {"reasoning": {"effort": "low"}, "reasoning_effort": "high"},
        {"logprobs": False, "top_logprobs": 1},
        {"text": {"format": {"type": "json_object"}}, "response_format": {"type": "text"}},
    ],
)
def test_two_fields_that_say_different_things_in_one_place_are_refused(fields: dict[str, Any]):
    with pytest.raises(Refused, match="something else"):
        request(**fields)


def test_fields_of_another_name_are_led_back_to_the_client_s():
    found = translate_responses(
        {"model": "m", "input": "hi", "max_output_tokens": 5, "reasoning": {"effort": "low"}}
    )
    assert found.sources["max_tokens"] == "max_output_tokens"
    assert found.sources["reasoning_effort"] == "reasoning.effort"


def test_a_whole_reply_and_a_stream_say_the_same():
    asked = {"model": "m", "input": "hi", "tools": [TOOL]}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "ok", "tool_calls": [call]}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    envelope = {"id": "chatcmpl-7", "created": 5, "model": "m"}
    whole = translate_responses(asked).reply(
        envelope
        | {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}
    )
    stream = translate_responses(asked | {"stream": True})
    out = b"".join(
        stream.chunk(envelope | piece)
        for piece in (
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "o"}}]},
            {"choices": [{"index": 0, "delta": {"content": "k"}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0} | call]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": usage},
        )
    )
    events = [
        json.loads(block.partition(b"data: ")[2]) for block in (out + stream.end()).split(b"\n\n") if block
    ]
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"] == whole
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
