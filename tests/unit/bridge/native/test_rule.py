"""The vocabulary of the rule tables."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.chat import CHAT
from osmosis_bridge.native.rule import (
    Asked,
    kind_of,
    only,
    place,
    stop_at,
    tools_at,
    usage_option,
    with_tools,
)

NOTHING = Asked({})


def test_null_is_the_default_of_openai_s_own_fields_only() -> None:
    assert ANTHROPIC.rule("seed", None, NOTHING).act == "absent"
    assert ANTHROPIC.rule("x_new", None, NOTHING).act == "place"
    assert CHAT.rule("seed", None, NOTHING).act == "place"


def test_stop_sequences_become_a_list_of_all_of_them() -> None:
    assert stop_at("s")("A", NOTHING).value == ["A"]
    assert stop_at("s")(["A"] * 7, NOTHING).value == ["A"] * 7


@pytest.mark.parametrize(
    ("value", "act"),
    [
        ({"include_usage": True}, "absent"),
        ({}, "absent"),
        ({"include_obfuscation": False}, "absent"),
        ({"x": 1}, "refuse"),
        (3, "refuse"),
    ],
)
def test_stream_options_may_only_ask_for_usage(value: object, act: str) -> None:
    assert usage_option(value, NOTHING).act == act


def test_the_only_value_there_is_may_be_left_out() -> None:
    rule = only(1, "why", "why not")
    assert rule(1, NOTHING).act == "absent"
    assert rule(2, NOTHING).why == "why not"
    assert rule(True, NOTHING).act == "refuse"


def test_tools_are_refused_where_the_model_takes_none() -> None:
    tools = [{"function": {"name": "f", "strict": True}}]
    able = Asked({}, supported=frozenset({"tools"}))
    assert tools_at(("tools",))(tools, able).act == "translate"
    assert tools_at(("tools",))(tools, NOTHING).act == "refuse"
    assert tools_at(("tools",))([], NOTHING).act == "absent"
    assert tools_at(("tools",))("odd", able).act == "refuse"


def test_a_field_that_needs_tools_is_refused_without() -> None:
    rule = with_tools(lambda value, asked: place("x"))
    assert rule("auto", NOTHING).act == "refuse"
    assert rule("auto", Asked({"tools": [1]})).act == "place"


def test_the_kind_of_what_has_none_is_empty() -> None:
    assert kind_of({"type": "text"}) == "text"
    assert kind_of({"type": 1}) == kind_of("text") == kind_of({}) == ""


def test_tools_and_choices_of_openai_s_alone_are_refused() -> None:
    able = Asked({"tools": [1]}, supported=frozenset({"tools"}))
    custom = [{"type": "custom", "custom": {"name": "sql"}}]
    assert tools_at(("tools",))(custom, able).act == "refuse"
    rule = with_tools(lambda value, asked: place("x"))
    for kind in ("allowed_tools", "custom"):
        assert rule({"type": kind}, able).act == "refuse"
    assert rule({"type": "function", "function": {"name": "f"}}, able).act == "place"
