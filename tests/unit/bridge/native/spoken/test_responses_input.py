"""The input of a Responses request as turns of chat completions."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.spoken.carried import pack
from osmosis_bridge.native.spoken.responses_input import read_input

BLOCK = {"type": "thinking", "thinking": "hm", "signature": "sig"}
USER = {"role": "user", "content": "hi"}


def said(text: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": "m",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    } | more


def call(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc", "call_id": call_id, "name": "f", "arguments": "{}"} | more


def output(call_id: str, value: Any = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def thought(text: str = "hm", *, turn: Any = None, calls: Any = None) -> dict[str, Any]:
    item: dict[str, Any] = {
        "type": "reasoning",
        "id": "rs",
        "summary": [{"type": "summary_text", "text": text}],
    }
    packed = pack(turn or {}, calls or {})
    return item if packed is None else item | {"encrypted_content": packed}


def turns(*items: Any) -> list[dict[str, Any]]:
    return read_input(None, list(items)).messages


def test_text_is_a_turn_of_the_user_and_instructions_are_one_of_the_system():
    found = read_input("be brief", "hi")
    assert found.messages == [{"role": "system", "content": "be brief"}, USER]
    assert found.sources["messages[0].content"] == "instructions"
    assert found.sources["messages[1].content"] == "input"


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_a_message_keeps_its_role_and_its_parts(role: str):
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert turns({"role": role, "content": parts}) == [
        {"role": role, "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_what_the_assistant_says_one_after_the_other_is_one_turn():
    found = turns(USER, thought(turn={"thinking_blocks": [BLOCK]}), said("ok"), call("c1"), call("c2"))
    assert found[1] == {
        "role": "assistant",
        "content": "ok",
        "reasoning_content": "hm",
        "thinking_blocks": [BLOCK],
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ],
    }


def test_calls_and_outputs_that_alternate_are_turns_that_alternate():
    found = turns(USER, call("c1"), output("c1"), call("c2"), output("c2"), said("done"))
    assert [turn["role"] for turn in found] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [turn.get("tool_call_id") for turn in found if turn["role"] == "tool"] == ["c1", "c2"]


def test_a_second_message_is_another_turn_unless_calls_wait_for_their_outputs():
    assert [turn["content"] for turn in turns(USER, said("one"), said("two"))] == ["hi", "one", "two"]
    found = turns(USER, said("one"), call("c1"), said("two"), output("c1"))
    assert [turn["role"] for turn in found] == ["user", "assistant", "tool"]
    assert [part["text"] for part in found[1]["content"]] == ["one", "two"]


def test_reasoning_belongs_to_what_is_said_next_or_else_to_what_was_said_last():
    found = turns(USER, said("one"), thought("two?"), said("two"), thought("after"))
    assert "reasoning_content" not in found[1]
    assert found[2]["reasoning_content"] == "two?\n\nafter"
    found = turns(USER, thought("alone"), USER)
    assert found[1] == {"role": "assistant", "content": None, "reasoning_content": "alone"}


def test_reasoning_between_calls_stays_in_their_turn():
    found = turns(
        USER,
        thought("a", turn={"thinking_blocks": [BLOCK]}),
        call("c1"),
        thought("b", turn={"thinking_blocks": [BLOCK | {"signature": "2"}]}),
        call("c2"),
        output("c1"),
        output("c2"),
    )
    assert [turn["role"] for turn in found] == ["user", "assistant", "tool", "tool"]
    assert [block["signature"] for block in found[1]["thinking_blocks"]] == ["sig", "2"]


def test_the_signature_of_a_call_comes_back_to_it():
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    found = turns(USER, thought("", calls={"c1": extra}), call("c1"), call("c2"))
    assert found[1]["tool_calls"][0]["extra_content"] == extra["extra_content"]
    assert "extra_content" not in found[1]["tool_calls"][1]


def test_reasoning_under_a_provider_s_own_name_goes_back_under_it():
    found = turns(USER, thought("hm", turn={"reasoning": "hm"}), said("ok"))
    assert found[1] == {"role": "assistant", "content": "ok", "reasoning": "hm"}


def test_reasoning_of_another_provider_is_refused():
    with pytest.raises(Refused) as refusal:
        turns(USER, {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAAA"})
    assert refusal.value.param == "input[1].encrypted_content"


def test_reasoning_that_says_nothing_is_no_turn():
    assert turns(USER, {"type": "reasoning", "id": "rs", "summary": []}) == [USER]


def test_images_files_and_audio_are_said_with_all_their_members():
    found = turns(
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "high"},
                {
                    "type": "input_file",
                    "file_data": "data:application/pdf;base64,AA",
                    "filename": "a.pdf",
                },
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                {"type": "input_text", "text": "?", "cache_control": {"type": "ephemeral"}},
            ],
        }
    )
    assert found[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "high"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "text", "text": "?", "cache_control": {"type": "ephemeral"}},
    ]


def test_the_output_of_a_call_may_be_parts():
    found = turns(
        USER,
        call("c1"),
        output("c1", [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:x"}]),
    )
    assert found[2]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:x"}},
    ]


def test_a_custom_call_and_its_output_are_said():
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"}
    found = turns(USER, custom, {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"})
    assert found[1]["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    ]
    assert found[2] == {"role": "tool", "tool_call_id": "c1", "content": "1"}


def test_a_refusal_is_said_as_one():
    item = said("") | {"content": [{"type": "refusal", "refusal": "no"}]}
    assert turns(USER, item)[1]["content"] == [{"type": "refusal", "refusal": "no"}]


def test_a_name_nobody_knows_stays_with_its_message():
    found = turns(USER | {"name": "ann"}, said("ok", provider_specific_fields={"a": 1}))
    assert found[0]["name"] == "ann"
    assert found[1]["provider_specific_fields"] == {"a": 1}


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "item_reference", "id": "x"}, "input[0]"),
        ({"id": "x"}, "input[0]"),
        ({"type": "computer_call", "id": "x"}, "input[0].type"),
        ({"type": "web_search_call", "id": "x"}, "input[0].type"),
        ("text", "input[0]"),
        (said("x", phase="commentary"), "input[0].phase"),
        ({"role": "tool", "content": "x"}, "input[0].role"),
        ({"role": "user", "content": None}, "input[0].content"),
        ({"role": "user", "content": ["x"]}, "input[0].content[0]"),
        ({"role": "user", "content": [{"type": "input_video"}]}, "input[0].content[0].type"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[0].content[0].text"),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
            "input[0].content[0].file_id",
        ),
        ({"role": "user", "content": [{"type": "input_image"}]}, "input[0].content[0].image_url"),
        (
            {"role": "user", "content": [{"type": "input_file", "file_url": "u"}]},
            "input[0].content[0].file_url",
        ),
        ({"role": "user", "content": [{"type": "input_file"}]}, "input[0].content[0].file_data"),
        (
            {"role": "user", "content": [{"type": "input_file", "file_id": "f", "detail": "low"}]},
            "input[0].content[0].detail",
        ),
        ({"role": "assistant", "content": [{"type": "refusal"}]}, "input[0].content[0].refusal"),
        (call("c", namespace="n"), "input[0].namespace"),
        (call("c", arguments={}), "input[0].arguments"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "input[0].call_id"),
        ({"type": "function_call_output", "output": "x"}, "input[0].call_id"),
        (output("c", None), "input[0].output"),
        (thought() | {"effort": "x"}, "input[0].effort"),
        ({"type": "reasoning", "summary": [{}]}, "input[0].summary[0].text"),
    ],
)
def test_what_cannot_be_said_is_refused_at_its_place(item: Any, param: str):
    with pytest.raises(Refused) as refusal:
        turns(item)
    assert refusal.value.param == param
    assert refusal.value.status == 400


@pytest.mark.parametrize("items", [None, [], 7])
def test_without_a_conversation_there_is_nothing_to_answer(items: Any):
    with pytest.raises(Refused) as refusal:
        read_input(None, items)
    assert refusal.value.param == "input"


def test_instructions_must_be_text():
    with pytest.raises(Refused) as refusal:
        read_input(["be"], "hi")
    assert refusal.value.param == "instructions"


def test_every_place_leads_back_to_where_the_client_wrote_it():
    found = read_input(
        "be", [USER, thought(turn={"thinking_blocks": [BLOCK]}), said("x"), call("c"), output("c")]
    )
    assert found.sources["messages[1]"] == "input[0]"
    assert found.sources["messages[2].thinking_blocks"] == "input[1].encrypted_content"
    assert found.sources["messages[2].content"] == "input[2].content"
    assert found.sources["messages[2].tool_calls[0].function"] == "input[3]"
    assert found.sources["messages[3].content"] == "input[4].output"
