"""The input of a Responses request as a conversation of chat completions.

Rules for whoever edits this file:

- what the assistant's items say one after the other is one turn: its reasoning, its text, its calls; a second message
  begins another turn, unless calls wait for their outputs;
- an item's `id` and `status` name it in a store that is not ours, and `annotations` and `logprobs` describe what was
  said before: these four say nothing new and are left out; every other field is said, kept under its name, or refused.

Pure. Raises `Refused` naming the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.spoken.carried import Carried, unpack
from osmosis_bridge.native.spoken.translation import cannot_say

_SPEAKERS: Final = frozenset({"user", "system", "developer"})
_NAMES_IT: Final = frozenset({"type", "id", "status"})
_DESCRIBES: Final = frozenset({"annotations", "logprobs"})
_CALL_EXTRAS: Final = ("namespace", "async", "caller")
_OF_TURNS: Final = ("tool_calls", "tool_call_id", "function_call", "reasoning_content", "thinking_blocks")
"""What Responses has items of their own for."""
_NO_PLACE: Final = "chat completions has no place for it"


class Conversation(msgspec.Struct):
    """The turns, and where in the request each of their places was written."""

    messages: list[dict[str, Json]]
    sources: dict[str, str]


class _Thought(msgspec.Struct, frozen=True):
    """One reasoning item: its text, and what it carries."""

    place: str
    text: str
    carried: Carried


def read_input(instructions: Json, items: Json) -> Conversation:
    """The conversation that `instructions` and `input` are; raises `Refused` where there is none."""
    turns = _Turns()
    if instructions is not None and instructions != "":
        if not isinstance(instructions, str):
            raise invalid("instructions", "must be text")
        turns.add({"role": "system", "content": instructions}, "instructions", content="instructions")
    if isinstance(items, str):
        turns.add({"role": "user", "content": items}, "input", content="input")
    elif isinstance(items, list):
        for n, item in enumerate(as_items(items)):
            _read_item(item, f"input[{n}]", turns)
    elif items is not None:
        raise invalid("input", "must be text or a list of items")
    turns.finish()
    if not turns.messages:
        raise invalid("input", "is missing: there is nothing to answer")
    return Conversation(turns.messages, turns.sources)


def beside(said: dict[str, Json], rest: Mapping[str, Json], place: str) -> dict[str, Json]:
    """What was said, and further members under their own names; `Refused` for one whose name is taken."""
    for name in rest:
        if name in said:
            raise cannot_say(f"{place}.{name}", "in chat completions something else stands under this name")
    return said | dict(rest)


def invalid(place: str, what: str) -> Refused:
    """The refusal of a request that is not of this dialect."""
    return Refused(f"{place} {what}", code="invalid_input", param=place)


class _Turns:
    """Puts the conversation together."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Json]] = []
        self.sources: dict[str, str] = {}
        self._turn: dict[str, Json] | None = None
        self._thoughts: list[_Thought] = []
        self._of_calls: dict[str, dict[str, Json]] = {}

    def add(self, turn: dict[str, Json], place: str, content: str | None = None) -> None:
        """A turn of somebody else than the assistant."""
        self.close()
        here = f"messages[{len(self.messages)}]"
        self.messages.append(turn)
        self.sources[here] = place
        if content is not None:
            self.sources[f"{here}.content"] = content

    def think(self, thought: _Thought) -> None:
        """Reasoning; it belongs to what the assistant says next, or said last."""
        self._thoughts.append(thought)

    def answer(self, content: Json, rest: Mapping[str, Json], place: str) -> None:
        """A message of the assistant's."""
        turn, here = self._open(joins=lambda turn: turn.get("content") is None or "tool_calls" in turn)
        if turn.get("content") is None:
            turn["content"] = content
            self.sources.setdefault(f"{here}.content", f"{place}.content")
        else:
            turn["content"] = [*_parts_of(turn["content"]), *_parts_of(content)]
        turn.update(beside(turn, rest, place))
        self.sources.setdefault(here, place)

    def call(self, call: dict[str, Json], place: str) -> None:
        """A call of the assistant's."""
        turn, here = self._open(joins=lambda turn: True)
        calls: list[Json] = turn.setdefault("tool_calls", [])
        at = f"{here}.tool_calls[{len(calls)}]"
        calls.append(call)
        self.sources |= {at: place, f"{at}.{call['type']}": place}
        self.sources.setdefault(here, place)

    def close(self) -> None:
        """The assistant's turn is over."""
        if self._thoughts:
            self._open(joins=lambda turn: True)
        self._turn = None

    def finish(self) -> None:
        """The conversation is over: what was carried for calls goes to them."""
        self.close()
        for message in self.messages:
            for call in as_items(message.get("tool_calls")):
                for name, value in self._of_calls.get(call["id"], {}).items():
                    call.setdefault(name, value)

    def _open(self, *, joins: Callable[[dict[str, Json]], bool]) -> tuple[dict[str, Json], str]:
        """The assistant's turn that goes on, or another, with what was thought before."""
        if self._turn is None or not joins(self._turn):
            self._turn = {"role": "assistant", "content": None}
            self.messages.append(self._turn)
        here = f"messages[{len(self.messages) - 1}]"
        for thought in self._thoughts:
            _put_thought(thought, self._turn, here, self.sources)
            self._of_calls |= thought.carried.calls
        self._thoughts = []
        return self._turn, here


