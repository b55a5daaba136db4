"""Requests and replies of every dialect as chat messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis_bridge.conversation import answered, asked

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def stream(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def delta(index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": fields}]}


def test_chat_messages_are_taken_as_they_are() -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [CALL], "x": None}]
    assert asked("chat", body(messages=messages, model="m")) == messages
    reply = body(choices=[{"index": 0, "message": {"role": "assistant", "content": "a", "odd": 1}}])
    assert answered("chat", reply, stream=False) == [{"role": "assistant", "content": "a", "odd": 1}]


def test_a_chat_stream_is_folded_as_far_as_it_goes() -> None:
    events = [
        delta(role="assistant", content=""),
        delta(content="Hel"),
        delta(1, content="other choice"),
        delta(content="lo", reasoning_content="think"),
        delta(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "add"}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a"'}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": ":1}"}}]),
    ]
    expected = {
        "role": "assistant",
        "content": "Hello",
        "reasoning_content": "think",
        "tool_calls": [CALL],
    }
    assert answered("chat", stream(*events) + b"data: [DONE]\n\n", stream=True) == [expected]
    torn = stream(*events[:2]) + b'data: {"choices":[{"ind'
    assert answered("chat", torn, stream=True) == [{"role": "assistant", "content": "Hel"}]


def test_completions_have_one_text() -> None:
    assert asked("completions", body(prompt="p")) == [{"role": "user", "content": "p"}]
    assert asked("completions", body(prompt=["p", "q", 3])) == [
        {"role": "user", "content": "p"},
        {"role": "user", "content": "q"},
    ]
    said = [{"role": "assistant", "content": "ab"}]
    assert answered("completions", body(choices=[{"text": "ab"}]), stream=False) == said
    pieces = stream({"choices": [{"index": 0, "text": "a"}]}, {"choices": [{"index": 0, "text": "b"}]})
    assert answered("completions", pieces, stream=True) == said


def test_blocks_of_the_messages_dialect_become_calls_and_results() -> None:
    messages = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "I add"},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "2"}]},
    ]
    assert asked("messages", body(system="be kind", messages=messages)) == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "I add"}],
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    reply = answered("messages", body(content=[{"type": "text", "text": "2"}]), stream=False)
    assert reply == [{"role": "assistant", "content": [{"type": "text", "text": "2"}]}]


def test_a_stream_of_the_messages_dialect_is_folded() -> None:
    events = stream(
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "He"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "y"}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"partial_json": '{"a":'}},
        {"type": "content_block_delta", "index": 1, "delta": {"partial_json": "1}"}},
    )
    [message] = answered("messages", events, stream=True)
    assert message["content"] == [{"type": "text", "text": "Hey"}]
    assert message["tool_calls"] == [CALL]


def test_items_of_the_responses_dialect_become_messages() -> None:
    assert asked("responses", body(instructions="be kind", input="q")) == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "q"},
    ]
    items = [
        {"role": "user", "content": "q"},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
        {"type": "web_search_call", "id": "w"},
    ]
    assert asked("responses", body(input=items)) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "assistant", "content": None, "item": {"type": "web_search_call", "id": "w"}},
    ]
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "2"}]}]
    assert answered("responses", body(output=output), stream=False) == [
        {"role": "assistant", "content": [{"type": "output_text", "text": "2"}]}
    ]


def test_a_stream_of_the_responses_dialect_has_its_whole_items_and_the_text_of_the_last() -> None:
    events = stream(
        {"type": "response.output_text.delta", "delta": "fir"},
        {
            "type": "response.output_item.done",
            "item": {"type": "message", "role": "assistant", "content": "first"},
        },
        {"type": "response.output_text.delta", "delta": "sec"},
    )
    assert answered("responses", events, stream=True) == [
        {"role": "assistant", "content": "first"},
        {"role": "assistant", "content": "sec"},
    ]


@pytest.mark.parametrize("dialect", ["chat", "completions", "messages", "responses", "embeddings"])
@pytest.mark.parametrize(
    "odd",
    [
        b"", b"{", b"[]", b"7", b"null", b"\xff", b"{}", b'{"choices":7,"content":7,"output":7,"messages":7,"input":7}',
        b'{"choices":[null],"content":[null],"output":[null],"messages":[null,7],"input":[null,7],"prompt":[null]}',
        b'{"choices":[{"message":7,"delta":7}],"content":[{"type":"x"}],"messages":[{"content":[7]}]}',
        b"data: {\n\n", b'data: {"choices":[{"delta":{"tool_calls":[7,{"function":7}]}}],"delta":7}\n\n', b"[" * 5000,
    ],
)  # fmt: skip
def test_odd_values_are_passed_over(dialect: str, odd: bytes) -> None:
    said = [*asked(dialect, odd), *answered(dialect, odd, stream=False), *answered(dialect, odd, stream=True)]
    assert all(isinstance(message, dict) for message in said)
