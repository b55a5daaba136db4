"""What makes a turn's reasoning valid, carried by the client: the `encrypted_content` of a reasoning item.

A chat completion's reasoning stands in fields that Responses has no place for: signed blocks, details by provider,
signatures of calls. They go out as one text, which clients send back unread, and are found again in it. The text is
encoded, not encrypted: it holds what the same reply would show in chat completions. Knows no provider; pure.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final, cast

import msgspec

from osmosis_bridge.native.jsontree import Json, as_object
from osmosis_bridge.native.spoken.translation import encode_json

_MARK: Final = "osmosis.1."
TURN_FIELDS: Final[Mapping[str, type]] = {
    "thinking_blocks": list,
    "reasoning_details": list,
    "reasoning": str,
    "provider_specific_fields": dict,
}
"""The fields of an assistant's message that are carried, each of its type."""
CALL_FIELDS: Final = ("extra_content", "provider_specific_fields")
"""The fields of a call that are carried; the first that is there says it all."""


class Carried(msgspec.Struct, frozen=True):
    """The fields of a turn, and by id what its calls hold beside their own."""

    turn: dict[str, Json]
    calls: dict[str, dict[str, Json]]


def pack(turn: Mapping[str, Json], calls: Mapping[str, Json]) -> str | None:
    """The text that carries it; None where there is nothing to carry."""
    if not turn and not calls:
        return None
    said = encode_json({"turn": dict(turn), "calls": dict(calls)})
    return _MARK + base64.urlsafe_b64encode(said).decode()


def unpack(text: str) -> Carried | None:
    """What the text carries; None where it is none of ours, or was changed."""
    if not text.startswith(_MARK):
        return None
    try:
        found = json.loads(base64.b64decode(text[len(_MARK) :], altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return None
    turn, calls = as_object(as_object(found).get("turn")), as_object(as_object(found).get("calls"))
    for name, value in turn.items():
        kind = TURN_FIELDS.get(name)
        if kind is None or not isinstance(value, kind):
            return None
    for fields in calls.values():
        if not isinstance(fields, dict) or cast("dict[str, Json]", fields).keys() - set(CALL_FIELDS):
            return None
    return Carried(turn, calls)
