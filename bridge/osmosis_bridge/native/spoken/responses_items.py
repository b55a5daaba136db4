"""The items of a response in the making: what each holds, and the events that tell of it as it grows.

An item says its events as pairs of a type and fields; who writes them numbers them. Pure.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final, Literal, cast

from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.spoken.carried import pack

Status = Literal["in_progress", "completed", "incomplete"]
Said = Iterator[tuple[str, dict[str, Json]]]
_BASE64: Final = ";base64,"


class Item(ABC):
    """One item: its place in the output, and its id."""

    def __init__(self, index: int, item_id: str) -> None:
        self.index = index
        self.id = item_id

    @abstractmethod
    def shown(self, status: Status) -> dict[str, Json]:
        """The item as it stands."""

    def opened(self) -> Said:
        """It begins."""
        yield "response.output_item.added", {"output_index": self.index, "item": self.shown("in_progress")}

    def closed(self, status: Status) -> Said:
        """It ends."""
        yield from self._ended()
        yield "response.output_item.done", {"output_index": self.index, "item": self.shown(status)}

    def _ended(self) -> Said:
        """What is open within it ends."""
        yield from ()

    def _place(self, **fields: Json) -> dict[str, Json]:
        return {"item_id": self.id, "output_index": self.index, **fields}


class ReasoningItem(Item):
    """What the model shows of its reasoning, and what makes it valid."""

    def __init__(self, index: int, item_id: str) -> None:
        super().__init__(index, item_id)
        self._pieces: list[str] = []
        self._open = False
        self.turn: dict[str, Json] = {}
        self.calls: dict[str, Json] = {}

    def shown(self, status: Status) -> dict[str, Json]:
        """The item; what is carried only once it is whole."""
        item: dict[str, Json] = {"id": self.id, "type": "reasoning", "summary": []}
        if status == "in_progress":
            return item
        item["summary"] = [self._part()] if self._pieces else []
        carried = pack(self.turn, self.calls)
        return item if carried is None else item | {"encrypted_content": carried}

    def _part(self) -> dict[str, Json]:
        return {"type": "summary_text", "text": "".join(self._pieces)}

    def add(self, text: str) -> Said:
        """More of its text."""
        if not self._open:
            self._open = True
            part = {"type": "summary_text", "text": ""}
            yield "response.reasoning_summary_part.added", self._place(summary_index=0, part=part)
        self._pieces.append(text)
        yield "response.reasoning_summary_text.delta", self._place(summary_index=0, delta=text)

    def _ended(self) -> Said:
        if self._open:
            part = self._part()
            yield "response.reasoning_summary_text.done", self._place(summary_index=0, text=part["text"])
            yield "response.reasoning_summary_part.done", self._place(summary_index=0, part=part)


class MessageItem(Item):
    """What the model says; `rest` is what its message holds that nobody here knows."""

    def __init__(self, index: int, item_id: str) -> None:
        super().__init__(index, item_id)
        self._parts: list[dict[str, Json]] = []
        self._pieces: list[str] = []
        self.rest: dict[str, Json] = {}

    def shown(self, status: Status) -> dict[str, Json]:
        """The item; its parts only once they are whole."""
        parts: list[Json] = [] if status == "in_progress" else list(self._parts)
        item: dict[str, Json] = {"id": self.id, "type": "message", "role": "assistant", "status": status}
        return self.rest | item | {"content": parts} if status != "in_progress" else item | {"content": parts}

    def add_text(self, text: str, logprobs: list[Json]) -> Said:
        """More of its text."""
        yield from self._into("output_text")
        self._pieces.append(text)
        self._parts[-1]["logprobs"] += logprobs
        yield "response.output_text.delta", self._in_part(delta=text, logprobs=logprobs)

    def add_refusal(self, text: str, logprobs: list[Json]) -> Said:
        """More of the words it refuses with."""
        yield from self._into("refusal")
        self._pieces.append(text)
        if logprobs:
            self._parts[-1].setdefault("logprobs", []).extend(logprobs)
        yield "response.refusal.delta", self._in_part(delta=text)

    def annotate(self, annotation: dict[str, Json]) -> Said:
        """A note on its text."""
        yield from self._into("output_text")
        notes: list[Json] = self._parts[-1]["annotations"]
        notes.append(annotation)
        at = self._in_part(annotation_index=len(notes) - 1, annotation=annotation)
        yield "response.output_text.annotation.added", at

    def _in_part(self, **fields: Json) -> dict[str, Json]:
        return self._place(content_index=len(self._parts) - 1, **fields)

    def _into(self, kind: str) -> Said:
        """A part of this kind is open."""
        if self._parts and self._parts[-1]["type"] == kind:
            return
        yield from self._ended()
        part: dict[str, Json] = (
            {"type": kind, "refusal": ""}
            if kind == "refusal"
            else {"type": kind, "text": "", "annotations": [], "logprobs": []}
        )
        self._parts.append(part)
        self._pieces = []
        shown = {name: list(as_items(value)) if value == [] else value for name, value in part.items()}
        yield "response.content_part.added", self._in_part(part=shown)

    def _ended(self) -> Said:
        if not self._parts:
            return
        part, text = self._parts[-1], "".join(self._pieces)
        if part["type"] == "refusal":
            part["refusal"] = text
            yield "response.refusal.done", self._in_part(refusal=text)
        else:
            part["text"] = text
            yield "response.output_text.done", self._in_part(text=text, logprobs=part["logprobs"])
        yield "response.content_part.done", self._in_part(part=part)


class CallItem(Item):
    """A call of a tool; a `custom` one takes text instead of arguments."""

    def __init__(self, index: int, item_id: str, call_id: str, name: str, *, custom: bool) -> None:
        super().__init__(index, item_id)
        self._call_id = call_id
        self._name = name
        self.custom = custom
        self._pieces: list[str] = []

    def shown(self, status: Status) -> dict[str, Json]:
        """The item as it stands."""
        text = "" if status == "in_progress" else "".join(self._pieces)
        item: dict[str, Json] = {"id": self.id, "call_id": self._call_id, "name": self._name}
        if self.custom:
            return item | {"type": "custom_tool_call", "input": text}
        return item | {"type": "function_call", "arguments": text, "status": status}

    def add(self, text: str) -> Said:
        """More of its arguments."""
        self._pieces.append(text)
        yield f"response.{self._event}.delta", self._place(delta=text)

    @property
    def _event(self) -> str:
        return "custom_tool_call_input" if self.custom else "function_call_arguments"

    def _ended(self) -> Said:
        text = "".join(self._pieces)
        said = {"input": text} if self.custom else {"name": self._name, "arguments": text}
        yield f"response.{self._event}.done", self._place(**said)


class ImageItem(Item):
    """An image that the model made."""

    def __init__(self, index: int, item_id: str, image: Mapping[str, Json]) -> None:
        super().__init__(index, item_id)
        url = str(as_object(image.get("image_url")).get("url") or "")
        self._result = url.partition(_BASE64)[2] or url

    def shown(self, status: Status) -> dict[str, Json]:
        """The item; the image only once it is whole."""
        result = None if status == "in_progress" else self._result
        return {"id": self.id, "type": "image_generation_call", "status": status, "result": result}


def flat_annotation(annotation: Json) -> dict[str, Json]:
    """A note on a text: chat completions keeps its members one level deeper."""
    members = as_object(annotation)
    kind = members.get("type")
    inner: Json = members.get(kind) if isinstance(kind, str) else None
    return {"type": kind} | cast("dict[str, Json]", inner) if isinstance(inner, dict) else dict(members)


def full_logprobs(logprobs: Json) -> list[Json]:
    """Log probabilities of tokens, with the lists that Responses always has."""
    return [{"bytes": [], "top_logprobs": []} | _known(token) for token in as_items(logprobs)]


def _known(token: Json) -> dict[str, Json]:
    return {name: value for name, value in as_object(token).items() if value is not None}


def arguments_text(value: Json) -> str:
    """A call's arguments as text, whatever a provider made of them."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
