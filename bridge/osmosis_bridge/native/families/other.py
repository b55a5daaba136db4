"""A dialect that has no table of its own: whatever LiteLLM says it translates must be found again, or is refused."""

from __future__ import annotations

from typing import Final

from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.rule import (
    OPENAI_FIELDS,
    Asked,
    Family,
    Rule,
    absent,
    refuse,
    translate,
    usage_option,
)

ANYWHERE: Final = ()


def _other(name: str, value: Json, asked: Asked) -> Rule:
    if name == "n" and value == 1:
        return absent("one answer is what there is")
    if name in asked.reserved:
        return refuse("the translator keeps this name for itself")
    if name in OPENAI_FIELDS and name not in asked.supported:
        return refuse("this model has no such parameter")
    return translate(ANYWHERE, check="words" if isinstance(value, dict | list) else "same")


OTHER: Final = Family(
    name="other",
    dialect="other",
    rules={"stream_options": usage_option},
    other=_other,
    calls=r"",
    messages_at=(),
    turn_fields=frozenset({"cache_control"}),
    part_fields=frozenset({"cache_control"}),
)
