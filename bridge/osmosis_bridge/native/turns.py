"""The conversation of a call in another dialect: what LiteLLM is given, and what must stand in what it would send.

Two steps. `prepare` refuses what the dialect cannot hold (a `name`, an image's `detail`, an empty turn that LiteLLM
would fill with a sentence of its own) and takes out what says nothing (nulls, empty lists). `check_sent` looks for
every text, argument, image and signature of the conversation in the outgoing body, and for texts there that nobody
wrote. Knows no provider; pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, cast

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json, as_items, as_object, objects, same, strings
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.plan import CODE
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
_THINKING_PARTS: Final = frozenset({"thinking", "redacted_thinking"})
_CALL_FIELDS: Final = frozenset(
    {"id", "type", "function", "index", "provider_specific_fields", "extra_content", "cache_control"}
)


class Prepared(msgspec.Struct, frozen=True):
    """The conversation for LiteLLM, and by place why something was left out of it."""

    messages: list[dict[str, Json]]
    left_out: dict[str, str]


def refuse_turn(place: str, why: str) -> Refused:
    """The refusal of something in the conversation; `place` is such as `messages[2].name`."""
    return Refused(f"{place} cannot be sent to this model: {why}", code=CODE, param=place)


def prepare(messages: Json, family: Family) -> Prepared:
    """The conversation as it is handed to LiteLLM; raises `Refused` naming the place."""
    if not isinstance(messages, list) or not messages:
        raise Refused(
            "messages must be a list with at least one message", code="invalid_messages", param="messages"
        )
    turns = cast("list[Json]", messages)
    if family.relayed:
        return Prepared(turns, {})
    left_out: dict[str, str] = {}
    return Prepared(
        [_turn(turn, f"messages[{n}]", family, left_out) for n, turn in enumerate(turns)], left_out
    )


def _turn(turn: Json, place: str, family: Family, left_out: dict[str, str]) -> dict[str, Json]:
    if not isinstance(turn, dict):
        raise Refused(f"{place} must be an object", code="invalid_messages", param=place)
    members = cast("dict[str, Json]", turn)
    role = members.get("role")
    if role not in _ROLES:
        raise Refused(
            f"{place}.role is {role!r}; expected one of {', '.join(sorted(_ROLES))}",
            code="invalid_messages",
            param=f"{place}.role",
        )
    kept: dict[str, Json] = {}
    for name, value in members.items():
        if name == "content" or (value is not None and not (name in _EMPTY_SAYS_NOTHING and not value)):
            _check_turn_field(name, members, place, family, left_out, kept)
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
            _check_part(part, f"{place}.content[{n}]", family)
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


def _check_part(part: Json, place: str, family: Family) -> None:
    if isinstance(part, str):
        return
    if not isinstance(part, dict):
        raise Refused(f"{place} must be an object", code="invalid_messages", param=place)
    members = cast("dict[str, Json]", part)
    for name, value in members.items():
        if value is not None and name not in _PART_FIELDS and name not in family.part_fields:
            raise refuse_turn(f"{place}.{name}", f"the {family.name} dialect has no place for it")
    if members.get("type") == "text" and not str(members.get("text") or "").strip():
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
    if not isinstance(arguments, str) or (arguments.strip() and not isinstance(_parsed(arguments), dict)):
        raise refuse_turn(f"{place}.function.arguments", "they are not the text of a JSON object")


def turns_row(messages: list[dict[str, Json]], body: Mapping[str, Json], family: Family) -> FieldRow:
    """What became of the conversation, and whether turns were put together."""
    if family.relayed:
        return FieldRow("messages", "forwarded", "messages")
    place = next((name for name in family.messages_at if name in body), None)
    asked = sum(turn["role"] not in ("system", "developer") for turn in messages)
    sent = len(as_items(body.get(place or "")))
    merged = "neighbouring turns of one side are sent as one" if 0 < sent < asked else None
    return FieldRow("messages", "value changed", place, why=merged)


def check_sent(messages: list[dict[str, Json]], body: Mapping[str, Json], family: Family) -> None:
    """Raise `Refused` for what of the conversation is not in `body`, and for texts in `body` that nobody wrote."""
    if family.relayed:
        return
    region: Json = {name: body.get(name) for name in family.messages_at} if family.messages_at else body
    found = _Found(region)
    for place, text in _texts(messages):
        if not found.has_text(text):
            raise refuse_turn(place, "it does not arrive in the request that would be sent")
    for place, arguments in _arguments(messages):
        if not found.has_object(arguments):
            raise refuse_turn(place, "they do not arrive in the request that would be sent")
    _check_marks(messages, region, family)
    if family.messages_at:
        _check_nothing_invented(messages, region)


class _Found:
    """What stands in the outgoing conversation."""

    def __init__(self, region: Json) -> None:
        self._leaves = strings(region)
        self._exact = set(self._leaves)
        self._joined = ""
        self._objects = list(objects(region))

    def has_text(self, text: str) -> bool:
        if text in self._exact:
            return True
        if not self._joined:
            self._joined = "\0".join(self._leaves)
        return text.strip() in self._joined or self._parsed_is_there(text)

    def _parsed_is_there(self, text: str) -> bool:
        """A tool's result that is JSON may be sent as the value it is."""
        value = _parsed(text)
        return isinstance(value, dict) and self.has_object(cast("dict[str, Json]", value))

    def has_object(self, value: dict[str, Json]) -> bool:
        return (
            any(same(node, value) for node in self._objects)
            or json.dumps(value) in self._exact
            or any(
                isinstance(inner := _parsed(leaf), dict) and same(inner, value)
                for leaf in self._exact
                if leaf[:1] == "{"
            )
        )


