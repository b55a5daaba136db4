"""Responses as chat completions, whole and in chunks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.spoken.responses_events import ResponseWriter
from osmosis_bridge.native.via_responses.answer import (
    ChunkWriter,
    completion_of,
    finish_of,
    kept_items,
    message_of,
)
from osmosis_bridge.native.via_responses.items import OUTPUT
from osmosis_bridge.native.via_responses.request import say_as_responses

TEXT = {"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}
SAID = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [TEXT]}
CALLED = {
    "type": "function_call",
    "id": "fc",
    "call_id": "c1",
    "name": "f",
    "arguments": '{"a":1}',
    "status": "completed",
}
REASONING = {
    "type": "reasoning",
    "id": "rs",
    "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
    "encrypted_content": "gAAA",
}
USAGE = {
    "input_tokens": 3,
    "output_tokens": 4,
    "total_tokens": 7,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 1},
}


def response(*output: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 5.0,
        "model": "m",
        "status": "completed",
        "output": list(output),
        "usage": USAGE,
    } | more


def test_a_response_is_what_openai_s_types_want_of_a_completion():
    found = completion_of(response(REASONING, SAID, CALLED, service_tier="flex"))
    read = ChatCompletion.model_validate(found, strict=True)
    assert (read.id, read.created, read.service_tier) == ("resp_1", 5, "flex")
    choice = read.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("ok", "tool_calls")
    assert choice.message.tool_calls is not None
    assert read.usage is not None
    assert (read.usage.prompt_tokens, read.usage.completion_tokens, read.usage.total_tokens) == (3, 4, 7)
    assert found["usage"]["prompt_tokens_details"]["cached_tokens"] == 2
    assert found["choices"][0]["message"]["reasoning_content"] == "one\n\ntwo"
    assert found["choices"][0]["message"]["provider_specific_fields"] == {OUTPUT: [REASONING, SAID, CALLED]}


def test_notes_refusals_and_log_probabilities_survive():
    note = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    token = {"token": "o", "logprob": -1.0, "bytes": [111], "top_logprobs": []}
    parts = [TEXT | {"annotations": [note], "logprobs": [token]}, {"type": "refusal", "refusal": "no"}]
    choice = completion_of(response(SAID | {"content": parts}))["choices"][0]
    assert choice["message"]["annotations"] == [
        {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}
    ]
    assert choice["message"]["refusal"] == "no"
    assert choice["logprobs"]["content"] == [token]


def test_a_plain_turn_keeps_no_second_copy():
    assert kept_items([SAID, CALLED]) == []
    assert "provider_specific_fields" not in message_of([SAID, CALLED])


@pytest.mark.parametrize(
    "output",
    [
        [REASONING],
        [SAID | {"phase": "final_answer"}],
        [CALLED, SAID],
        [SAID, SAID],
        [{"type": "web_search_call"}],
    ],
)
def test_what_a_chat_message_cannot_say_is_kept(output: list[Any]):
    assert kept_items(output) == output


@pytest.mark.parametrize(
    ("fields", "finish"),
    [
        ({}, "stop"),
        ({"output": [CALLED]}, "tool_calls"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, "steered"),
        ({"status": "incomplete", "incomplete_details": None}, "incomplete"),
    ],
)
def test_how_it_ended(fields: dict[str, Any], finish: str):
    assert finish_of(response() | fields) == finish


@pytest.mark.parametrize("status", ["queued", "in_progress", "failed", "cancelled"])
def test_a_response_that_has_not_ended_well_is_no_answer(status: str):
    with pytest.raises(UpstreamFailed, match=status):
        completion_of(response(status=status))


def test_usage_that_was_not_counted_is_absent():
    assert "usage" not in completion_of(response(SAID, usage=None))


def chunks_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    writer = ChunkWriter(usage_asked=True)
    found = [chunk for event in events for chunk in writer.take(event)]
    writer.end()
    for chunk in found:
        ChatCompletionChunk.model_validate(chunk, strict=True)
    return found


def put_together(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client makes of chunks."""
    message: dict[str, Any] = {}
    calls: dict[int, dict[str, Any]] = {}
    for delta in (choice["delta"] for chunk in chunks for choice in chunk["choices"]):
        for name in ("content", "refusal", "reasoning_content"):
            if name in delta:
                message[name] = message.get(name, "") + delta[name]
        for call in delta.get("tool_calls", []):
            known = calls.setdefault(call["index"], {"function": {"name": "", "arguments": ""}})
            known |= {name: call[name] for name in ("id", "type") if name in call}
            for name, text in call["function"].items():
                known["function"][name] += text
        message |= {name: delta[name] for name in ("role", "provider_specific_fields") if name in delta}
    return message | ({"tool_calls": list(calls.values())} if calls else {})


