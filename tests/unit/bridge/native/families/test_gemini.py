"""Gemini's rules."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.rule import Asked, Rule


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


@pytest.mark.parametrize(
    ("value", "effort", "act", "sent"),
    [
        ({"type": "enabled", "budget_tokens": 9}, None, "translate", None),
        ({"type": "disabled"}, None, "place", {"thinkingBudget": 0}),
        ({"type": "adaptive"}, None, "place", {"thinkingBudget": -1, "includeThoughts": True}),
        ({"type": "adaptive", "display": "summarized"}, "low", "absent", None),
        ({"type": "adaptive", "display": "omitted"}, None, "refuse", None),
        ({"type": "enabled", "budget_tokens": 9, "odd": 1}, None, "refuse", None),
    ],
)
def test_thinking_is_never_lost(value: object, effort: str | None, act: str, sent: object) -> None:
    fields = {} if effort is None else {"reasoning_effort": effort}
    rule = GEMINI.rule("thinking", value, Asked(fields, supported=frozenset({"thinking"})))
    assert rule.act == act
    assert sent is None or rule.value == sent
    assert GEMINI.rule("thinking", value, Asked(fields)).act == "refuse"


def test_an_effort_and_a_budget_are_two_ways_of_saying_how_much() -> None:
    def rule(thinking: object) -> Rule:
        fields = {"reasoning_effort": "low", "thinking": thinking}
        supported = frozenset({"reasoning_effort", "thinking"})
        return GEMINI.rule("reasoning_effort", "low", Asked(fields, supported=supported))

    assert rule({"type": "enabled", "budget_tokens": 9}).act == "refuse"
    assert rule({"type": "disabled"}).act == "refuse"
    assert rule({"type": "adaptive"}).act == "translate"
