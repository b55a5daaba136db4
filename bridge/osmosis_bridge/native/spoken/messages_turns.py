"""The conversation of an Anthropic Messages request, said as chat messages.

A user's turn becomes one chat message for each tool result in it and one for what stands between them; an assistant's
becomes one, with its calls and its thoughts beside its text. Where each piece was written is kept in `sources`. What
has no equal is refused by its place. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.spoken.messages_blocks import (
    Part,
    kind_of,
    members_of,
    objects_of,
    say_part,
    without,
)
from osmosis_bridge.native.spoken.translation import cannot_say
from osmosis_bridge.native.turns import turn_of

UNSIGNED: Final = "unsigned:"
"""How the signature of a thought begins that a provider gave without one; the field it came in follows."""
_THOUGHT_FIELDS: Final = frozenset({"reasoning_content", "reasoning"})
_BESIDE: Final = _THOUGHT_FIELDS | {"tool_calls", "thinking_blocks"}
"""What stands beside an assistant's content in chat."""
_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_FAILED: Final = "is_error: true"
"""A tool result that failed is one that begins with this: chat has no other place for it."""


class Conversation:
    """Chat messages, and for places of them where the client wrote what stands there."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Json]] = []
        self.sources: dict[str, str] = {}

    def add(self, turn: dict[str, Json], place: str) -> str:
        """Add a turn that was written at `place`; gives back the turn's own place."""
        at = f"messages[{len(self.turns)}]"
        self.turns.append(turn)
        self.sources[at] = place
        return at

    def content(self, at: str, parts: list[Part]) -> Json:
        """The content of the turn at `at`: a lone text as text, else a list."""
        if len(parts) == 1 and parts[0].said.keys() == {"type", "text"}:
            self.sources[f"{at}.content"] = parts[0].place
            return parts[0].said["text"]
        for n, part in enumerate(parts):
            self.sources[f"{at}.content[{n}]"] = part.place
        return [part.said for part in parts]


def say_conversation(system: Json, messages: Json) -> Conversation:
    """The chat messages that say the same. Raises `Refused` naming the place."""
    said = Conversation()
    _say_system(system, said)
    if not isinstance(messages, list):
        raise Refused("messages must be a list", code="invalid_messages", param="messages")
    for n, turn in enumerate(cast("list[Json]", messages)):
        _say_turn(turn, f"messages[{n}]", said)
    return said


def _say_system(system: Json, said: Conversation) -> None:
    if system is None or system == []:
        return
    at = said.add({"role": "system"}, "system")
    said.sources[f"{at}.content"] = "system"
    if isinstance(system, str):
        said.turns[-1]["content"] = system
        return
    parts: list[Part] = []
    for n, block in enumerate(objects_of(system, "system")):
        if kind_of(block, f"system[{n}]") != "text":
            raise cannot_say(f"system[{n}].type", "only text blocks can be said in a system prompt")
        parts += say_part(block, f"system[{n}]")
    said.turns[-1]["content"] = said.content(at, parts)


def _say_turn(turn: Json, place: str, said: Conversation) -> None:
    role, members = turn_of(turn, place, _ROLES, "user or assistant")
    envelope = {"role": role} | without(members, "role", "content")
    content = members.get("content")
    if isinstance(content, str):
        said.add(envelope | {"content": content}, place)
        return
    blocks = objects_of(content, f"{place}.content")
    if role == "assistant":
        _say_assistant(blocks, envelope, place, said)
    else:
        _say_user(blocks, envelope, place, said)


def _say_user(
    blocks: list[dict[str, Json]], envelope: dict[str, Json], place: str, said: Conversation
) -> None:
    parts: list[Part] = []
    begun = len(said.turns)

    def say_parts() -> None:
        if parts or (not blocks and len(said.turns) == begun):
            at = said.add(dict(envelope), place)
            said.turns[-1]["content"] = said.content(at, parts)
            parts.clear()

    for n, block in enumerate(blocks):
        where = f"{place}.content[{n}]"
        if kind_of(block, where) == "tool_result":
            say_parts()
            _say_result(block, where, said)
        else:
            parts += say_part(block, where)
    say_parts()
    further = {name: value for name, value in envelope.items() if name != "role"}
    if further and len(said.turns) > begun and said.turns[begun]["role"] == "tool":
        for name in further.keys() & said.turns[begun].keys():
            raise cannot_say(f"{place}.{name}", "a result in the same turn says something else there")
        said.turns[begun].update(further)


