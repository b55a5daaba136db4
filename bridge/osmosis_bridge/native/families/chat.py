"""Providers that take OpenAI's chat completions: everything goes as the client wrote it, replies pass as they came.

LiteLLM says where the call goes and how it is authorised. A few providers call a field by another name; then we do.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.rule import Asked, Family, FieldRule, Rule, absent, place, placed

_COMPLETION_LIMIT: Final = re.compile(r"(?:^|/)(?:o\d|gpt-5)")


def _as_it_is(name: str, value: Json, asked: Asked) -> Rule:
    return place(name)


def _output_limit(value: Json, asked: Asked) -> Rule:
    """OpenAI's reasoning models know `max_tokens` under its new name only."""
    renamed = _COMPLETION_LIMIT.search(asked.model) and "max_completion_tokens" not in asked.fields
    return place("max_completion_tokens" if renamed else "max_tokens")


def _mistral_tool_choice(value: Json, asked: Asked) -> Rule:
    return place("tool_choice", value="any" if value == "required" else value)


def _limit_beside(other: str) -> FieldRule:
    """One limit under two names: null beside the other says nothing."""

    def rule(value: Json, asked: Asked) -> Rule:
        if value is None and asked.fields.get(other) is not None:
            return absent("null is the default")
        return place("max_tokens")

    return rule


_ONE_LIMIT: Final[dict[str, FieldRule]] = {
    "max_tokens": _limit_beside("max_completion_tokens"),
    "max_completion_tokens": _limit_beside("max_tokens"),
}

CHAT: Final = Family(
    name="chat",
    dialect="chat",
    rules={},
    other=_as_it_is,
    calls=r"/chat/completions",
    relayed=True,
    speaks=frozenset({"/embeddings", "/completions"}),
)
OPENAI: Final = msgspec.structs.replace(CHAT, name="openai", rules={"max_tokens": _output_limit})
OUTPUT_LIMIT_ONLY: Final = msgspec.structs.replace(
    CHAT, name="chat with max_tokens", rules=_ONE_LIMIT, speaks=frozenset()
)
MISTRAL: Final = msgspec.structs.replace(
    CHAT,
    name="mistral",
    speaks=frozenset({"/embeddings"}),
    rules=_ONE_LIMIT | {"seed": placed("random_seed"), "tool_choice": _mistral_tool_choice},
)
RESPONSES: Final = msgspec.structs.replace(
    CHAT, name="responses", calls=r"/responses", messages_at=("input",)
)
"""OpenAI's Responses, where a provider has it: for the addresses of calls alone, whose bodies LiteLLM never sees."""
