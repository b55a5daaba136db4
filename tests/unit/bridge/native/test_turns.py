"""What of a conversation can be handed to LiteLLM."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.chat import CHAT
from osmosis_bridge.native.families.cohere import COHERE
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.families.ollama import OLLAMA
from osmosis_bridge.native.plan import Unsupported
from osmosis_bridge.native.rule import Family
from osmosis_bridge.native.turns import parsed, prepare

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "s"}]


def refused(family: Family, *turns: Any) -> str | None:
    with pytest.raises(Refused) as caught:
        prepare(list(turns), family)
    assert caught.value.status == 400
    return caught.value.param


def test_openai_s_own_goes_as_it_is() -> None:
    turns = [{"role": "odd", "content": None, "name": "n", "x": 1}]
    assert prepare(turns, CHAT).messages is turns


@pytest.mark.parametrize(
    ("turn", "place"),
    [
        ({"role": "user", "content": "a", "name": "ann"}, "messages[0].name"),
        ({"role": "user", "content": "a", "mood": 1}, "messages[0].mood"),
        ({"role": "assistant", "content": ""}, "messages[0].content"),
        ({"role": "assistant", "content": None}, "messages[0].content"),
        ({"role": "user", "content": []}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "robot", "content": "a"}, "messages[0].role"),
        ({"role": "user", "content": [{"type": "text", "text": " "}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": "a", "odd": 1}]}, "messages[0].content[0].odd"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "detail": "low"}}]},
            "messages[0].content[0].image_url.detail",
        ),
        ({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}, "messages[0].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [CALL | {"odd": 1}]}, "messages[0].tool_calls[0].odd"),
        (
            {"role": "assistant", "tool_calls": [CALL | {"function": {"name": "f", "arguments": "{"}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ("hello", "messages[0]"),
    ],
)  # fmt: skip
def test_what_the_dialect_cannot_hold_is_refused_with_its_place(turn: Any, place: str) -> None:
    assert refused(ANTHROPIC, turn) == place


def test_all_turns_that_cannot_be_sent_are_named_at_once() -> None:
    with pytest.raises(Unsupported) as caught:
        prepare([{"role": "user", "content": "a", "name": "n"}, {"role": "user", "content": ""}], ANTHROPIC)
    assert list(caught.value.fields) == ["messages[0].name", "messages[1].content"]


@pytest.mark.parametrize("messages", [None, [], "hi", {}])
def test_a_conversation_is_a_list_with_something_in_it(messages: Any) -> None:
    with pytest.raises(Refused):
        prepare(messages, CHAT)


def test_what_says_nothing_is_taken_out() -> None:
    turn = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "tool_calls": [],
        "annotations": [],
        "audio": None,
    }
    assert prepare([turn], ANTHROPIC).messages == [{"role": "assistant", "content": "a"}]


def test_turns_that_call_tools_or_think_need_no_words() -> None:
    prepare([{"role": "assistant", "content": None, "tool_calls": [CALL]}], COHERE)
    prepare([{"role": "assistant", "content": "", "thinking_blocks": BLOCKS}], ANTHROPIC)
    prepare([{"role": "tool", "tool_call_id": "c", "content": "", "name": "f"}], ANTHROPIC)
    prepare([{"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": ""}]}], ANTHROPIC)


def test_cache_marks_and_image_detail_pass_where_the_dialect_has_them() -> None:
    marked = {
        "role": "user",
        "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
    }
    prepare([marked], ANTHROPIC)
    assert refused(GEMINI, marked) == "messages[0].content[0].cache_control"
    prepare(
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "detail": "low"}}]}],
        GEMINI,
    )


def test_reasoning_without_its_signature_goes_back_only_where_it_needs_none() -> None:
    turn = {"role": "assistant", "content": "a", "reasoning_content": "hm"}
    assert refused(ANTHROPIC, turn) == "messages[0].reasoning_content"
    assert refused(COHERE, turn) == "messages[0].reasoning_content"
    assert prepare([turn], OLLAMA).messages == [turn]
    assert list(prepare([turn], GEMINI).left_out) == ["messages[0].reasoning_content"]
    with_blocks = prepare([turn | {"thinking_blocks": BLOCKS}], ANTHROPIC)
    assert with_blocks.messages == [{"role": "assistant", "content": "a", "thinking_blocks": BLOCKS}]
    assert list(with_blocks.left_out) == ["messages[0].reasoning_content"]


def test_google_s_own_place_of_a_thought_signature_is_read() -> None:
    call = CALL | {"extra_content": {"google": {"thought_signature": "s"}}}
    made = prepare([{"role": "assistant", "content": None, "tool_calls": [call]}], GEMINI)
    assert made.messages[0]["tool_calls"][0]["provider_specific_fields"] == {"thought_signature": "s"}


def test_a_text_that_is_no_json_has_no_value() -> None:
    assert parsed('{"a":1}') == {"a": 1}
    assert parsed("{") is None
