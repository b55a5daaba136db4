"""What becomes of the values that LiteLLM would lose, cut or change: each is placed whole, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.families.anthropic import ANTHROPIC, VERTEX_CLAUDE
from osmosis_bridge.native.families.bedrock import CONVERSE
from osmosis_bridge.native.families.chat import CHAT, MISTRAL, OPENAI, OUTPUT_LIMIT_ONLY
from osmosis_bridge.native.families.cohere import COHERE
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.families.ollama import OLLAMA, OLLAMA_GENERATE
from osmosis_bridge.native.families.other import OTHER
from osmosis_bridge.native.outgoing import settle
from osmosis_bridge.native.plan import Plan, make_plan
from osmosis_bridge.native.rule import Asked, Family

CLAUDE = (ANTHROPIC, VERTEX_CLAUDE)
FOREIGN = (*CLAUDE, CONVERSE, COHERE, GEMINI, OLLAMA, OLLAMA_GENERATE)
RELAYED = (CHAT, OPENAI, MISTRAL, OUTPUT_LIMIT_ONLY)
EVERY = (*FOREIGN, *RELAYED)
# LiteLLM's own parameters that are also names of providers' fields.
RESERVED = frozenset({"tags", "order", "weight", "id", "ttl", "roles", "cache"})
TOOLS = [{"type": "function", "function": {"name": "f"}}]
named = lambda family: family.name  # pytest ids


def planned(family: Family, fields: dict[str, Any]) -> Plan:
    supported = frozenset({"tools", "tool_choice", "response_format"})
    return make_plan(fields, family, Asked(fields, "m", "p", supported, RESERVED))


def sent(family: Family, **fields: Any) -> dict[str, Any]:
    """The outgoing body of fields that are all placed by us."""
    body: dict[str, Any] = {}
    plan = planned(family, fields)
    assert plan.refused or not plan.wanted
    settle(body, plan, family, signed=False)
    return body


def refused(family: Family, **fields: Any) -> str | None:
    with pytest.raises(Refused) as caught:
        sent(family, **fields)
    assert (caught.value.status, caught.value.code) == (400, "unsupported_parameter")
    return caught.value.param


FIVE = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("family", "place"),
    [
        (ANTHROPIC, {"stop_sequences": FIVE}),
        (VERTEX_CLAUDE, {"stop_sequences": FIVE}),
        (GEMINI, {"generationConfig": {"stop_sequences": FIVE}}),
        (COHERE, {"stop_sequences": FIVE}),
        (OLLAMA, {"options": {"stop": FIVE}}),
        (MISTRAL, {"stop": FIVE}),
        (OPENAI, {"stop": FIVE}),
    ],
)
def test_more_than_four_stop_sequences_go_whole(family: Family, place: dict[str, Any]) -> None:
    assert sent(family, stop=FIVE) == place


def test_converse_must_hold_every_stop_sequence_or_the_call_is_refused() -> None:
    plan = planned(CONVERSE, {"stop": FIVE})
    settle({"inferenceConfig": {"stopSequences": FIVE}}, plan, CONVERSE, signed=True)
    with pytest.raises(Refused) as caught:
        settle({"inferenceConfig": {"stopSequences": FIVE[:4]}}, plan, CONVERSE, signed=True)
    assert caught.value.param == "stop"


@pytest.mark.parametrize("family", CLAUDE, ids=named)
def test_claude_s_user_is_the_user_id_of_its_metadata(family: Family) -> None:
    assert sent(family, user="u") == {"metadata": {"user_id": "u"}}
    assert sent(family, metadata={"user_id": "u"}) == {"metadata": {"user_id": "u"}}
    assert sent(family, user="u", metadata={"user_id": "u"}) == {"metadata": {"user_id": "u"}}
    assert refused(family, metadata={"user_id": "u", "run": "7"}) == "metadata"
    assert refused(family, user="u", metadata={"user_id": "v"}) == "metadata"
    assert refused(family, user="u", metadata={"user_id": None}) == "metadata"


@pytest.mark.parametrize("family", EVERY, ids=named)
def test_user_and_metadata_are_sent_or_refused_and_never_dropped(family: Family) -> None:
    for field, value in (("user", "u"), ("metadata", {"run": "7"})):
        if family in RELAYED:
            assert sent(family, **{field: value}) == {field: value}
        elif field == "metadata" or family not in CLAUDE:
            assert refused(family, **{field: value}) == field


@pytest.mark.parametrize("family", [*CLAUDE, CONVERSE], ids=named)
def test_json_without_a_schema_is_refused_where_there_is_no_such_mode(family: Family) -> None:
    assert refused(family, response_format={"type": "json_object"}) == "response_format"
    assert planned(family, {"response_format": {"type": "text"}}).left_out.keys() == {"response_format"}


@pytest.mark.parametrize(
    ("family", "place"),
    [
        (ANTHROPIC, ("x_new",)),
        (GEMINI, ("x_new",)),
        (COHERE, ("x_new",)),
        (OLLAMA, ("options", "x_new")),
        (MISTRAL, ("x_new",)),
        (CHAT, ("x_new",)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("value", [0, False, "", [], 2**70, {"a": None}, 0.30000000000000004])
def test_a_field_that_nobody_knows_goes_as_it_was_written(
    family: Family, place: tuple[str, ...], value: Any
) -> None:
    found: Any = sent(family, x_new=value)
    for name in place:
        found = found[name]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("family", FOREIGN, ids=named)
@pytest.mark.parametrize("field", ["parallel_tool_calls", "tool_choice"])
def test_what_needs_tools_is_refused_without_any(family: Family, field: str) -> None:
    for tools in ({}, {"tools": []}):
        value = True if field == "parallel_tool_calls" else "auto"
        assert refused(family, **{field: value}, **tools) == field


@pytest.mark.parametrize("family", RELAYED, ids=named)
def test_openai_s_own_go_with_or_without_tools(family: Family) -> None:
    assert sent(family, parallel_tool_calls=False) == {"parallel_tool_calls": False}


@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_a_level_of_reasoning_stays_one_at_ollama(level: str) -> None:
    assert sent(OLLAMA, reasoning_effort=level) == {"think": level}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_names_that_litellm_keeps_for_itself_are_sent_by_us_or_refused(name: str) -> None:
    assert refused(CONVERSE, **{name: "v"}) == name
    assert refused(OTHER, **{name: "v"}) == name
    for family in (*CLAUDE, COHERE, GEMINI, *RELAYED):
        plan = planned(family, {name: "v"})
        assert plan.kwargs == {}, "LiteLLM would take it for its own"
        assert sent(family, **{name: "v"}) == {name: "v"}


@pytest.mark.parametrize(
    ("family", "tiers"),
    [
        (ANTHROPIC, {"auto": "auto", "standard_only": "standard_only", "default": None, "priority": None}),
        (VERTEX_CLAUDE, {"auto": None, "standard_only": None, "default": None}),
        (
            GEMINI,
            {"auto": None, "default": "standard", "flex": "flex", "priority": "priority", "scale": None},
        ),
        (COHERE, {"auto": None, "default": None}),
        (OLLAMA, {"auto": None, "default": None}),
        (MISTRAL, {"auto": "auto", "default": "default", "fast": "fast"}),
        (OPENAI, {"auto": "auto", "flex": "flex", "scale": "scale"}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_service_tier_is_one_of_the_provider_s_and_never_a_dearer_one(
    family: Family, tiers: dict[str, str | None]
) -> None:
    for tier, value in tiers.items():
        if value is None:
            assert refused(family, service_tier=tier) == "service_tier"
        else:
            assert list(sent(family, service_tier=tier).values()) == [value]


@pytest.mark.parametrize("family", [*FOREIGN, MISTRAL, OUTPUT_LIMIT_ONLY], ids=named)
def test_two_limits_that_differ_are_refused_where_there_is_one(family: Family) -> None:
    assert refused(family, max_tokens=5, max_completion_tokens=9) == "max_completion_tokens"


@pytest.mark.parametrize(
    ("family", "place"),
    [
        (COHERE, {"max_tokens": 5}),
        (OLLAMA, {"options": {"num_predict": 5}}),
        (GEMINI, {"generationConfig": {"max_output_tokens": 5}}),
        (MISTRAL, {"max_tokens": 5}),
        (OUTPUT_LIMIT_ONLY, {"max_tokens": 5}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_limit_is_not_lost_to_null_under_its_other_name(family: Family, place: dict[str, Any]) -> None:
    assert sent(family, max_tokens=5, max_completion_tokens=None) == place
    assert sent(family, max_completion_tokens=None, max_tokens=5) == place
    assert sent(family, max_completion_tokens=5, max_tokens=None) == place


def test_one_place_is_not_given_two_values_in_whichever_order() -> None:
    inner = {"temperature": 0.5, "topK": 3}
    assert refused(GEMINI, generationConfig=inner, temperature=1) == "temperature"
    assert refused(GEMINI, temperature=1, generationConfig=inner) == "generationConfig"
    assert sent(GEMINI, temperature=0.5, generationConfig=inner) == {"generationConfig": inner}
    assert refused(OLLAMA, options={"seed": 1}, seed=2) == "seed"
    assert refused(MISTRAL, seed=1, random_seed=2) == "random_seed"


def test_what_the_client_wrote_is_not_written_to() -> None:
    fields: dict[str, Any] = {"generationConfig": {"topK": 3}, "temperature": 1, "metadata": None}
    sent(GEMINI, **fields)
    assert fields == {"generationConfig": {"topK": 3}, "temperature": 1, "metadata": None}


@pytest.mark.parametrize("family", FOREIGN, ids=named)
def test_one_answer_is_the_default_and_true_is_not_one(family: Family) -> None:
    if family is GEMINI:
        assert sent(family, n=1) == {"generationConfig": {"candidate_count": 1}}
        return
    assert sent(family, n=1) == {}
    assert refused(family, n=2) == "n"
    assert refused(family, n=True) == "n"


@pytest.mark.parametrize("family", FOREIGN, ids=named)
def test_null_is_openai_s_default_for_every_field_of_its(family: Family) -> None:
    names: list[str] = ["temperature", "seed", "logit_bias", "user", "tools", "stop", "metadata", "store"]
    fields: dict[str, Any] = dict.fromkeys(names)
    plan = planned(family, fields)
    assert plan.left_out.keys() == fields.keys()
    assert (plan.kwargs, plan.placed) == ({}, ())


@pytest.mark.parametrize("family", RELAYED, ids=named)
def test_null_goes_as_null_where_the_provider_takes_openai_s(family: Family) -> None:
    assert sent(family, temperature=None, store=None) == {"temperature": None, "store": None}


def test_how_much_to_think_is_said_once() -> None:
    supported = frozenset({"reasoning_effort", "thinking"})
    budget = {"type": "enabled", "budget_tokens": 2048}
    config = {"thinking_config": {"thinkingBudget": 5}}

    def plan(family: Family, **fields: Any) -> Plan:
        return make_plan(fields, family, Asked(fields, "m", "p", supported))

    def refused_of(family: Family, body: dict[str, Any], **fields: Any) -> str | None:
        with pytest.raises(Refused) as caught:
            settle(body, plan(family, **fields), family, signed=False)
        return caught.value.param

    # A budget that LiteLLM made of the level is none of the client's own.
    claude: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert refused_of(ANTHROPIC, dict(claude), reasoning_effort="low", thinking=budget) == "reasoning_effort"
    both = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    settle(
        dict(both),
        plan(ANTHROPIC, reasoning_effort="low", thinking={"type": "adaptive"}),
        ANTHROPIC,
        signed=False,
    )
    nova = {"additionalModelRequestFields": {"thinking": budget}}
    assert refused_of(CONVERSE, nova, reasoning_effort="low", thinking=budget) == "reasoning_effort"
    assert refused_of(GEMINI, {}, reasoning_effort="low", thinking=budget) == "reasoning_effort"
    assert refused_of(GEMINI, {}, reasoning_effort="low", generationConfig=config) == "reasoning_effort"
    assert refused_of(GEMINI, {}, generation_config=config, thinking=budget) == "thinking"


def test_converse_s_own_config_is_made_of_openai_s_fields_alone() -> None:
    assert refused(CONVERSE, inferenceConfig={"maxTokens": 5}) == "inferenceConfig"
    assert refused(CONVERSE, inferenceConfig=7) == "inferenceConfig"
    (wanted,) = planned(CONVERSE, {"inferenceConfig": {"topK": 5}}).wanted
    assert wanted.at == (("additionalModelRequestFields", "inferenceConfig"),)
