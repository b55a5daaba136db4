"""Turns of chat completions as items of Responses."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.via_responses.answer import message_of
from osmosis_bridge.native.via_responses.items import OUTPUT, input_of

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}],
}
CALLED = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "f",
    "arguments": "{}",
    "status": "completed",
}


def test_texts_keep_their_roles():
    found = input_of(
        [{"role": role, "content": role} for role in ("system", "developer", "user", "assistant")]
    )
    assert found == [
        {"type": "message", "role": role, "content": role}
        for role in ("system", "developer", "user", "assistant")
    ]


def test_parts_are_said_with_all_their_members():
    content = [
        {"type": "text", "text": "?", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:y"}},
        {"type": "file", "file": {"file_data": "data:z", "filename": "a.pdf"}},
    ]
    assert input_of([{"role": "user", "content": content}])[0]["content"] == [
        {"type": "input_text", "text": "?", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_image", "image_url": "data:x", "detail": "low"},
        {"type": "input_image", "image_url": "data:y", "detail": "auto"},
        {"type": "input_file", "file_data": "data:z", "filename": "a.pdf"},
    ]


def test_calls_and_their_outputs_are_items_of_their_own():
    found = input_of(
        [
            {"role": "assistant", "content": "ok", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}]},
        ]
    )
    assert found == [
        {"type": "message", "role": "assistant", "content": "ok"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "1"}]},
    ]


def test_custom_calls_have_custom_outputs():
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select"}}
    found = input_of(
        [
            {"role": "assistant", "content": None, "tool_calls": [custom]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ]
    )
    assert found == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"},
    ]


def test_a_refusal_is_said_as_one():
    found = input_of([{"role": "assistant", "content": "well", "refusal": "no"}])
    assert found[0]["content"] == [
        {"type": "output_text", "text": "well"},
        {"type": "refusal", "refusal": "no"},
    ]


@pytest.mark.parametrize(
    "output",
    [
        [REASONING, CALLED],
        [REASONING, SAID, CALLED],
        [SAID | {"phase": "commentary"}, REASONING, SAID | {"id": "msg_2"}],
        [REASONING, {"type": "web_search_call", "id": "ws_1", "status": "completed"}, SAID],
        [{**SAID, "content": [{"type": "refusal", "refusal": "no"}]}, REASONING],
    ],
)
def test_a_turn_that_responses_gave_goes_back_as_the_items_it_gave(output: list[dict[str, Any]]):
    assert input_of([message_of(output)]) == output


def test_a_turn_whose_words_were_changed_says_the_new_ones_and_keeps_its_reasoning():
    message = message_of([REASONING, SAID, CALLED]) | {"content": "changed"}
    assert input_of([message]) == [
        REASONING,
        {"type": "message", "role": "assistant", "content": "changed"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    ]


def test_what_says_nothing_is_left_out():
    turn = {
        "role": "assistant",
        "content": "ok",
        "refusal": None,
        "tool_calls": [],
        "annotations": [],
        "audio": None,
    }
    assert input_of([turn]) == [{"type": "message", "role": "assistant", "content": "ok"}]
    noted = {"role": "assistant", "content": "ok", "annotations": [{"type": "url_citation"}]}
    assert len(input_of([noted])) == 1


@pytest.mark.parametrize(
    ("turn", "param"),
    [
        ({"role": "user", "content": "x", "name": "ann"}, "messages[0].name"),
        ({"role": "function", "content": "x", "name": "f"}, "messages[0].role"),
        ({"role": "assistant", "content": "x", "function_call": {"name": "f"}}, "messages[0].function_call"),
        ({"role": "assistant", "content": "x", "reasoning_content": "hm"}, "messages[0].reasoning_content"),
        ({"role": "assistant", "content": "x", "thinking_blocks": [{}]}, "messages[0].thinking_blocks"),
        ({"role": "assistant", "content": "x", "audio": {"id": "a"}}, "messages[0].audio"),
        ({"role": "assistant", "tool_calls": [CALL | {"vendor": 1}]}, "messages[0].tool_calls[0].vendor"),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {}}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": 7}, "messages[0].content"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "x": 1}}]},
            "messages[0].content[0].image_url.x",
        ),
        ({"role": "user", "content": [{"type": "file", "file": {"x": 1}}]}, "messages[0].content[0].file.x"),
    ],
)
def test_what_has_no_place_is_refused_at_its_own(turn: dict[str, Any], param: str):
    with pytest.raises(Refused) as refusal:
        input_of([turn])
    assert refusal.value.param == param


def test_the_name_of_a_tool_goes_with_its_output():
    assert input_of([{"role": "tool", "tool_call_id": "c", "content": "1", "name": "f"}])[0]["name"] == "f"


def test_the_member_that_keeps_items_is_the_one_that_memory_knows():
    assert message_of([REASONING, SAID])["provider_specific_fields"] == {OUTPUT: [REASONING, SAID]}
