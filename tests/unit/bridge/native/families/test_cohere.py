"""Cohere's rules."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.families.cohere import COHERE
from osmosis_bridge.native.jsontree import MISSING
from osmosis_bridge.native.rule import Asked

WITH_TOOLS = Asked({"tools": [1]})


@pytest.mark.parametrize(
    ("choice", "act", "value"),
    [
        ("required", "place", "REQUIRED"),
        ("none", "place", "NONE"),
        ("auto", "absent", None),
        ({"type": "function"}, "refuse", None),
    ],
)
def test_a_tool_choice_is_said_in_cohere_s_words(choice: object, act: str, value: str | None) -> None:
    rule = COHERE.rule("tool_choice", choice, WITH_TOOLS)
    assert rule.act == act
    assert value is None or rule.value == value


def test_a_schema_is_said_in_cohere_s_form() -> None:
    given = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    assert COHERE.rule("response_format", given, Asked({})).value == {
        "type": "json_object",
        "json_schema": {"type": "object"},
    }
    assert COHERE.rule("response_format", {"type": "json_schema"}, Asked({})).act == "refuse"
    assert COHERE.rule("response_format", {"type": "odd"}, Asked({})).act == "refuse"
    assert COHERE.rule("tools", [], Asked({})).act == "absent"


def test_a_budget_of_thought_has_cohere_s_name() -> None:
    rule = COHERE.rule("thinking", {"type": "enabled", "budget_tokens": 9}, Asked({}))
    assert (rule.at, rule.value) == ((("thinking",),), {"type": "enabled", "token_budget": 9})
    for own in ({"type": "enabled", "token_budget": 9}, {"type": "disabled"}):
        assert COHERE.rule("thinking", own, Asked({})).value is MISSING
