"""The decision on one request before LiteLLM sees it."""

from __future__ import annotations

from typing import Any

from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.bedrock import CONVERSE
from osmosis_bridge.native.families.chat import CHAT
from osmosis_bridge.native.plan import Plan, Unsupported, make_plan
from osmosis_bridge.native.rule import Asked, Family


def plan(family: Family, fields: dict[str, Any], **known: Any) -> Plan:
    return make_plan(fields, family, Asked(fields, **known))


def test_each_field_is_placed_translated_or_left_out() -> None:
    made = plan(
        ANTHROPIC,
        {"model": "m", "messages": [], "stream": True, "user": "u", "max_tokens": 5, "n": 1, "tags": ["t"]},
    )
    assert {item.field: item.path for item in made.placed} == {
        "user": ("metadata", "user_id"),
        "tags": ("tags",),
    }
    assert made.kwargs == {"max_tokens": 5}
    assert [wanted.field for wanted in made.wanted] == ["max_tokens"]
    assert list(made.left_out) == ["n"]


def test_a_field_that_cannot_be_sent_is_refused_by_name_in_our_words() -> None:
    refusal = Unsupported(plan(ANTHROPIC, {"logit_bias": {"1": 2}, "user": "u"}).refused, ANTHROPIC)
    assert (refusal.status, refusal.code, refusal.param) == (400, "unsupported_parameter", "logit_bias")
    assert refusal.message.startswith("logit_bias cannot be sent to this model (anthropic dialect): ")


def test_fields_that_cannot_be_sent_are_named_all_at_once() -> None:
    made = plan(ANTHROPIC, {"seed": 7, "user": "u", "n": 2, "logit_bias": {}})
    assert list(made.refused) == ["seed", "n", "logit_bias"]
    refusal = Unsupported(made.refused, ANTHROPIC)
    assert refusal.param == "seed"
    assert refusal.fields == made.refused
    assert refusal.message.startswith("3 fields cannot be sent to this model (anthropic dialect): seed: ")
    for field, why in made.refused.items():
        assert f"{field}: {why}" in refusal.message


def test_no_name_of_the_client_s_reaches_litellm_but_those_it_translates() -> None:
    made = plan(CHAT, {"api_base": "x", "mock_response": "y", "temperature": 1, "anything": 2})
    assert made.kwargs == {}
    made = plan(ANTHROPIC, {"api_base": "x", "mock_response": "y", "anything": 2})
    assert made.kwargs == {}


def test_a_reserved_name_is_refused_where_litellm_must_place_it() -> None:
    assert list(plan(CONVERSE, {"tags": ["a"]}, reserved=frozenset({"tags"})).refused) == ["tags"]
