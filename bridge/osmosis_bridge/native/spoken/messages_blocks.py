"""One content block of Anthropic Messages, said as parts of a chat message: text, images, documents.

A block's further members, such as `cache_control`, keep their names. What has no equal is refused by its place. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json, as_object
from osmosis_bridge.native.spoken.translation import cannot_say


class Part(msgspec.Struct, frozen=True):
    """A part of a chat message, and where the client wrote it."""

    said: dict[str, Json]
    place: str


def objects_of(value: Json, place: str) -> list[dict[str, Json]]:
    """The blocks that `value` is; raises `Refused` where it is no list of objects."""
    if not isinstance(value, list):
        raise Refused(f"{place} must be text or a list of blocks", code="invalid_messages", param=place)
    blocks = cast("list[Json]", value)
    for n, block in enumerate(blocks):
        if not isinstance(block, dict):
            raise Refused(f"{place}[{n}] must be an object", code="invalid_messages", param=f"{place}[{n}]")
    return cast("list[dict[str, Json]]", blocks)


def kind_of(block: Mapping[str, Json], place: str) -> str:
    """A block's type; raises `Refused` where it has none."""
    kind = block.get("type")
    if not isinstance(kind, str):
        raise Refused(f"{place}.type must be text", code="invalid_messages", param=f"{place}.type")
    return kind


def members_of(block: Mapping[str, Json], place: str, *names: str) -> dict[str, str]:
    """The texts that a block must have; raises `Refused` where one is missing."""
    for name in names:
        if not isinstance(block.get(name), str):
            raise Refused(f"{place}.{name} must be text", code="invalid_messages", param=f"{place}.{name}")
    return {name: block[name] for name in names}


def without(members: Mapping[str, Json], *names: str) -> dict[str, Json]:
    """The other members, but for nulls, which say nothing."""
    return {name: value for name, value in members.items() if name not in names and value is not None}


def say_part(block: dict[str, Json], place: str) -> list[Part]:
    """The parts that say a text, image or document block."""
    kind = kind_of(block, place)
    if kind == "text":
        text = members_of(block, place, "text")["text"]
        return [Part({"type": "text", "text": text, **without(block, "type", "text")}, place)]
    if kind == "image":
        image: dict[str, Json] = {"url": _image_address(block.get("source"), f"{place}.source")}
        return [Part({"type": "image_url", "image_url": image, **without(block, "type", "source")}, place)]
    if kind == "document":
        return _say_document(block, place)
    raise cannot_say(f"{place}.type", f"chat completions have nothing like a block of type {kind!r}")


def _image_address(source: Json, place: str) -> str:
    members = as_object(source)
    kind = members.get("type")
    if kind == "base64":
        _nothing_else(members, place, "type", "media_type", "data")
        found = members_of(members, place, "media_type", "data")
        return f"data:{found['media_type']};base64,{found['data']}"
    if kind == "url":
        _nothing_else(members, place, "type", "url")
        return members_of(members, place, "url")["url"]
    raise cannot_say(place, "it is neither base64 data nor a URL")


def _say_document(block: dict[str, Json], place: str) -> list[Part]:
    """A document as a file, where it is one; a document in words as its words."""
    source = as_object(block.get("source"))
    further = without(block, "type", "source", "title", "context", "citations")
    if block.get("citations") not in (None, {}, {"enabled": False}):
        raise cannot_say(f"{place}.citations", "chat completions cannot be asked for citations of a document")
    kind = source.get("type")
    if kind == "base64":
        _nothing_else(source, f"{place}.source", "type", "media_type", "data")
        found = members_of(source, f"{place}.source", "media_type", "data")
        file = {"file_data": f"data:{found['media_type']};base64,{found['data']}"}
        last = Part({"type": "file", "file": file, **further}, place)
        return [*_words(block, place, "title", "context"), last]
    if kind == "text":
        _nothing_else(source, f"{place}.source", "type", "media_type", "data")
        if source.get("media_type") not in (None, "text/plain"):
            raise cannot_say(f"{place}.source.media_type", "text is plain text")
        text = members_of(source, f"{place}.source", "data")["data"]
        return [
            *_words(block, place, "title", "context"),
            Part({"type": "text", "text": text, **further}, place),
        ]
    if kind == "content":
        return _words(block, place, "title", "context") + _say_inner(source, further, f"{place}.source")
    raise cannot_say(f"{place}.source", "it is neither base64 data nor text; send the document inline")


def _say_inner(source: dict[str, Json], further: dict[str, Json], place: str) -> list[Part]:
    _nothing_else(source, place, "type", "content")
    content = source.get("content")
    if isinstance(content, str):
        return [Part({"type": "text", "text": content, **further}, place)]
    parts: list[Part] = []
    for n, inner in enumerate(objects_of(content, f"{place}.content")):
        parts += say_part(inner, f"{place}.content[{n}]")
    if not parts:
        raise cannot_say(f"{place}.content", "it holds nothing")
    if further:
        parts[-1] = Part(parts[-1].said | further, parts[-1].place)
    return parts


def _words(block: Mapping[str, Json], place: str, *names: str) -> list[Part]:
    """What is said about a document, as texts in front of it."""
    given = [name for name in names if block.get(name) is not None]
    texts = members_of(block, place, *given)
    return [Part({"type": "text", "text": text}, f"{place}.{name}") for name, text in texts.items() if text]


def _nothing_else(members: Mapping[str, Json], place: str, *names: str) -> None:
    """Raise `Refused` for a member of a source that would be lost."""
    for name in without(members, *names):
        raise cannot_say(f"{place}.{name}", "chat completions have no place for it")
