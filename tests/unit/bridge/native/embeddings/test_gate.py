"""The gate of one call for embeddings."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.native.embeddings.families import COHERE, TITAN, Embeds
from osmosis_bridge.native.embeddings.gate import EmbeddingGate
from osmosis_bridge.native.gate import Withheld
from osmosis_bridge.native.plan import make_plan
from osmosis_bridge.native.rule import Asked

URL = "https://api.example/v2/embed"


def gate(embeds: Embeds = COHERE, texts: list[str] | None = None, **fields: Any) -> EmbeddingGate:
    return EmbeddingGate("relay", texts or ["a"], make_plan(fields, embeds.dialect, Asked(fields)), embeds)


def request(url: str = URL, body: Any = None, **headers: str) -> httpx.Request:
    return httpx.Request(
        "POST", url, headers=headers, content=json.dumps(body or {"model": "m", "texts": ["x"]})
    )


def test_the_client_s_texts_and_fields_are_sent_in_place_of_litellm_s() -> None:
    held = gate(texts=["a", "b"], dimensions=3)
    sent = held.check(request())
    assert json.loads(sent.content) == {"model": "m", "texts": ["a", "b"], "output_dimension": 3}
    assert [row.field for row in held.rows] == ["input", "dimensions"]


def test_what_one_call_sends_is_not_kept_for_the_next() -> None:
    held = gate(texts=["a secret"], dimensions=3)
    held.check(request())
    held.reply = httpx.Response(200)
    held.sender = lambda request: None  # type: ignore[assignment, return-value]
    pattern = held.pattern()
    assert pattern is not None
    assert pattern.body == {"model": "m", "texts": ["x"]}


def test_a_way_to_embed_that_is_not_known_is_refused_by_its_path() -> None:
    held = gate()
    with pytest.raises(Withheld):
        held.check(request("https://api.example/v9/other"))
    assert isinstance(held.failure, Refused)
    assert "/v9/other" in held.failure.message


def test_nothing_is_put_under_a_signature() -> None:
    signature = {"authorization": "AWS4-HMAC-SHA256 x"}
    held = gate()
    with pytest.raises(Withheld):
        held.check(request(**signature))
    assert isinstance(held.failure, BridgeError)
    held = gate(TITAN)
    asked = request("https://b.example/model/m/invoke", {"inputText": "a"}, **signature)
    assert held.check(asked) is asked
