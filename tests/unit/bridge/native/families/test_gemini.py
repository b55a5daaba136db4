"""Gemini's rules."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.rule import Asked


@pytest.mark.parametrize(("tier", "value"), [("default", "standard"), ("flex", None), ("priority", None)])
def test_a_service_tier_is_one_of_gemini_s(tier: str, value: str | None) -> None:
    rule = GEMINI.rule("service_tier", tier, Asked({}))
    assert rule.at == (("serviceTier",),)
    assert value is None or rule.value == value


def test_auto_is_not_made_the_dearest_tier() -> None:
    assert GEMINI.rule("service_tier", "auto", Asked({})).act == "refuse"


def test_fields_of_gemini_s_own_and_new_ones_have_their_places() -> None:
    nothing = Asked({})
    assert GEMINI.rule("x_new", 1, nothing).at == (("x_new",),)
    assert GEMINI.rule("generation_config", {}, nothing).at == (("generationConfig",),)
    assert GEMINI.rule("top_logprobs", 2, nothing).act == "refuse"
    assert GEMINI.rule("top_logprobs", 2, Asked({"logprobs": True})).at == (("generationConfig", "logprobs"),)
    assert GEMINI.rule("max_completion_tokens", 5, Asked({"max_tokens": 6})).act == "refuse"


def test_one_tool_at_a_time_cannot_be_asked_of_gemini() -> None:
    with_tools = Asked({"tools": [1]})
    assert GEMINI.rule("parallel_tool_calls", False, with_tools).act == "refuse"
    assert GEMINI.rule("parallel_tool_calls", True, with_tools).act == "absent"
