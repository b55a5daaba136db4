"""A chat request said as Responses: each field is said, left out with a reason, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.via_responses.request import say_as_responses

HI = [{"role": "user", "content": "hi"}]
SEALED = "reasoning.encrypted_content"
SCHEMA = {"type": "object", "properties": {}}


def said(model: str = "gpt-4o", **fields: Any) -> dict[str, Any]:
    return say_as_responses({"model": "any", "messages": HI} | fields, model, "because").request


def test_a_plain_request_is_stored_nowhere_and_brings_its_reasoning_back():
    assert said() == {
        "model": "gpt-4o",
        "input": [{"type": "message", "role": "user", "content": "hi"}],
        "stream": False,
        "store": False,
    }
    assert said("gpt-5.6-sol")["include"] == [SEALED]
    assert "include" not in said("gpt-5.6-sol", store=True)
    assert said("gpt-5.6-sol", store=None)["store"] is False


@pytest.mark.parametrize(
    ("fields", "request_has"),
    [
        ({"max_tokens": 5}, {"max_output_tokens": 5}),
        ({"max_completion_tokens": 5, "max_tokens": 5}, {"max_output_tokens": 5}),
        ({"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        (
            {"reasoning_effort": "low", "reasoning": {"summary": "auto"}},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        (
            {"verbosity": "low", "response_format": {"type": "text"}},
            {"text": {"verbosity": "low", "format": {"type": "text"}}},
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
                }
            },
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}},
        ),
        (
            {"logprobs": True, "top_logprobs": 2},
            {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
        ),
        ({"temperature": 0, "top_p": 1, "user": "u"}, {"temperature": 0, "top_p": 1, "user": "u"}),
        ({"metadata": {"a": "b"}, "service_tier": "flex"}, {"metadata": {"a": "b"}, "service_tier": "flex"}),
        (
            {"parallel_tool_calls": False, "prompt_cache_key": "k"},
            {"parallel_tool_calls": False, "prompt_cache_key": "k"},
        ),
        ({"nobody_knows": None}, {"nobody_knows": None}),
        ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
        (
            {"stream": True, "stream_options": {"include_obfuscation": False}},
            {"stream": True, "stream_options": {"include_obfuscation": False}},
        ),
    ],
)
def test_a_field_is_said(fields: dict[str, Any], request_has: dict[str, Any]):
    found = said(**fields)
    plain = said()
    assert {
        name: value for name, value in found.items() if plain.get(name) != value or name not in plain
    } == request_has


def test_tools_are_flat_and_strict_only_where_that_was_asked_for():
    function = {"name": "f", "description": "d", "parameters": SCHEMA}
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
    found = said(
        tools=[
            {"type": "function", "function": function},
            {"type": "function", "function": {"name": "g", "strict": True}},
            {"type": "custom", "custom": {"name": "c", "format": grammar}},
        ],
    )
    assert found["tools"] == [
        {"type": "function", "strict": False, **function},
        {"type": "function", "name": "g", "strict": True, "parameters": None},
        {
            "type": "custom",
            "name": "c",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"},
        },
    ]


@pytest.mark.parametrize(
    ("choice", "flat"),
    [
        ("required", "required"),
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
        ({"type": "custom", "custom": {"name": "c"}}, {"type": "custom", "name": "c"}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        ),
    ],
)
def test_a_choice_is_flat(choice: Any, flat: Any):
    assert said(tool_choice=choice)["tool_choice"] == flat


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1},
        {"n": None},
        {"logprobs": False},
        {"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}},
        {"stop": None, "seed": None},
        {"modalities": ["text"]},
        {"tools": []},
        {"tool_choice": None, "temperature": None, "reasoning_effort": None, "response_format": None},
    ],
)
def test_defaults_without_an_equal_are_left_out_and_said_to_be(fields: dict[str, Any]):
    found = say_as_responses({"model": "any", "messages": HI} | fields, "gpt-4o", "because")
    assert found.request == said()
    assert set(found.left_out) == set(fields)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"stop": ["END"]}, "stop"),
        ({"seed": 1}, "seed"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"frequency_penalty": 1}, "frequency_penalty"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"audio": {"voice": "v"}}, "audio"),
        ({"prediction": {"type": "content"}}, "prediction"),
        ({"functions": [{}]}, "functions"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"tools": "f"}, "tools"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
        ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, "reasoning_effort"),
        ({"reasoning_effort": "high", "reasoning": {"effort": "low"}}, "reasoning"),
        ({"messages": [{"role": "user", "content": "x", "name": "n"}]}, "messages[0].name"),
    ],
)
def test_what_has_no_equal_is_refused_by_name(fields: dict[str, Any], param: str):
    with pytest.raises(Refused) as refusal:
        said(**fields)
    assert refusal.value.param == param
    assert refusal.value.code == "unsupported_parameter"


def test_the_rows_say_what_became_of_each_field_and_why_it_goes_to_responses():
    fields = {
        "model": "any",
        "messages": HI,
        "max_tokens": 5,
        "reasoning_effort": "low",
        "user": "u",
        "stop": None,
        "tool_choice": {"type": "function", "function": {"name": "f"}},
    }
    rows = {row.field: row for row in say_as_responses(fields, "gpt-5.6", "because").rows(fields)}
    assert (rows["messages"].became, rows["messages"].at, rows["messages"].why) == (
        "renamed to",
        "input",
        "because",
    )
    assert (rows["max_tokens"].became, rows["max_tokens"].at) == ("renamed to", "max_output_tokens")
    assert (rows["reasoning_effort"].became, rows["reasoning_effort"].at) == ("moved to", "reasoning.effort")
    assert rows["user"].became == "forwarded"
    assert rows["stop"].became == "left out"
    assert rows["tool_choice"].became == "value changed"
    assert rows["store"].became == "set by the translator"
    assert rows["include"].after == [SEALED]
