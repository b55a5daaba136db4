"""The post-condition on what LiteLLM would send."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.bedrock import CONVERSE
from osmosis_bridge.native.families.cohere import COHERE
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.families.other import OTHER
from osmosis_bridge.native.outgoing import FieldRow, missing_words, not_a_call, settle, without_defaults
from osmosis_bridge.native.plan import Unsupported, make_plan
from osmosis_bridge.native.rule import Asked, Family

TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object", "title": "T"}},
}


def settled(
    family: Family, fields: dict[str, Any], body: dict[str, Any], *, signed: bool = False
) -> dict[str, FieldRow]:
    asked = Asked(
        fields, supported=frozenset({"tools", "tool_choice", "response_format", "reasoning_effort"})
    )
    rows = settle(body, make_plan(fields, family, asked), family, signed=signed)
    return {row.field: row for row in rows}


def test_a_field_is_reported_by_where_it_stands() -> None:
    rows = settled(
        ANTHROPIC,
        {"temperature": 0.5, "stop": "A", "user": "u", "reasoning_effort": "low", "n": 1},
        {"thinking": {"type": "enabled"}, "max_tokens": 4096},
    )
    assert rows["temperature"] == FieldRow("temperature", "forwarded", "temperature")
    assert rows["stop"].became == "value changed"
    assert rows["stop"].after == ["A"]
    assert rows["user"] == FieldRow("user", "moved to", "metadata.user_id")
    assert rows["reasoning_effort"].after == {"type": "enabled"}
    assert rows["n"].became == "left out"
    assert rows["max_tokens"] == FieldRow("max_tokens", "set by the translator", "max_tokens", after=4096)


def test_a_translated_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        settled(CONVERSE, {"temperature": 0.5}, {"inferenceConfig": {"temperature": 0.7}})
    assert caught.value.param == "temperature"
    assert settled(CONVERSE, {"temperature": 0.5}, {"inferenceConfig": {"temperature": 0.5}})[
        "temperature"
    ].at


def test_a_name_that_the_conversation_takes_is_a_conflict() -> None:
    with pytest.raises(Refused) as caught:
        settled(ANTHROPIC, {"system": "mine"}, {"system": "theirs"})
    assert caught.value.param == "system"
    body: dict[str, Any] = {}
    settled(ANTHROPIC, {"system": "mine"}, body)
    assert body == {"system": "mine"}


def test_nothing_is_put_into_a_signed_request() -> None:
    with pytest.raises(Refused):
        settled(ANTHROPIC, {"tags": ["a"]}, {}, signed=True)


def test_objects_of_the_client_s_are_merged_with_what_stands_there() -> None:
    body: dict[str, Any] = {}
    rows = settled(GEMINI, {"temperature": 0.5, "generationConfig": {"topK": 3}}, body)
    assert body == {"generationConfig": {"temperature": 0.5, "topK": 3}}
    assert rows["generationConfig"].became == "forwarded"


@pytest.mark.parametrize(
    ("family", "fields", "refused"),
    [
        (GEMINI, {"generationConfig": {"temperature": 0.5}, "temperature": 1}, "temperature"),
        (GEMINI, {"temperature": 1, "generationConfig": {"temperature": 0.5}}, "generationConfig"),
        (GEMINI, {"max_tokens": 5, "generationConfig": {"maxOutputTokens": 9}}, "generationConfig"),
        (GEMINI, {"generation_config": {"stopSequences": ["A"]}, "stop": ["B"]}, "stop"),
        (GEMINI, {"generationConfig": {"topK": 3}, "generation_config": {"top_k": 4}}, "generation_config"),
        (COHERE, {"max_tokens": 5, "max_completion_tokens": 9}, "max_completion_tokens"),
        (ANTHROPIC, {"user": "u", "metadata": {"user_id": None}}, "metadata"),
    ],
)
def test_two_fields_that_say_different_things_in_one_place_are_refused(
    family: Family, fields: dict[str, Any], refused: str
) -> None:
    with pytest.raises(Refused) as caught:
        settled(family, fields, {})
    assert caught.value.param == refused


def test_two_fields_that_say_the_same_go_and_the_client_s_own_stay_as_they_were() -> None:
    fields: dict[str, Any] = {"generationConfig": {"topK": 3}, "temperature": 1}
    settled(COHERE, {"max_tokens": 5, "max_completion_tokens": 5}, {})
    settled(GEMINI, fields, {})
    assert fields == {"generationConfig": {"topK": 3}, "temperature": 1}


def test_a_name_in_another_spelling_is_the_same_name_where_the_provider_takes_both() -> None:
    body: dict[str, Any] = {"generationConfig": {"response_mime_type": "application/json"}}
    fields = {"max_tokens": 9, "generationConfig": {"maxOutputTokens": 9, "topK": 3}}
    rows = settled(GEMINI, fields, body)
    assert body["generationConfig"] == {
        "response_mime_type": "application/json",
        "max_output_tokens": 9,
        "topK": 3,
    }
    assert rows["generationConfig"].after == {"max_output_tokens": 9, "topK": 3}
    with pytest.raises(Refused) as caught:
        settled(GEMINI, {"generationConfig": {"responseMimeType": "text/plain"}}, body)
    assert caught.value.param == "generationConfig"
    with pytest.raises(Refused):
        settled(GEMINI, {"systemInstruction": {"parts": []}}, {"system_instruction": {"parts": [{}]}})


def test_a_tool_with_an_odd_name_is_looked_for_like_any_other() -> None:
    odd = {"type": "function", "function": {"name": ["f"], "strict": True}}
    body: dict[str, Any] = {"tools": [{"name": ["f"]}]}
    settled(ANTHROPIC, {"tools": [odd]}, body)
    assert body["tools"][0]["strict"] is True


def test_all_that_cannot_stand_is_refused_at_once() -> None:
    fields = {"seed": 1, "temperature": 0.5, "max_tokens": 9, "stop": ["A"], "guardrailConfig": {"a": "b"}}
    with pytest.raises(Unsupported) as caught:
        settled(CONVERSE, fields, {"inferenceConfig": {"temperature": 0.7, "maxTokens": 9}})
    assert list(caught.value.fields) == ["seed", "temperature", "stop", "guardrailConfig"]
    twice = {"temperature": 1, "generationConfig": {"temperature": 0.5}, "systemInstruction": {"parts": [1]}}
    with pytest.raises(Unsupported) as caught:
        settled(GEMINI, twice, {"system_instruction": {"parts": []}})
    assert list(caught.value.fields) == ["generationConfig", "systemInstruction"]
    with pytest.raises(Unsupported) as caught:
        settled(ANTHROPIC, {"tags": ["a"], "user": "u"}, {}, signed=True)
    assert list(caught.value.fields) == ["tags", "user"]


def test_strict_tools_of_a_dialect_with_one_word_for_all_are_told_apart_from_the_tools() -> None:
    strict = {"type": "function", "function": {"name": "f", "strict": True}}
    body: dict[str, Any] = {"tools": [{"function_declarations": [{"name": "f"}]}]}
    rows = settled(GEMINI, {"tools": [strict]}, body)
    assert rows["tools"].became == "value changed"
    assert rows["tools.strict"].became == "moved to"
    assert rows["tools.strict"].at == "toolConfig.functionCallingConfig.mode"
    assert "toolConfig" not in rows, "it is not the translator's doing"
    body = {}
    rows = settled(COHERE, {"tools": [strict]}, body)
    assert (rows["tools.strict"].became, rows["tools.strict"].at) == ("renamed to", "strict_tools")
    assert body == {"tools": [strict], "strict_tools": True}
    with pytest.raises(Unsupported) as caught:
        settled(COHERE, {"tools": [strict], "strict_tools": False}, {})
    assert list(caught.value.fields) == ["tools"]


def test_a_model_without_strict_tools_says_what_to_do() -> None:
    strict = {"type": "function", "function": {"name": "f", "strict": True}}
    sent = {"toolConfig": {"tools": [{"toolSpec": {"name": "f"}}]}}
    with pytest.raises(Unsupported) as caught:
        settled(CONVERSE, {"tools": [strict]}, sent)
    assert "leave strict out, or set it to false" in caught.value.message


def test_strict_is_set_on_the_tools_that_ask_for_it() -> None:
    strict = {"type": "function", "function": {**TOOL["function"], "name": "g", "strict": True}}
    body = {
        "tools": [
            {"name": "f", "description": "d", "input_schema": {"type": "object"}},
            {"name": "g", "description": "d"},
        ]
    }
    settled(ANTHROPIC, {"tools": [TOOL, strict]}, body)
    assert [tool.get("strict") for tool in body["tools"]] == [None, True]


def test_a_tool_that_lost_a_word_is_refused_and_titles_are_none() -> None:
    sent = {
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "f", "description": "d", "inputSchema": {"type": "object"}}}]
        }
    }
    assert settled(CONVERSE, {"tools": [TOOL]}, sent)["tools"].at == "toolConfig.tools"
    limited = {
        "type": "function",
        "function": {**TOOL["function"], "parameters": {"type": "object", "minProperties": 2}},
    }
    with pytest.raises(Refused) as caught:
        settled(CONVERSE, {"tools": [limited]}, sent)
    assert "missing there: 2, minproperties" in caught.value.message


def test_a_dialect_without_a_table_must_show_the_field_under_its_name() -> None:
    rows = settled(OTHER, {"x_new": 3}, {"params": {"xNew": 3}})
    assert rows["x_new"].became in ("forwarded", "moved to")
    with pytest.raises(Refused):
        settled(OTHER, {"x_new": 3}, {"params": {"other": 3}})
    assert settled(OTHER, {"x_list": ["a", "b"]}, {"params": {"x_list": ["a", "b"]}})


def test_a_tool_without_arguments_may_lose_its_empty_schema() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {}, "required": []}}}
    assert missing_words([tool], [{"name": "f"}]) == set()
    tool["function"]["parameters"]["required"] = ["a"]
    assert missing_words([tool], [{"name": "f"}]) == {"required", "a"}


def test_false_strictness_and_nulls_say_nothing() -> None:
    assert without_defaults([{"strict": False, "a": None, "b": {"strict": True}}]) == [
        {"b": {"strict": True}}
    ]
    assert missing_words([{"strict": False}], []) == set()
    assert missing_words([{"strict": True}], []) == {"strict"}


def test_a_request_of_litellm_s_own_is_refused_with_a_way_out() -> None:
    refusal = not_a_call("/v1beta/cachedContents")
    assert refusal.code == "unsupported_parameter"
    assert "data URLs" in refusal.message


def test_a_schema_may_arrive_as_the_text_of_it() -> None:
    asked = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"required": ["city"]}}}
    there = {"structure": {"jsonSchema": {"schema": '{"required": ["city"]}'}}}
    assert missing_words(asked, there) == set()
    assert missing_words(asked, {"structure": '{"required": ["town"]}'}) == {"city"}
    assert missing_words(asked, {"structure": '{"required": '}) == {"required", "city"}