def events_saying(message: dict[str, Any], finish: str) -> list[dict[str, Any]]:
    """The events of a response, in OpenAI's sequence."""
    writer = ResponseWriter({})
    chunk = {
        "id": "1",
        "created": 5,
        "model": "m",
        "choices": [{"index": 0, "delta": message, "finish_reason": finish}],
    }
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    return [*writer.take(chunk), *writer.take(usage), *writer.end()]


def test_a_stream_and_a_whole_reply_say_the_same():
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
        for n in range(2)
    ]
    message = {"reasoning_content": "hm", "content": "ok", "refusal": "no", "tool_calls": calls}
    events = events_saying(message, "tool_calls")
    chunks = chunks_of(events)
    whole = completion_of(events[-1]["response"])
    assert put_together(chunks) == whole["choices"][0]["message"]
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]][-1] == "tool_calls"
    assert chunks[-1]["usage"] == whole["usage"]
    assert chunks[-1]["choices"] == []


def test_arguments_that_came_only_at_the_end_are_told_then():
    events = [
        {"type": "response.created", "response": response(status="in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": CALLED | {"arguments": ""}},
        {"type": "response.output_item.done", "output_index": 0, "item": CALLED},
        {"type": "response.output_item.done", "output_index": 1, "item": CALLED | {"call_id": "c2"}},
        {"type": "response.completed", "response": response(CALLED, CALLED | {"call_id": "c2"})},
    ]
    calls = put_together(chunks_of(events))["tool_calls"]
    assert [(call["id"], call["function"]["arguments"]) for call in calls] == [
        ("c1", '{"a":1}'),
        ("c2", '{"a":1}'),
    ]


def test_parts_of_reasoning_are_told_apart_as_in_a_whole_reply():
    delta = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "item_id": "rs"}
    events = [
        {"type": "response.created", "response": response(status="in_progress")},
        delta | {"summary_index": 0, "delta": "o"},
        delta | {"summary_index": 0, "delta": "ne"},
        delta | {"summary_index": 1, "delta": "two"},
        {"type": "response.completed", "response": response(REASONING, SAID)},
    ]
    assert put_together(chunks_of(events))["reasoning_content"] == "one\n\ntwo"


def test_a_stream_that_does_not_end_is_no_answer():
    writer = ChunkWriter(usage_asked=False)
    list(writer.take({"type": "response.created", "response": response(status="in_progress")}))
    with pytest.raises(UpstreamFailed) as failure:
        writer.end()
    assert failure.value.code == "upstream_truncated"


def test_usage_is_told_to_those_who_asked():
    writer = ChunkWriter(usage_asked=False)
    found = list(writer.take({"type": "response.completed", "response": response(SAID)}))
    assert all("usage" not in chunk for chunk in found)


def test_events_become_the_bytes_of_a_stream_with_its_end():
    fields = {
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    translation = say_as_responses(fields, "gpt-5.6", "because")
    kept: list[Any] = []
    translation.keep = kept.append
    events = events_saying({"content": "ok"}, "stop")
    out = b"".join(map(translation.chunk, events)) + translation.end()
    said = [block.removeprefix("data: ") for block in out.decode().split("\n\n") if block]
    assert said[-1] == "[DONE]"
    assert put_together([json.loads(block) for block in said[:-1]])["content"] == "ok"
    assert [message["content"] for message in kept] == ["ok"]
    assert translation.reply(response(SAID))["choices"][0]["message"]["content"] == "ok"
