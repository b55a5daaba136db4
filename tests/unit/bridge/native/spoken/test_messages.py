"""The fields of an Anthropic Messages request, said as chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis_bridge.errors import Refused, UpstreamFailed
from osmosis_bridge.native.spoken.messages import Messages

HI = [{"role": "user", "content": "hi"}]
TOOL = {"name": "add", "description": "adds", "input_schema": {"type": "object"}}
FUNCTION = {"name": "add", "description": "adds", "parameters": {"type": "object"}}
SCHEMA = {"type": "json_schema", "schema": {"type": "object"}}


def made(**fields: Any) -> Messages:
    return Messages({"model": "m", "messages": HI, **fields})


def said(**fields: Any) -> dict[str, Any]:
    """The chat request without its envelope."""
    envelope = ("model", "messages", "stream")
    return {name: value for name, value in made(**fields).request.items() if name not in envelope}


def refusal(**fields: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        made(**fields)
    return caught.value


def test_the_envelope_is_that_of_a_chat_request() -> None:
    request = made(system="be brief", max_tokens=5).request
    assert request == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, *HI],
        "stream": False,
        "max_tokens": 5,
    }


def test_a_stream_asks_for_its_usage_beside_whatever_else_is_asked() -> None:
    assert said(stream=True) == {"stream_options": {"include_usage": True}}
    assert said(stream=True, stream_options={"odd": 1})["stream_options"] == {"odd": 1, "include_usage": True}
    assert said(stream=False) == {}


@pytest.mark.parametrize(
    ("fields", "chat"),
    [
        ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 3}, {"temperature": 0.5, "top_p": 0.9, "top_k": 3}),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}),
        ({"tools": [TOOL]}, {"tools": [{"type": "function", "function": FUNCTION}]}),
        (
            {"tools": [TOOL | {"type": "custom", "strict": True, "cache_control": {"type": "ephemeral"}}]},
            {
                "tools": [
                    {
                        "type": "function",
                        "function": FUNCTION | {"strict": True},
                        "cache_control": {"type": "ephemeral"},
                    }
                ]
            },
        ),
        (
            {"tools": [{"name": "now", "odd": 1}]},
            {"tools": [{"type": "function", "function": {"name": "now", "odd": 1}}]},
        ),
        ({"tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
        ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        (
            {"tool_choice": {"type": "tool", "name": "add"}},
            {"tool_choice": {"type": "function", "function": {"name": "add"}}},
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            {
                "tools": [{"type": "function", "function": FUNCTION}],
                "tool_choice": "auto",
                "parallel_tool_calls": False,
            },
        ),
        (
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": False}},
            {"tools": [{"type": "function", "function": FUNCTION}], "tool_choice": "auto"},
        ),
        ({"service_tier": "standard_only"}, {"service_tier": "default"}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"output_config": {"effort": "low"}}, {"reasoning_effort": "low"}),
        (
            {"output_config": {"format": SCHEMA}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
                }
            },
        ),
        (
            {"output_format": SCHEMA | {"name": "mine"}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "mine", "schema": {"type": "object"}, "strict": True},
                }
            },
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
        ),
        ({"x_new": None, "seed": 7, "user": "u"}, {"x_new": None, "seed": 7, "user": "u"}),
        ({"user": "u", "metadata": {"user_id": "u"}}, {"user": "u"}),
    ],
)
def test_a_field_is_said(fields: dict[str, Any], chat: dict[str, Any]) -> None:
    assert said(**fields) == chat


@pytest.mark.parametrize(
    ("fields", "left_out"),
    [
        ({"service_tier": "auto"}, "service_tier"),
        ({"stop_sequences": []}, "stop_sequences"),
        ({"metadata": {"user_id": None}}, "metadata"),
        ({"mcp_servers": []}, "mcp_servers"),
        ({"container": None}, "container"),
        ({"tools": None}, "tools"),
        ({"n": 1}, "n"),
        ({"output_config": {}}, "output_config"),
    ],
)
def test_what_says_nothing_is_left_out_with_the_reason(fields: dict[str, Any], left_out: str) -> None:
    translation = made(**fields)
    assert translation.request.keys() == {"model", "messages", "stream"}
    assert translation.left_out.keys() == {left_out}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"container": "c"}, "container"),
        ({"mcp_servers": [{"url": "u"}]}, "mcp_servers"),
        ({"context_management": {"edits": []}}, "context_management"),
        ({"metadata": {"user_id": "u", "other": 1}}, "metadata.other"),
        ({"metadata": "u"}, "metadata"),
        ({"metadata": {"user_id": "u"}, "user": "v"}, "user"),
        ({"user": "v", "metadata": {"user_id": "u"}}, "metadata.user_id"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools[0]"),
        ({"tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}]}, "tools[1].type"),
        ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
        ({"tool_choice": "auto"}, "tool_choice.type"),
        ({"tool_choice": {"type": "any", "name": "add"}}, "tool_choice.name"),
        ({"output_config": {"task_budget": {}}}, "output_config.task_budget"),
        ({"output_config": 3}, "output_config"),
        ({"output_config": {"format": {"type": "regex"}}}, "output_config.format"),
        ({"output_format": SCHEMA | {"odd": 1}}, "output_format.odd"),
        ({"output_format": SCHEMA, "response_format": {"type": "text"}}, "response_format"),
        ({"n": 2}, "n"),
    ],
)
def test_what_cannot_be_said_is_refused_by_its_place(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert error.param == param
    assert error.message.startswith(param)


def test_the_client_s_names_are_known_for_what_was_renamed() -> None:
    sources = made(
        system="s",
        stop_sequences=["a"],
        metadata={"user_id": "u"},
        tools=[TOOL],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        output_config={"effort": "low", "format": SCHEMA},
    ).sources
    expected = {
        "stop": "stop_sequences",
        "user": "metadata.user_id",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "reasoning_effort": "output_config.effort",
        "response_format": "output_config.format",
        "messages[0].content": "system",
    }
    assert {name: sources.get(name) for name in expected} == expected


def test_a_reply_is_a_message_and_a_stream_its_events() -> None:
    choice = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop", "stop_reason": "END"}
    message = made(stop_sequences=["END"]).reply({"id": "c", "model": "m", "choices": [choice]})
    assert (message["content"][0]["text"], message["stop_sequence"]) == ("hi", "END")
    translation = made(stream=True)
    with pytest.raises(UpstreamFailed):
        translation.end()
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    events = (translation.chunk(chunk) + translation.end()).split(b"\n\n")[:-1]
    kinds = [json.loads(event.partition(b"data: ")[2])["type"] for event in events]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