def _say_result(block: dict[str, Json], place: str, said: Conversation) -> None:
    failed = block.get("is_error")
    if failed not in (None, True, False):
        raise Refused(
            f"{place}.is_error must be true or false", code="invalid_messages", param=f"{place}.is_error"
        )
    further = without(block, "type", "tool_use_id", "content", "is_error")
    call = members_of(block, place, "tool_use_id")["tool_use_id"]
    at = said.add({"role": "tool", "tool_call_id": call, **further}, place)
    said.sources[f"{at}.tool_call_id"] = f"{place}.tool_use_id"
    content = block.get("content")
    said.sources[f"{at}.content"] = f"{place}.content"
    if content is None or isinstance(content, str):
        text = content or ""
        said.turns[-1]["content"] = f"{_FAILED}\n{text}" if failed else text
        return
    parts: list[Part] = []
    for n, inner in enumerate(objects_of(content, f"{place}.content")):
        parts += say_part(inner, f"{place}.content[{n}]")
    if failed and parts and parts[0].said["type"] == "text":
        # Within the first text: there are providers to which texts go on without a space between them.
        parts[0] = Part(parts[0].said | {"text": f"{_FAILED}\n{parts[0].said['text']}"}, parts[0].place)
    elif failed:
        parts.insert(0, Part({"type": "text", "text": _FAILED}, f"{place}.is_error"))
    said.turns[-1]["content"] = said.content(at, parts) if parts else ""


def _say_assistant(
    blocks: list[dict[str, Json]], envelope: dict[str, Json], place: str, said: Conversation
) -> None:
    for name in envelope.keys() & _BESIDE:
        raise cannot_say(f"{place}.{name}", "blocks of the content say it")
    turn = dict(envelope)
    at = said.add(turn, place)
    parts: list[Part] = []
    calls: list[dict[str, Json]] = []
    for n, block in enumerate(blocks):
        where = f"{place}.content[{n}]"
        kind = kind_of(block, where)
        if kind == "tool_use":
            said.sources[f"{at}.tool_calls[{len(calls)}]"] = where
            said.sources[f"{at}.tool_calls[{len(calls)}].function"] = where
            said.sources[f"{at}.tool_calls[{len(calls)}].function.arguments"] = f"{where}.input"
            calls.append(_say_call(block, where))
        elif kind in ("thinking", "redacted_thinking"):
            _say_thought(block, kind, where, (turn, at, said))
        else:
            parts += say_part(block, where)
    turn["content"] = (
        said.content(at, parts) if parts or not (calls or turn.keys() - envelope.keys()) else None
    )
    if calls:
        turn["tool_calls"] = calls


def _say_call(block: dict[str, Json], place: str) -> dict[str, Json]:
    known, given = members_of(block, place, "id", "name"), block.get("input")
    # Text is what a model wrote that is no JSON: it goes back as it was written.
    arguments = (
        given if isinstance(given, str) else json.dumps({} if given is None else given, ensure_ascii=False)
    )
    if block.get("caller") not in (None, {"type": "direct"}):
        raise cannot_say(f"{place}.caller", "it was called by a tool of Anthropic's own")
    function = {"name": known["name"], "arguments": arguments}
    further = without(block, "type", "id", "name", "input", "caller")
    return {"id": known["id"], "type": "function", "function": function, **further}


def _say_thought(
    block: Mapping[str, Json], kind: str, place: str, into: tuple[dict[str, Json], str, Conversation]
) -> None:
    """A signed thought as the block it is; one without a signature as the text that it came as."""
    turn, at, said = into
    signature = block.get("signature") or ""
    if kind == "thinking" and (not signature or str(signature).startswith(UNSIGNED)):
        field = str(signature).removeprefix(UNSIGNED)
        field = field if field in _THOUGHT_FIELDS else "reasoning_content"
        said.sources[f"{at}.{field}"] = place
        for name in without(block, "type", "thinking", "signature"):
            raise cannot_say(f"{place}.{name}", "a thought without a signature is its text alone")
        earlier = turn.get(field)
        text = members_of(block, place, "thinking")["thinking"]
        turn[field] = text if earlier is None else f"{earlier}\n{text}"
        return
    known = ("thinking", "signature") if kind == "thinking" else ("data",)
    thoughts = cast("list[Json]", turn.setdefault("thinking_blocks", []))
    said.sources[f"{at}.thinking_blocks[{len(thoughts)}]"] = place
    thoughts.append({"type": kind, **members_of(block, place, *known), **without(block, "type", *known)})
