"""Which models embed, and what each provider's table says."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.embeddings.families import (
    COHERE,
    COHERE_ON_BEDROCK,
    GEMINI,
    GEMINI_SINGLE,
    NOVA,
    OLLAMA,
    TITAN,
    VERTEX,
    Embeds,
    embeds_of,
)
from osmosis_bridge.native.rule import Asked

ALL = (GEMINI, GEMINI_SINGLE, VERTEX, COHERE, OLLAMA, TITAN, NOVA, COHERE_ON_BEDROCK)
each = pytest.mark.parametrize("embeds", ALL, ids=lambda embeds: embeds.dialect.name + embeds.dialect.calls)


@pytest.mark.parametrize(
    ("provider", "model", "embeds"),
    [
        ("gemini", "gemini-embedding-001", GEMINI),
        ("vertex_ai", "text-embedding-005", VERTEX),
        ("vertex_ai", "gemini-embedding-2-preview", GEMINI_SINGLE),
        ("vertex_ai", "claude-sonnet-4-5", None),
        ("vertex_ai", "gemini-2.5-flash", None),
        ("bedrock", "amazon.titan-embed-text-v2:0", TITAN),
        ("bedrock", "cohere.embed-v4:0", COHERE_ON_BEDROCK),
        ("bedrock", "us.cohere.embed-v4:0", COHERE_ON_BEDROCK),
        ("bedrock", "amazon.nova-2-multimodal-embeddings-v1:0", NOVA),
        ("bedrock", "amazon.nova-pro-v1:0", None),
        ("bedrock", "amazon.titan-embed-image-v1", None),
        ("cohere", "embed-v4.0", COHERE),
        ("ollama_chat", "nomic-embed-text", OLLAMA),
        ("anthropic", "claude-x", None),
        ("watsonx", "x", None),
    ],
)
def test_a_model_that_embeds_is_known_by_its_provider_and_name(
    provider: str, model: str, embeds: Embeds | None
) -> None:
    assert embeds_of(provider, model) is embeds


@each
def test_every_field_has_a_rule_for_any_value(embeds: Embeds) -> None:
    asked = Asked({}, reserved=frozenset({"tags"}))
    for name in ("dimensions", "encoding_format", "user", "input_type", "embedding_types", "x_new", "tags"):
        for value in (None, True, 0, 2.5, "text", [], ["a"], {}):
            rule = embeds.dialect.rule(name, value, asked)
            assert rule.why or rule.act in ("place", "translate")
            assert rule.at or rule.act in ("absent", "refuse")


@each
def test_an_encoding_is_float_or_base64_and_neither_is_the_provider_s_affair(embeds: Embeds) -> None:
    acts = {
        value: embeds.dialect.rule("encoding_format", value, Asked({})).act
        for value in (None, "float", "base64", "int8")
    }
    assert acts == {None: "absent", "float": "absent", "base64": "absent", "int8": "refuse"}


@each
def test_user_is_refused_and_never_dropped(embeds: Embeds) -> None:
    assert embeds.dialect.rule("user", "u", Asked({})).act == "refuse"
    assert embeds.dialect.rule("user", None, Asked({})).act == "absent"


@pytest.mark.parametrize("embeds", [GEMINI, GEMINI_SINGLE, VERTEX], ids=lambda embeds: embeds.dialect.calls)
def test_a_kind_of_text_is_said_in_gemini_s_words(embeds: Embeds) -> None:
    said = [embeds.dialect.rule("input_type", kind, Asked({})).value for kind in ("search_query", "ODD")]
    assert said == ["RETRIEVAL_QUERY", "ODD"]


@pytest.mark.parametrize("embeds", [COHERE, COHERE_ON_BEDROCK], ids=lambda embeds: embeds.dialect.name)
def test_types_that_are_no_numbers_are_refused(embeds: Embeds) -> None:
    assert embeds.dialect.rule("embedding_types", ["float"], Asked({})).act == "absent"
    assert embeds.dialect.rule("embedding_types", ["int8", "float"], Asked({})).act == "refuse"


@pytest.mark.parametrize("embeds", [GEMINI, VERTEX, COHERE, OLLAMA], ids=lambda embeds: embeds.dialect.name)
def test_texts_take_the_place_of_the_one_that_litellm_was_given(embeds: Embeds) -> None:
    made = {
        GEMINI.dialect.name: {"requests": [{"model": "models/m", "content": {"parts": [{"text": "x"}]}}]},
        VERTEX.dialect.name: {"instances": [{"content": "x", "k": 1}], "parameters": {"a": 1}},
        COHERE.dialect.name: {"model": "m", "texts": ["x"], "input_type": "search_document"},
        OLLAMA.dialect.name: {"model": "m", "input": ["x"]},
    }[embeds.dialect.name]
    filled = embeds.fill(made, ["a", "x y", "a"])
    assert embeds.texts(filled) == ["a", "x y", "a"]
    assert embeds.texts(made) == ["x"], "what is kept for later calls stays as it was"
    assert embeds.fill(filled, ["x"]) == made


def test_a_part_that_is_not_text_alone_is_no_text() -> None:
    picture = {"content": {"parts": [{"text": "a"}, {"inline_data": {}}]}}
    assert GEMINI.texts({"requests": [picture, {}]}) == [None, None]
    assert GEMINI_SINGLE.texts({"content": {"parts": [{"text": "a"}]}}) == ["a"]