def _put_thought(thought: _Thought, turn: dict[str, Json], here: str, sources: dict[str, str]) -> None:
    sources.setdefault(here, thought.place)
    # A provider's own name for the text comes with what is carried.
    if thought.text and "reasoning" not in thought.carried.turn:
        turn["reasoning_content"] = _joined(turn.get("reasoning_content"), thought.text)
        sources.setdefault(f"{here}.reasoning_content", thought.place)
    for name, value in thought.carried.turn.items():
        before: Json = turn.get(name)
        if isinstance(before, list):
            turn[name] = [*as_items(before), *value]
        elif isinstance(before, dict):
            turn[name] = as_object(before) | value
        else:
            turn[name] = value if before is None else _joined(before, value)
        sources.setdefault(f"{here}.{name}", f"{thought.place}.encrypted_content")


def _joined(before: Json, text: str) -> str:
    return text if not before else f"{before}\n\n{text}"


def _parts_of(content: Json) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_items(content)


def _read_item(item: Json, place: str, turns: _Turns) -> None:
    if not isinstance(item, dict):
        raise invalid(place, "must be an object")
    members = as_object(item)
    kind = members.get("type")
    if kind is None and "role" in members:
        kind = "message"
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is not None:
        reader(members, place, turns)
    elif kind in (None, "item_reference"):
        raise cannot_say(place, "nothing is stored that it could refer to; send the item itself")
    else:
        raise cannot_say(f"{place}.type", f"chat completions has no items of type {kind!r}")


def _message(item: dict[str, Json], place: str, turns: _Turns) -> None:
    role = item.get("role")
    _refuse(item, place, "phase", *_OF_TURNS)
    rest = {
        name: value
        for name, value in item.items()
        if name not in _NAMES_IT
        and name not in ("role", "content", "phase", *_OF_TURNS)
        and value is not None
    }
    content = read_content(item.get("content"), f"{place}.content")
    if role == "assistant":
        turns.answer(content, rest, place)
    elif role in _SPEAKERS:
        turns.add(beside({"role": role, "content": content}, rest, place), place)
    else:
        raise invalid(f"{place}.role", f"is {role!r}; expected user, assistant, system or developer")


def read_content(content: Json, place: str) -> Json:
    """A message's content: text, or the parts of it; one part that is text alone is text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid(place, "must be text or a list of parts")
    parts = [_read_part(part, f"{place}[{n}]") for n, part in enumerate(as_items(content))]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts


def _read_part(part: Json, place: str) -> dict[str, Json]:
    if not isinstance(part, dict):
        raise invalid(place, "must be an object")
    members = as_object(part)
    kind = members.get("type")
    reader = _PARTS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise cannot_say(f"{place}.type", f"chat completions has no parts of type {kind!r}")
    said, read = reader(members, place)
    rest = {name: value for name, value in members.items() if name not in read and value is not None}
    return beside(said, rest, place)


_Part = tuple[dict[str, Json], frozenset[str]]
"""A part as chat completions has it, and the fields of the client's that it says."""


def _text(part: dict[str, Json], place: str) -> _Part:
    text = part.get("text")
    if not isinstance(text, str):
        raise invalid(f"{place}.text", "must be text")
    read = _DESCRIBES if part["type"] == "output_text" else frozenset[str]()
    return {"type": "text", "text": text}, read | {"type", "text"}


def _refusal(part: dict[str, Json], place: str) -> _Part:
    if not isinstance(part.get("refusal"), str):
        raise invalid(f"{place}.refusal", "must be text")
    return {"type": "refusal", "refusal": part["refusal"]}, frozenset({"type", "refusal"})


