"""Vectors, out of each provider's reply and into OpenAI's."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.embeddings import vectors
from osmosis_bridge.native.embeddings.vectors import Read, Vectors, encoded, openai_reply

A, B = [0.5, -1], [2.0, 0.25]
COUNTED = {"x-amzn-bedrock-input-token-count": "9"}


@pytest.mark.parametrize(
    ("read", "reply", "headers", "found"),
    [
        (vectors.gemini, {"embeddings": [{"values": A}, {"values": B}]}, {}, Vectors([A, B], None)),
        (
            vectors.gemini,
            {"embedding": {"values": A}, "usageMetadata": {"promptTokenCount": 3}},
            {},
            Vectors([A], 3),
        ),
        (
            vectors.vertex,
            {
                "predictions": [
                    {"embeddings": {"values": A, "statistics": {"token_count": 3}}},
                    {"embeddings": {"values": B, "statistics": {"token_count": 4.0}}},
                ]
            },
            {},
            Vectors([A, B], 7),
        ),
        (
            vectors.vertex,
            {
                "predictions": [
                    {"embeddings": {"values": A, "statistics": {"token_count": 3}}},
                    {"embeddings": {"values": B}},
                ]
            },
            {},
            Vectors([A, B], None),
        ),
        (vectors.titan, {"embedding": A, "inputTextTokenCount": 5}, {}, Vectors([A], 5)),
        (vectors.nova, {"embeddings": [{"embeddingType": "TEXT", "embedding": A}]}, COUNTED, Vectors([A], 9)),
        (vectors.cohere, {"embeddings": [A, B]}, COUNTED, Vectors([A, B], 9)),
        (
            vectors.cohere,
            {"embeddings": {"float": [A]}, "meta": {"billed_units": {"input_tokens": 4}}},
            {},
            Vectors([A], 4),
        ),
        (vectors.cohere, {"embeddings": {"int8": [[1]]}}, {}, Vectors([], None)),
        (vectors.ollama, {"embeddings": [A], "prompt_eval_count": 6}, {}, Vectors([A], 6)),
    ],
)
def test_vectors_and_the_count_are_the_provider_s_own(
    read: Read, reply: Any, headers: dict[str, str], found: Vectors
) -> None:
    assert read(reply, headers) == found


@pytest.mark.parametrize(
    "read", [vectors.gemini, vectors.vertex, vectors.titan, vectors.nova, vectors.cohere, vectors.ollama]
)
@pytest.mark.parametrize("reply", [None, [], "text", {}, {"embeddings": 5}, {"predictions": [None]}])
def test_no_reply_is_worse_than_unreadable(read: Read, reply: Any) -> None:
    with pytest.raises(UpstreamFailed) as caught:
        openai_reply(read(reply, {"x-amzn-bedrock-input-token-count": "x"}), "m", 2, as_base64=False)
    assert caught.value.code == "invalid_upstream_reply"


def test_openai_s_reply_holds_the_vectors_as_they_came_in_their_order() -> None:
    reply = openai_reply(Vectors([A, B], 7), "m", 2, as_base64=False)
    assert reply == {
        "object": "list",
        "model": "m",
        "data": [
            {"object": "embedding", "index": 0, "embedding": A},
            {"object": "embedding", "index": 1, "embedding": B},
        ],
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    }
    assert "usage" not in openai_reply(Vectors([A], None), "m", 1, as_base64=False)


def test_base64_is_32_bit_floats_with_the_little_end_first() -> None:
    text = openai_reply(Vectors([[0.1, -2, 3.5]], None), "m", 1, as_base64=True)["data"][0]["embedding"]
    assert struct.unpack("<3f", base64.b64decode(text)) == pytest.approx((0.1, -2.0, 3.5), rel=1e-6)


@pytest.mark.parametrize("items", [[], [A, B], [[]], [["a"]], [{"values": A}], [None], [[None]]])
def test_a_reply_without_a_vector_of_numbers_for_each_text_is_the_provider_s_fault(items: Any) -> None:
    with pytest.raises(UpstreamFailed):
        openai_reply(Vectors(items, None), "m", 1, as_base64=False)


def test_a_number_beyond_32_bits_is_the_provider_s_fault() -> None:
    with pytest.raises(UpstreamFailed):
        encoded([1e300])
