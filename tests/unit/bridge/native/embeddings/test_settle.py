"""The outgoing body of a request for embeddings."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.native.embeddings.families import COHERE, GEMINI, OLLAMA, TITAN, VERTEX, Embeds
from osmosis_bridge.native.embeddings.settle import settle_texts
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.plan import Unsupported, make_plan
from osmosis_bridge.native.rule import Asked

MADE = {"requests": [{"model": "models/m", "content": {"parts": [{"text": "x"}]}}]}


def settled(embeds: Embeds, body: dict[str, Any], texts: list[str], **fields: Any) -> dict[str, FieldRow]:
    plan = make_plan(fields, embeds.dialect, Asked(fields))
    return {row.field: row for row in settle_texts(body, texts, plan, embeds)}


def refused(embeds: Embeds, body: dict[str, Any], texts: list[str], **fields: Any) -> list[str]:
    with pytest.raises(Unsupported) as caught:
        settled(embeds, body, texts, **fields)
    return list(caught.value.fields)


def test_every_text_and_field_stands_in_each_request_of_a_batch() -> None:
    body: dict[str, Any] = dict(MADE)
    rows = settled(GEMINI, body, ["a", "b"], dimensions=64, input_type="search_query", x_new=[1])
    assert [item["content"]["parts"] for item in body["requests"]] == [[{"text": "a"}], [{"text": "b"}]]
    for item in body["requests"]:
        assert (item["outputDimensionality"], item["taskType"], item["x_new"]) == (64, "RETRIEVAL_QUERY", [1])
    assert rows["input"] == FieldRow("input", "moved to", "requests")
    assert rows["dimensions"] == FieldRow("dimensions", "moved to", "requests[].outputDimensionality")
    assert (rows["input_type"].became, rows["input_type"].after) == ("value changed", "RETRIEVAL_QUERY")
    assert MADE["requests"][0].keys() == {"model", "content"}


def test_what_litellm_sets_by_itself_is_told_and_may_be_said_otherwise() -> None:
    body = {"model": "m", "texts": ["x"], "input_type": "search_document"}
    rows = settled(COHERE, body, ["a"])
    assert rows["input"] == FieldRow("input", "renamed to", "texts")
    assert rows["input_type"].became == "set by the translator"
    rows = settled(COHERE, body, ["a"], input_type="clustering", encoding_format="base64")
    assert body["input_type"] == "clustering"
    assert rows["input_type"].became == "forwarded"
    assert rows["encoding_format"].became == "left out"


def test_two_words_for_one_place_are_refused() -> None:
    made = {"instances": [{"content": "x"}], "parameters": {}}
    assert refused(VERTEX, dict(made), ["a"], task_type="A", input_type="B") == ["input_type"]
    assert refused(OLLAMA, {"input": ["x"]}, ["a"], num_ctx=1, options={"num_ctx": 2}) == ["options"]
    assert settled(OLLAMA, {"input": ["x"]}, ["a"], num_ctx=1, options={"seed": 2})["options"].at == "options"


def test_a_place_that_litellm_has_filled_is_not_taken() -> None:
    assert refused(GEMINI, dict(MADE), ["a"], model_="x", content={"parts": []}, user="u") == [
        "user",
        "content",
    ]


def test_of_a_signed_body_all_must_be_there_already() -> None:
    body = {"inputText": "a", "dimensions": 64}
    assert settled(TITAN, dict(body), ["a"], dimensions=64)["dimensions"].became == "forwarded"
    assert refused(TITAN, dict(body), ["b"], dimensions=65, x_new=1) == ["input", "dimensions", "x_new"]
