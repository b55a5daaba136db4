"""Tools, choices and formats of Responses as chat completions has them."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.spoken.responses_tools import read_choice, read_text, read_tools

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def test_a_function_is_said_one_level_deeper_with_all_its_members():
    tool = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
    assert read_tools([tool | {"cache_control": {"type": "ephemeral"}, "defer_loading": False}]) == [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
            "cache_control": {"type": "ephemeral"},
        }
    ]


def test_strict_false_is_kept_and_null_is_the_default():
    tool = {"type": "function", "name": "f", "parameters": None, "strict": False}
    assert read_tools([tool]) == [{"type": "function", "function": {"name": "f", "strict": False}}]
    assert read_tools([tool | {"strict": None}]) == [{"type": "function", "function": {"name": "f"}}]


def test_a_custom_tool_is_said_with_its_grammar():
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
    assert read_tools([{"type": "custom", "name": "c", "format": form}]) == [
        {
            "type": "custom",
            "custom": {
                "name": "c",
                "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}},
            },
        }
    ]
    free = {"type": "custom", "name": "c", "format": {"type": "text"}}
    assert read_tools([free])[0]["custom"]["format"] == {"type": "text"}


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([{"type": "web_search"}], "tools[0].type"),
        ([{"type": "function", "name": "f"}, {"type": "file_search"}], "tools[1].type"),
        ([{"name": "f"}], "tools[0].type"),
        ([{"type": "function", "function": {"name": "f"}}], "tools[0].name"),
        ([{"type": "function", "name": "f", "defer_loading": True}], "tools[0].defer_loading"),
        ({"type": "function"}, "tools"),
    ],
)
def test_tools_that_cannot_be_said_are_refused_by_name(tools: Any, param: str):
    with pytest.raises(Refused) as refusal:
        read_tools(tools)
    assert refusal.value.param == param


def test_the_kind_of_a_tool_that_is_refused_stands_in_the_message():
    with pytest.raises(Refused, match="'web_search_preview'"):
        read_tools([{"type": "web_search_preview"}])


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "custom", "name": "c"}, {"type": "custom", "custom": {"name": "c"}}),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
    ],
)
def test_a_choice_is_said(choice: Any, said: Any):
    assert read_choice(choice) == said


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (7, "tool_choice"),
        ({"type": "web_search_preview"}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "function", "name": "f", "server": "s"}, "tool_choice.server"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}, "tool_choice.tools[0].type"),
    ],
)
def test_a_choice_that_cannot_be_said_is_refused(choice: Any, param: str):
    with pytest.raises(Refused) as refusal:
        read_choice(choice)
    assert refusal.value.param == param


def test_formats_and_verbosity_are_said():
    form = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": None}
    assert read_text({"format": form, "verbosity": "low"}) == {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
        },
        "verbosity": "low",
    }
    assert read_text({"format": {"type": "json_object"}}) == {"response_format": {"type": "json_object"}}
    assert read_text({"format": {"type": "text"}}) == {}
    assert read_text(None) == {}


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("json", "text"),
        ({"tone": "warm"}, "text.tone"),
        ({"format": {"type": "grammar"}}, "text.format.type"),
        ({"format": {"type": "text", "x": 1}}, "text.format.x"),
    ],
)
def test_a_format_that_cannot_be_said_is_refused(text: Any, param: str):
    with pytest.raises(Refused) as refusal:
        read_text(text)
    assert refusal.value.param == param
