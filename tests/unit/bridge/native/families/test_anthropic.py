"""Claude's rules."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.families.anthropic import ANTHROPIC, VERTEX_CLAUDE
from osmosis_bridge.native.rule import Asked


def test_two_limits_that_differ_are_refused() -> None:
    assert ANTHROPIC.rule("max_completion_tokens", 5, Asked({"max_tokens": 6})).act == "refuse"
    assert ANTHROPIC.rule("max_completion_tokens", 5, Asked({"max_tokens": 5})).act == "translate"


def test_a_limit_may_grow_by_the_thinking_budget_and_only_by_that() -> None:
    assert ANTHROPIC.rule("max_tokens", 5, Asked({})).check == "same"
    assert ANTHROPIC.rule("max_tokens", 5, Asked({"reasoning_effort": "low"})).check == "changed"


def test_a_user_and_a_user_id_that_differ_are_refused() -> None:
    assert ANTHROPIC.rule("metadata", {"user_id": "a"}, Asked({"user": "b"})).act == "refuse"
    assert ANTHROPIC.rule("metadata", {"user_id": "a"}, Asked({"user": "a"})).act == "place"


@pytest.mark.parametrize(
    ("tier", "act"),
    [("auto", "place"), ("standard_only", "place"), ("default", "refuse"), ("flex", "refuse")],
)
def test_only_claude_s_own_service_tiers_are_sent(tier: str, act: str) -> None:
    assert ANTHROPIC.rule("service_tier", tier, Asked({})).act == act
    assert VERTEX_CLAUDE.rule("service_tier", tier, Asked({})).act == "refuse"


def test_json_without_a_schema_is_refused() -> None:
    assert ANTHROPIC.rule("response_format", {"type": "json_object"}, Asked({})).act == "refuse"
    assert ANTHROPIC.rule("response_format", {"type": "text"}, Asked({})).act == "absent"


def test_reasoning_is_refused_where_the_model_has_none() -> None:
    assert ANTHROPIC.rule("reasoning_effort", "low", Asked({})).act == "refuse"
    assert ANTHROPIC.rule("reasoning_effort", "none", Asked({})).act == "absent"