def _texts(messages: list[dict[str, Json]]) -> Iterator[tuple[str, str]]:
    """Every text of the conversation that must arrive, with its place."""
    for n, turn in enumerate(messages):
        place = f"messages[{n}]"
        content = turn.get("content")
        if isinstance(content, str) and content.strip():
            yield f"{place}.content", content
        for m, part in enumerate(cast("list[Json]", content) if isinstance(content, list) else ()):
            yield from _part_texts(part, f"{place}.content[{m}]")
        for m, call in enumerate(turn.get("tool_calls", ())):
            yield f"{place}.tool_calls[{m}].function.name", str(call["function"].get("name", ""))
        for m, block in enumerate(turn.get("thinking_blocks") or ()):
            for name in ("signature", "data"):
                if as_object(block).get(name):
                    yield f"{place}.thinking_blocks[{m}].{name}", block[name]


def _part_texts(part: Json, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, str):
        yield place, part
        return
    members = as_object(part)
    if members.get("type") in _THINKING_PARTS:
        yield place, str(members.get("signature") or members.get("data") or "")
        return
    if isinstance(members.get("text"), str):
        yield f"{place}.text", members["text"]
    for name in ("image_url", "video_url", "input_audio", "file"):
        inner = members.get(name)
        value: Json = inner if isinstance(inner, str) else ""
        if isinstance(inner, dict):
            fields = as_object(inner)
            value = (
                fields.get("url")
                or fields.get("data")
                or fields.get("file_data")
                or fields.get("file_id")
                or ""
            )
        if value:
            yield f"{place}.{name}", str(value).partition(";base64,")[2] or str(value)


def _arguments(messages: list[dict[str, Json]]) -> Iterator[tuple[str, dict[str, Json]]]:
    for n, turn in enumerate(messages):
        for m, call in enumerate(turn.get("tool_calls", ())):
            value = _parsed(call["function"]["arguments"])
            if isinstance(value, dict) and value:
                yield f"messages[{n}].tool_calls[{m}].function.arguments", cast("dict[str, Json]", value)


def _check_marks(messages: list[dict[str, Json]], region: Json, family: Family) -> None:
    if family.cache_mark is None:
        return
    asked = sum(bool(node.get("cache_control")) for node in objects(messages))
    sent = sum(bool(node.get(family.cache_mark)) for node in objects(region))
    if sent < asked:
        raise refuse_turn(
            "messages.cache_control", f"{asked - sent} of {asked} cache marks do not arrive in the request"
        )


def _check_nothing_invented(messages: list[dict[str, Json]], region: Json) -> None:
    """Every text that the provider would read as part of the conversation was written by somebody."""
    written = "\0".join([*strings(messages)])
    for node in objects(region):
        text = node.get("text")
        if text is None and "role" in node:
            text = node.get("content")
        if isinstance(text, str) and text.strip() and text.strip() not in written:
            shown = text if len(text) <= 60 else text[:59] + "…"
            raise refuse_turn(
                "messages",
                f"LiteLLM would add words that nobody wrote ({shown!r}); the conversation needs another form",
            )


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
