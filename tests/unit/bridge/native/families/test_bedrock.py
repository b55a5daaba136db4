"""Converse's rules: nothing is placed, since its requests are signed."""

from __future__ import annotations

from osmosis_bridge.native.families.bedrock import CONVERSE
from osmosis_bridge.native.rule import OPENAI_FIELDS, Asked

ASKED = Asked({"tools": [1], "logprobs": True}, supported=OPENAI_FIELDS, reserved=frozenset({"tags"}))


def test_no_rule_puts_anything_into_the_body() -> None:
    for name in (*OPENAI_FIELDS, "top_k", "x_new", "guardrailConfig"):
        for value in ("auto", "default", 1, True, ["a"], {"type": "json_schema"}):
            assert CONVERSE.rule(name, value, ASKED).act != "place"


def test_a_model_s_own_fields_and_bedrock_s_have_their_places() -> None:
    assert CONVERSE.rule("x_new", 1, ASKED).at == (("additionalModelRequestFields", "x_new"),)
    assert CONVERSE.rule("guardrailConfig", {}, ASKED).at == (("guardrailConfig",),)
    assert CONVERSE.rule("tags", ["a"], ASKED).act == "refuse"


def test_what_converse_cannot_say_is_refused() -> None:
    assert CONVERSE.rule("tool_choice", "none", ASKED).act == "refuse"
    assert CONVERSE.rule("service_tier", "auto", ASKED).act == "refuse"
    assert CONVERSE.rule("service_tier", "flex", ASKED).at == (("serviceTier", "type"),)
    assert CONVERSE.rule("max_completion_tokens", 5, Asked({"max_tokens": 6})).act == "refuse"
