"""The request for embeddings as it came: its texts, and in which form the vectors are wanted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json

_ENVELOPE = frozenset({"model", "input"})


class Asked(msgspec.Struct, frozen=True):
    """Texts, in their order; every other field but the model; and whether vectors go back as base64."""

    texts: list[str]
    fields: dict[str, Json]
    base64: bool


def read_request(fields: Mapping[str, Json]) -> Asked:
    """The request; raises `Refused` for an input that is neither a text nor texts."""
    rest = {name: value for name, value in fields.items() if name not in _ENVELOPE}
    return Asked(_texts(fields.get("input")), rest, rest.get("encoding_format") == "base64")


def _texts(given: Json) -> list[str]:
    if isinstance(given, str):
        return [given]
    items = cast("list[Json]", given) if isinstance(given, list) else []
    if items and all(isinstance(item, str) for item in items):
        return cast("list[str]", items)
    if items and all(isinstance(item, int | list) for item in items):
        raise _wrong("holds tokens; this provider takes texts, so send the texts themselves")
    raise _wrong("must be a text, or a list of at least one text and of nothing else")


def _wrong(what: str) -> Refused:
    return Refused(f"input {what}", code="invalid_input", param="input")
