"""Ollama's rules."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.families.ollama import OLLAMA, OLLAMA_GENERATE
from osmosis_bridge.native.jsontree import MISSING
from osmosis_bridge.native.rule import Asked, Rule

NOTHING = Asked({})


@pytest.mark.parametrize(("level", "value"), [("low", MISSING), ("high", MISSING), ("none", False)])
def test_a_level_of_reasoning_stays_a_level(level: str, value: object) -> None:
    rule = OLLAMA.rule("reasoning_effort", level, NOTHING)
    assert rule.at == (("think",),)
    assert rule.value is value


def test_an_unknown_level_is_refused() -> None:
    assert OLLAMA.rule("reasoning_effort", "xhigh", NOTHING).act == "refuse"


def test_fields_stand_in_options_or_beside_them() -> None:
    assert OLLAMA.rule("num_ctx", 9, NOTHING).at == (("options", "num_ctx"),)
    assert OLLAMA.rule("keep_alive", "5m", NOTHING).at == (("keep_alive",),)
    assert OLLAMA.rule("options", {"num_ctx": 9}, NOTHING).at == (("options",),)
    assert OLLAMA.rule("frequency_penalty", 0.5, NOTHING).at == (("options", "frequency_penalty"),)


def test_a_response_format_becomes_ollama_s_own() -> None:
    assert OLLAMA.rule("response_format", {"type": "json_object"}, NOTHING).value == "json"
    schema = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    assert OLLAMA.rule("response_format", schema, NOTHING).value == {"type": "object"}
    assert (
        OLLAMA.rule("response_format", {"type": "json_schema", "json_schema": "x"}, NOTHING).act == "refuse"
    )


def test_generate_takes_no_tools() -> None:
    assert OLLAMA_GENERATE.rule("tools", [1], NOTHING).act == "refuse"
    assert OLLAMA_GENERATE.rule("tools", [], NOTHING).act == "absent"
    assert OLLAMA.rule("tools", [1], NOTHING).act == "place"


def test_thinking_is_told_as_far_as_ollama_can_be_told() -> None:
    def rule(value: object, **fields: object) -> Rule:
        return OLLAMA.rule("thinking", value, Asked(fields))

    assert rule({"type": "disabled"}).value is False
    assert rule({"type": "adaptive"}).value is True
    assert rule({"type": "adaptive"}, reasoning_effort="low").act == "absent"
    assert rule({"type": "disabled"}, reasoning_effort="low").act == "refuse"
    assert rule({"type": "enabled", "budget_tokens": 9}).act == "refuse"
    assert rule({"type": "adaptive", "display": "omitted"}).act == "refuse"