def _image(part: dict[str, Json], place: str) -> _Part:
    if part.get("file_id") is not None:
        raise cannot_say(f"{place}.file_id", "send the image itself, as a data URL in image_url")
    url = part.get("image_url")
    if not isinstance(url, str):
        raise invalid(f"{place}.image_url", "must be text")
    image: dict[str, Json] = {"url": url}
    if part.get("detail") is not None:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}, frozenset({"type", "image_url", "detail", "file_id"})


def _file(part: dict[str, Json], place: str) -> _Part:
    if part.get("file_url") is not None:
        raise cannot_say(f"{place}.file_url", "send the file itself, as a data URL in file_data")
    if part.get("detail") not in (None, "auto"):
        raise cannot_say(f"{place}.detail", _NO_PLACE)
    names = ("file_data", "file_id", "filename")
    file = {name: part[name] for name in names if part.get(name) is not None}
    if not file.keys() & {"file_data", "file_id"}:
        raise invalid(f"{place}.file_data", "is missing")
    return {"type": "file", "file": file}, frozenset({"type", "file_url", "detail", *names})


def _audio(part: dict[str, Json], place: str) -> _Part:
    return {"type": "input_audio", "input_audio": part.get("input_audio")}, frozenset({"type", "input_audio"})


def _call(item: dict[str, Json], place: str, turns: _Turns) -> None:
    custom = item["type"] == "custom_tool_call"
    said = "input" if custom else "arguments"
    _refuse(item, place, *_CALL_EXTRAS)
    for name in ("call_id", "name", said):
        if not isinstance(item.get(name), str):
            raise invalid(f"{place}.{name}", "must be text")
    kind = "custom" if custom else "function"
    read = _NAMES_IT | {"call_id", "name", said, *_CALL_EXTRAS}
    rest = {name: value for name, value in item.items() if name not in read and value is not None}
    call: dict[str, Json] = {
        "id": item["call_id"],
        "type": kind,
        kind: {"name": item["name"], said: item[said]},
    }
    turns.call(beside(call, rest, place), place)


def _output(item: dict[str, Json], place: str, turns: _Turns) -> None:
    _refuse(item, place, *_CALL_EXTRAS, *_OF_TURNS)
    if not isinstance(item.get("call_id"), str):
        raise invalid(f"{place}.call_id", "must be text")
    content = read_content(item.get("output"), f"{place}.output")
    read = _NAMES_IT | {"call_id", "output", *_CALL_EXTRAS, *_OF_TURNS}
    rest = {name: value for name, value in item.items() if name not in read and value is not None}
    turn: dict[str, Json] = {"role": "tool", "tool_call_id": item["call_id"], "content": content}
    turns.add(beside(turn, rest, place), place, content=f"{place}.output")


def _reasoning(item: dict[str, Json], place: str, turns: _Turns) -> None:
    read = _NAMES_IT | {"summary", "content", "encrypted_content"}
    _refuse(item, place, *(name for name in item if name not in read))
    sealed = item.get("encrypted_content")
    carried: Carried | None = Carried({}, {})
    if sealed is not None:
        carried = unpack(sealed) if isinstance(sealed, str) else None
    if carried is None:
        raise cannot_say(
            f"{place}.encrypted_content", "it is no reasoning of a reply of ours; leave the item out"
        )
    texts = [text for name in ("summary", "content") for text in _texts(item.get(name), f"{place}.{name}")]
    text = "\n\n".join(text for text in texts if text)
    if text or sealed is not None:
        turns.think(_Thought(place, text, carried))


def _texts(parts: Json, place: str) -> list[str]:
    """The texts of a list of parts that hold nothing else."""
    if parts is not None and not isinstance(parts, list):
        raise invalid(place, "must be a list of parts")
    texts: list[str] = []
    for n, part in enumerate(as_items(parts)):
        members = as_object(part)
        _refuse(members, f"{place}[{n}]", *(name for name in members if name not in ("type", "text")))
        if not isinstance(members.get("text"), str):
            raise invalid(f"{place}[{n}].text", "must be text")
        texts.append(members["text"])
    return texts


def _refuse(item: Mapping[str, Json], place: str, *names: str) -> None:
    for name in names:
        if item.get(name) not in (None, False):
            raise cannot_say(f"{place}.{name}", _NO_PLACE)


_PARTS: Final[Mapping[str, Callable[[dict[str, Json], str], _Part]]] = {
    "input_text": _text,
    "output_text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": _file,
    "input_audio": _audio,
}
_READERS: Final[Mapping[str, Callable[[dict[str, Json], str, _Turns], None]]] = {
    "message": _message,
    "function_call": _call,
    "custom_tool_call": _call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "reasoning": _reasoning,
}
