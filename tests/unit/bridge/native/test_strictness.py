"""Tools whose arguments must hold to their schemas."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.bedrock import CONVERSE
from osmosis_bridge.native.families.cohere import COHERE
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.jsontree import Conflict
from osmosis_bridge.native.strictness import mark_strict, wants_strict, without_strict

STRICT = [{"type": "function", "function": {"name": "f", "strict": True}}]
MODE = ("toolConfig", "functionCallingConfig", "mode")


def mode(value: str) -> dict[str, Any]:
    return {"toolConfig": {"functionCallingConfig": {"mode": value}}}


def test_strict_is_found_on_a_tool_in_either_place_and_nowhere_deeper() -> None:
    assert wants_strict(STRICT)
    assert wants_strict([{"strict": True}])
    assert not wants_strict([{"function": {"strict": False}}, "odd", {"function": None}])
    assert not wants_strict([{"function": {"parameters": {"default": {"strict": True}}}}])
    assert not wants_strict("odd")


def test_tools_without_the_word_are_otherwise_the_same() -> None:
    tools = [{"strict": True, "function": {"name": "f", "strict": True, "parameters": {"strict": 1}}}, "odd"]
    assert without_strict(tools) == [{"function": {"name": "f", "parameters": {"strict": 1}}}, "odd"]
    assert tools[0]["strict"] is True


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, "VALIDATED"), (mode("AUTO"), "VALIDATED"), (mode("ANY"), "ANY"), (mode("NONE"), "NONE")],
)
def test_gemini_s_calls_are_validated_where_nothing_else_makes_them_hold(
    before: dict[str, Any], after: str
) -> None:
    said = mark_strict(before, STRICT, GEMINI)
    assert said is not None
    assert (said.at, said.value) == (MODE, after)
    assert before == mode(after)


def test_cohere_has_one_word_for_all_tools_and_a_client_s_own_stands() -> None:
    body: dict[str, Any] = {}
    said = mark_strict(body, STRICT, COHERE)
    assert body == {"strict_tools": True}
    assert said is not None
    with pytest.raises(Conflict):
        mark_strict({"strict_tools": False}, STRICT, COHERE)


def test_claude_has_it_on_the_tools_that_ask() -> None:
    body: dict[str, Any] = {"tools": [{"name": "f"}, {"name": "g"}]}
    assert mark_strict(body, STRICT, ANTHROPIC) is None
    assert body == {"tools": [{"name": "f", "strict": True}, {"name": "g"}]}


def test_nothing_is_said_where_nobody_asked_or_the_dialect_has_no_word() -> None:
    body: dict[str, Any] = {}
    assert mark_strict(body, [{"function": {"name": "f"}}], GEMINI) is None
    assert mark_strict(body, STRICT, CONVERSE) is None
    assert body == {}
