"""Conversations that are no conversation, and turns that no dialect but OpenAI's holds: a 400 with the place of it."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.arrival import check_sent
from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.bedrock import CONVERSE
from osmosis_bridge.native.families.cohere import COHERE
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.families.ollama import OLLAMA
from osmosis_bridge.native.families.other import OTHER
from osmosis_bridge.native.memory import ReasoningMemory
from osmosis_bridge.native.rule import Family
from osmosis_bridge.native.turns import prepare

FOREIGN = (ANTHROPIC, CONVERSE, COHERE, GEMINI, OLLAMA, OTHER)
ODD: tuple[Any, ...] = (None, True, 0, 5, 2.5, "", "text", [], ["user"], [[]], {}, {"a": [1]})
every_family = pytest.mark.parametrize("family", FOREIGN, ids=lambda family: family.name)


def place_of_refusal(family: Family, *turns: Any) -> str | None:
    with pytest.raises(Refused) as caught:
        prepare(list(turns), family)
    assert caught.value.status == 400
    return caught.value.param


@every_family
def test_a_role_is_a_word_that_is_known(family: Family) -> None:
    for role in ODD:
        assert place_of_refusal(family, {"role": role, "content": "a"}) == "messages[0].role"


@every_family
@pytest.mark.parametrize("calls", [5, True, 1.5, "text", {"a": 1}])
def test_calls_are_a_list(family: Family, calls: object) -> None:
    turn = {"role": "assistant", "content": "a", "tool_calls": calls}
    assert place_of_refusal(family, turn) == "messages[0].tool_calls"


@every_family
def test_no_shape_of_a_turn_is_more_than_a_refusal(family: Family) -> None:
    memory = ReasoningMemory()
    memory.keep("r", {"content": "a", "thinking_blocks": [{"type": "thinking", "signature": "s"}]})
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    shapes: list[dict[str, Any]] = []
    for odd in ODD:
        shapes += [
            {"role": "user", "content": odd},
            {"role": "user", "content": [odd]},
            {"role": "user", "content": [{"type": odd, "text": "a"}]},
            {"role": "user", "content": [{"type": "text", "text": odd}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": odd}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": odd, "detail": odd}}]},
            {"role": "assistant", "content": "a", "tool_calls": odd},
            {"role": "assistant", "content": "a", "tool_calls": [odd]},
            {"role": "assistant", "content": "a", "tool_calls": [call | {"id": odd}]},
            {"role": "assistant", "content": "a", "tool_calls": [call | {"function": odd}]},
            {"role": "assistant", "content": "a", "tool_calls": [call | {"function": {"name": odd, "arguments": odd}}]},
            {"role": "assistant", "content": "a", "tool_calls": [call | {"extra_content": odd}]},
            {"role": "assistant", "content": "a", "thinking_blocks": odd},
            {"role": "assistant", "content": "a", "reasoning_content": odd},
            {"role": "tool", "content": odd, "tool_call_id": odd},
        ]  # fmt: skip
    refusals: list[Refused] = []
    for shape in shapes:
        try:
            made = prepare(memory.restore("r", [shape]), family).messages
            check_sent(made, dict.fromkeys(family.messages_at or ("messages",), made), family)
        except Refused as refusal:
            refusals.append(refusal)
    assert refusals
    assert {refusal.status for refusal in refusals} == {400}
    assert all((refusal.param or "").startswith("messages") for refusal in refusals)


@every_family
@pytest.mark.parametrize("content", ["", " \n", None, []])
def test_a_turn_that_says_nothing_would_be_filled_with_words_and_is_refused(
    family: Family, content: object
) -> None:
    for role in ("user", "assistant", "system"):
        assert place_of_refusal(family, {"role": role, "content": content}) == "messages[0].content"


@every_family
def test_a_name_has_no_place_outside_of_openai_s(family: Family) -> None:
    for role in ("system", "user", "assistant"):
        turn = {"role": role, "content": "a", "name": "ann"}
        assert place_of_refusal(family, turn) == "messages[0].name"


@every_family
def test_an_image_s_detail_goes_only_where_there_is_such_a_thing(family: Family) -> None:
    for detail in ("low", "high", "auto"):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": detail}}
        turns = [{"role": "user", "content": [image]}]
        if detail == "auto" or family is GEMINI:
            assert prepare(turns, family).messages == turns
        else:
            assert place_of_refusal(family, *turns) == "messages[0].content[0].image_url.detail"


@every_family
def test_a_mark_for_a_cache_goes_only_where_there_are_such(family: Family) -> None:
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    turns = [{"role": "user", "content": [part]}]
    if family in (ANTHROPIC, CONVERSE, OTHER):
        assert prepare(turns, family).messages == turns
    else:
        assert place_of_refusal(family, *turns) == "messages[0].content[0].cache_control"


@pytest.mark.parametrize("family", [ANTHROPIC, CONVERSE], ids=lambda family: family.name)
def test_a_signature_that_does_not_arrive_is_refused_with_its_place(family: Family) -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl"}]
    turns = [{"role": "assistant", "content": "a", "thinking_blocks": blocks}]
    made = prepare(turns, family).messages
    check_sent(made, {"messages": made}, family)
    with pytest.raises(Refused) as caught:
        check_sent(made, {"messages": [{"role": "assistant", "content": "a"}]}, family)
    assert caught.value.param == "messages[0].thinking_blocks[0].signature"
