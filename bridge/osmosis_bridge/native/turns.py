"""The conversation of a call in another dialect, as LiteLLM is given it.

Refused is what the dialect cannot hold: a `name`, an image's `detail`, an empty turn that LiteLLM would fill with a
sentence of its own. Taken out is what says nothing: nulls, empty lists. Whether the rest arrives is `arrival.py`'s to
see. Knows no provider; pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json, as_items, as_object, at
from osmosis_bridge.native.plan import Unsupported
from osmosis_bridge.native.rule import Family

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_TURN_FIELDS: Final = frozenset({"role", "content", "tool_calls", "tool_call_id"})
_EMPTY_SAYS_NOTHING: Final = frozenset(
    {"annotations", "audio", "function_call", "refusal", "tool_calls", "images"}
)
_REPLY_ONLY: Final = frozenset({"provider_specific_fields"})
"""What a reply of ours carries beside the conversation, for LiteLLM to read again."""
_PART_FIELDS: Final = frozenset(
    {"type", "text", "image_url", "input_audio", "file", "video_url", "document", "source"}
)
_CALL_FIELDS: Final = frozenset(
    {"id", "type", "function", "index", "provider_specific_fields", "extra_content", "cache_control"}
)


class Prepared(msgspec.Struct, frozen=True):
    """The conversation for LiteLLM, and by place why something was left out of it."""

    messages: list[dict[str, Json]]
    left_out: dict[str, str]


def refuse_turn(place: str, why: str) -> Unsupported:
    """The refusal of something in the conversation; `place` is such as `messages[2].name`."""
    return Unsupported({place: why})


def prepare(messages: Json, family: Family) -> Prepared:
    """The conversation as it is handed to LiteLLM; raises `Refused` naming the places that cannot be."""
    if not isinstance(messages, list) or not messages:
        raise Refused(
            "messages must be a list with at least one message", code="invalid_messages", param="messages"
        )
    turns = cast("list[Json]", messages)
    if family.relayed:
        return Prepared(turns, {})
    prepared = Prepared([], {})
    refused: dict[str, str] = {}
    for n, turn in enumerate(turns):
        try:
            prepared.messages.append(_turn(turn, f"messages[{n}]", family, prepared.left_out))
        except Unsupported as refusal:
            refused |= refusal.fields
    if refused:
        raise Unsupported(refused)
    return prepared


def turn_of(turn: Json, place: str, roles: frozenset[str], expected: str) -> tuple[str, dict[str, Json]]:
    """Role and members of a message; raises `Refused` where it is no object, or its role none of `roles`."""
    if not isinstance(turn, dict):
        raise Refused(f"{place} must be an object", code="invalid_messages", param=place)
    members = cast("dict[str, Json]", turn)
    role = members.get("role")
    if not isinstance(role, str) or role not in roles:
        raise Refused(
            f"{place}.role is {role!r}; expected {expected}",
            code="invalid_messages",
            param=f"{place}.role",
        )
    return role, members


def _turn(turn: Json, place: str, family: Family, left_out: dict[str, str]) -> dict[str, Json]:
    _, members = turn_of(turn, place, _ROLES, f"one of {', '.join(sorted(_ROLES))}")
    kept: dict[str, Json] = {}
    for name, value in members.items():
        if name == "content" or (value is not None and not (name in _EMPTY_SAYS_NOTHING and not value)):
            _check_turn_field(name, members, place, family, left_out, kept)
    if not isinstance(kept.get("tool_calls", []), list):
        raise Refused(
            f"{place}.tool_calls must be a list", code="invalid_messages", param=f"{place}.tool_calls"
        )
    if family.reasoning == "signatures" and "tool_calls" in kept:
        kept["tool_calls"] = [_with_signature(call) for call in as_items(kept["tool_calls"])]
    _check_content(kept, place, family)
    for n, call in enumerate(kept.get("tool_calls", ())):
        _check_call(call, f"{place}.tool_calls[{n}]")
    return kept


def _check_turn_field(
    name: str,
    turn: Mapping[str, Json],
    place: str,
    family: Family,
    left_out: dict[str, str],
    kept: dict[str, Json],
) -> None:
    value = turn[name]
    if name == "reasoning_content":
        _check_reasoning(turn, place, family, left_out, kept)
        return
    known = name in _TURN_FIELDS or name in family.turn_fields or name in _REPLY_ONLY
    if known or (name == "name" and turn["role"] in ("tool", "function")):
        kept[name] = value
        return
    raise refuse_turn(f"{place}.{name}", f"the {family.name} dialect has no place for it")


def _check_reasoning(
    turn: Mapping[str, Json], place: str, family: Family, left_out: dict[str, str], kept: dict[str, Json]
) -> None:
    at = f"{place}.reasoning_content"
    if family.reasoning == "text":
        kept["reasoning_content"] = turn["reasoning_content"]
    elif family.reasoning == "signatures":
        left_out[at] = "the provider takes back the signatures of its thoughts, not their summary"
    elif family.reasoning == "blocks" and turn.get("thinking_blocks"):
        left_out[at] = "the thinking blocks of the same turn hold it"
    elif turn["reasoning_content"]:
        raise refuse_turn(
            at,
            "reasoning goes back with its signature only: send the turn's thinking_blocks, or leave it out",
        )


def _with_signature(call: Json) -> Json:
    """Google's own place for a call's thought signature, as LiteLLM reads it."""
    signature = at(call, ("extra_content", "google", "thought_signature"))
    if not isinstance(signature, str) or as_object(call).get("provider_specific_fields"):
        return call
    return as_object(call) | {"provider_specific_fields": {"thought_signature": signature}}


def _check_content(turn: dict[str, Json], place: str, family: Family) -> None:
    content = turn.get("content")
    speaks = bool(turn.get("tool_calls") or turn.get("thinking_blocks")) or turn["role"] in (
        "tool",
        "function",
    )
    if isinstance(content, str):
        if not content.strip() and not speaks:
            raise refuse_turn(
                f"{place}.content",
                "a turn without content would be filled with words nobody wrote; leave it out",
            )
    elif isinstance(content, list):
        parts = cast("list[Json]", content)
        if not parts and not speaks:
            raise refuse_turn(
                f"{place}.content",
                "a turn without content would be filled with words nobody wrote; leave it out",
            )
        for n, part in enumerate(parts):
            _check_part(
                part, f"{place}.content[{n}]", family, may_be_empty=turn["role"] in ("tool", "function")
            )
    elif content is None:
        if not speaks:
            raise refuse_turn(
                f"{place}.content",
                "a turn without content would be filled with words nobody wrote; leave it out",
            )
    else:
        raise Refused(
            f"{place}.content must be text, a list of parts, or null",
            code="invalid_messages",
            param=f"{place}.content",
        )


def _check_part(part: Json, place: str, family: Family, *, may_be_empty: bool) -> None:
    if isinstance(part, str):
        return
    if not isinstance(part, dict):
        raise Refused(f"{place} must be an object", code="invalid_messages", param=place)
    members = cast("dict[str, Json]", part)
    for name, value in members.items():
        if value is not None and name not in _PART_FIELDS and name not in family.part_fields:
            raise refuse_turn(f"{place}.{name}", f"the {family.name} dialect has no place for it")
    if members.get("type") == "text" and not may_be_empty and not str(members.get("text") or "").strip():
        raise refuse_turn(f"{place}.text", "an empty text would be lost or filled; leave the part out")
    image = members.get("image_url")
    detail = cast("dict[str, Json]", image).get("detail") if isinstance(image, dict) else None
    if detail not in (None, "auto") and "detail" not in family.part_fields:
        raise refuse_turn(f"{place}.image_url.detail", f"the {family.name} dialect has no detail of images")


def _check_call(call: Json, place: str) -> None:
    if not isinstance(call, dict) or not isinstance(cast("dict[str, Json]", call).get("function"), dict):
        raise refuse_turn(place, "only calls of functions can be sent")
    members = cast("dict[str, Json]", call)
    for name, value in members.items():
        if value is not None and name not in _CALL_FIELDS:
            raise refuse_turn(f"{place}.{name}", "the dialect has no place for it")
    arguments = members["function"].get("arguments")
    if not isinstance(arguments, str) or (arguments.strip() and not isinstance(parsed(arguments), dict)):
        raise refuse_turn(f"{place}.function.arguments", "they are not the text of a JSON object")


def parsed(text: str) -> Json:
    """The value of a JSON text, None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
