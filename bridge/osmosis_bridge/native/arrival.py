"""Whether a conversation arrives: every text, argument, image and signature of it, and nothing that nobody wrote.

Looks at the outgoing body of a dialect it does not know: what was said must be found in it, as it was said, and as
often. Roles and order are LiteLLM's to translate. Linear in the size of the conversation. Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, cast

from osmosis_bridge.native.jsontree import Json, as_items, as_object, objects, strings
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.rule import Family
from osmosis_bridge.native.turns import parsed, refuse_turn

_THINKING_PARTS: Final = frozenset({"thinking", "redacted_thinking"})
_READ: Final = frozenset({"url", "data", "file_data", "file_id", "detail", "format"})
"""What a part's image, audio or file is, and what its kind decides on; a file's name is neither."""
_LOST: Final = "it does not arrive in the request that would be sent"


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
    leaves = strings(region)
    said = list(_texts(messages))
    _check_texts(said, leaves)
    _check_arguments(messages, region, frozenset(leaves))
    _check_marks(messages, region, family)
    if family.messages_at:
        _check_nothing_invented(messages, frozenset(text for _, text in said), region)


def _check_texts(said: list[tuple[str, str]], leaves: list[str]) -> None:
    """Every text is there as often as it was said, by itself or within another."""
    sent = Counter(leaves)
    asked = Counter(text for _, text in said)
    missing = [(place, text) for place, text in said if sent[text] < asked[text]]
    if not missing:
        return
    joined = "\0".join(leaves)
    values: frozenset[str] | None = None
    for place, text in missing:
        if joined.count(text.strip()) >= asked[text]:
            continue
        value = parsed(text)
        if isinstance(value, dict):
            # A tool's result that is JSON may be sent as the value it is; its members are looked for.
            values = values or frozenset(leaves)
            if all(leaf in values for leaf in strings(value)):
                continue
        raise refuse_turn(place, _LOST)


def _check_arguments(messages: list[dict[str, Json]], region: Json, leaves: frozenset[str]) -> None:
    """The arguments of every call are there: as the text they are, or as the value that it means."""
    wanted = [(place, text, value) for place, text, value in _arguments(messages) if text not in leaves]
    if not wanted:
        return
    shapes = {tuple(sorted(value)) for _, _, value in wanted}
    found = {_canonical(node) for node in objects(region) if tuple(sorted(node)) in shapes}
    found |= {
        _canonical(as_object(value))
        for leaf in leaves
        if leaf[:1] == "{" and isinstance(value := parsed(leaf), dict)
    }
    for place, _, value in wanted:
        if _canonical(value) not in found:
            raise refuse_turn(place, "they do not arrive in the request that would be sent")


def _canonical(value: Mapping[str, Json]) -> str:
    return json.dumps(value, sort_keys=True)


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
        yield from _signatures(turn, place)


def _signatures(turn: Mapping[str, Json], place: str) -> Iterator[tuple[str, str]]:
    """What makes earlier thinking valid: the signature of a block, or the cipher that it is."""
    for n, item in enumerate(as_items(turn.get("thinking_blocks"))):
        block = as_object(item)
        for name in ("signature", "data"):
            if block.get(name):
                yield f"{place}.thinking_blocks[{n}].{name}", str(block[name])


def _part_texts(part: Json, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, str):
        yield place, part
        return
    members = as_object(part)
    if str(members.get("type")) in _THINKING_PARTS:
        yield place, str(members.get("signature") or members.get("data") or "")
        return
    if isinstance(members.get("text"), str):
        yield f"{place}.text", members["text"]
    for name in ("image_url", "video_url", "input_audio", "file"):
        inner = members.get(name)
        value: Json = inner if isinstance(inner, str) else ""
        if isinstance(inner, dict):
            fields = as_object(inner)
            for member in sorted(fields.keys() - _READ):
                yield from ((f"{place}.{name}.{member}", text) for text in strings(fields[member]) if text)
            value = (
                fields.get("url")
                or fields.get("data")
                or fields.get("file_data")
                or fields.get("file_id")
                or ""
            )
        if value:
            yield f"{place}.{name}", str(value).partition(";base64,")[2] or str(value)


def _arguments(messages: list[dict[str, Json]]) -> Iterator[tuple[str, str, dict[str, Json]]]:
    """Place, text and value of every call's arguments that say something."""
    for n, turn in enumerate(messages):
        for m, call in enumerate(turn.get("tool_calls", ())):
            text: str = call["function"]["arguments"]
            value = parsed(text)
            if isinstance(value, dict) and value:
                yield (
                    f"messages[{n}].tool_calls[{m}].function.arguments",
                    text,
                    cast("dict[str, Json]", value),
                )


def _check_marks(messages: list[dict[str, Json]], region: Json, family: Family) -> None:
    if family.cache_mark is None:
        return
    asked = sum(bool(node.get("cache_control")) for node in objects(messages))
    sent = sum(bool(node.get(family.cache_mark)) for node in objects(region))
    if sent < asked:
        raise refuse_turn(
            "messages.cache_control", f"{asked - sent} of {asked} cache marks do not arrive in the request"
        )


def _put_together(text: str, said: frozenset[str]) -> bool:
    """Whether a text is made of texts that were said, and of nothing else that has words."""
    for part in sorted(said, key=len, reverse=True):
        text = text.replace(part, "")
    return not any(character.isalnum() for character in text)


def _check_nothing_invented(messages: list[dict[str, Json]], said: frozenset[str], region: Json) -> None:
    """Every text that the provider would read as part of the conversation was written by somebody."""
    written = ""
    for node in objects(region):
        text = node.get("text")
        if text is None and "role" in node:
            text = node.get("content")
        if not isinstance(text, str) or text in said or not text.strip():
            continue
        written = written or "\0".join(strings(messages))
        if text.strip() not in written and not _put_together(text, said):
            shown = text if len(text) <= 60 else text[:59] + "…"
            raise refuse_turn(
                "messages",
                f"LiteLLM would add words that nobody wrote ({shown!r}); the conversation needs another form",
            )
