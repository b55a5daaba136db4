"""Vectors: out of a provider's reply, into OpenAI's.

Tokens are those that the provider counted, in its reply or its headers; where it counted none there is no usage. A
vector as base64 is what OpenAI sends: its numbers as 32-bit floats, little end first. Pure.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.jsontree import Json, as_items, as_object, at

_COUNT_HEADER: Final = "x-amzn-bedrock-input-token-count"


class Vectors(msgspec.Struct, frozen=True):
    """The vectors of one reply as they stand in it, in the order of the texts, and how many tokens were counted."""

    items: list[Json]
    tokens: int | None


Read = Callable[[Json, Mapping[str, str]], Vectors]
"""From a reply's JSON and headers."""


def gemini(reply: Json, headers: Mapping[str, str]) -> Vectors:
    """Of `batchEmbedContents` and `embedContent`."""
    items = as_items(at(reply, ("embeddings",))) or [at(reply, ("embedding",))]
    return Vectors(
        [at(item, ("values",)) for item in items], _count(at(reply, ("usageMetadata", "promptTokenCount")))
    )


def vertex(reply: Json, headers: Mapping[str, str]) -> Vectors:
    """Of `predict`, which counts each text."""
    items = [at(item, ("embeddings",)) for item in as_items(at(reply, ("predictions",)))]
    counts = [_count(at(item, ("statistics", "token_count"))) for item in items]
    known = [count for count in counts if count is not None]
    return Vectors(
        [at(item, ("values",)) for item in items],
        sum(known) if counts and len(known) == len(counts) else None,
    )


def titan(reply: Json, headers: Mapping[str, str]) -> Vectors:
    """Of one text."""
    return Vectors([at(reply, ("embedding",))], _count(at(reply, ("inputTextTokenCount",))))


def nova(reply: Json, headers: Mapping[str, str]) -> Vectors:
    """Of one text."""
    items = as_items(at(reply, ("embeddings",)))
    return Vectors([at(item, ("embedding",)) for item in items], _header_count(headers))


def cohere(reply: Json, headers: Mapping[str, str]) -> Vectors:
    """By type, or without; on Bedrock the count is in a header."""
    found = at(reply, ("embeddings",))
    items = as_items(found if isinstance(found, list) else as_object(found).get("float"))
    counted = _count(at(reply, ("meta", "billed_units", "input_tokens")))
    return Vectors(items, _header_count(headers) if counted is None else counted)


def ollama(reply: Json, headers: Mapping[str, str]) -> Vectors:
    """Of `api/embed`."""
    return Vectors(as_items(at(reply, ("embeddings",))), _count(at(reply, ("prompt_eval_count",))))


def _count(value: Json) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _header_count(headers: Mapping[str, str]) -> int | None:
    text = headers.get(_COUNT_HEADER, "")
    return int(text) if text.isascii() and text.isdigit() else None


def openai_reply(found: Vectors, model: str, texts: int, *, as_base64: bool) -> dict[str, Json]:
    """OpenAI's list of embeddings. Raises `UpstreamFailed` where there is not a vector of numbers for each text."""
    if len(found.items) != texts or not all(_is_vector(item) for item in found.items):
        raise UpstreamFailed(
            f"the provider's reply does not hold a vector of numbers for each of the {texts} texts",
            code="invalid_upstream_reply",
        )
    entries = [
        {"object": "embedding", "index": index, "embedding": encoded(item) if as_base64 else item}
        for index, item in enumerate(found.items)
    ]
    reply: dict[str, Json] = {"object": "list", "data": entries, "model": model}
    if found.tokens is not None:
        reply["usage"] = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    return reply


def _is_vector(item: Json) -> bool:
    numbers = as_items(item)
    return bool(numbers) and all(isinstance(number, int | float) for number in numbers)


def encoded(vector: list[float]) -> str:
    """A vector as base64. Raises `UpstreamFailed` for a number beyond 32-bit floats."""
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")
    except (OverflowError, struct.error):
        raise UpstreamFailed(
            "the provider's vectors hold a number that is no 32-bit float", code="invalid_upstream_reply"
        ) from None
