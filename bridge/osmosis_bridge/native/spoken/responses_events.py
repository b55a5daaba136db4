"""A chat completion's answer as the items and events of a response, as it comes or at once.

Rules for whoever edits this file:

- a whole answer is a stream of one piece, so that both say the same;
- items stand in the order in which they began; calls stay open side by side until the answer ends, since their pieces
  may be mixed;
- nothing ends well that had no finish reason.

Pure.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.replies import gather_block
from osmosis_bridge.native.spoken.carried import CALL_FIELDS
from osmosis_bridge.native.spoken.responses_items import (
    CallItem,
    ImageItem,
    Item,
    MessageItem,
    ReasoningItem,
    Said,
    Status,
    arguments_text,
    flat_annotation,
    full_logprobs,
)
from osmosis_bridge.native.spoken.responses_reply import IN_PROGRESS, ending_of, name_of, response_of
from osmosis_bridge.native.spoken.translation import encode_json

_Kind = TypeVar("_Kind", MessageItem, ReasoningItem)
_READ: Final = frozenset(
    {
        "role", "content", "refusal", "reasoning_content", "reasoning", "reasoning_details", "thinking_blocks",
        "tool_calls", "annotations", "images", "function_call",
    }
)  # fmt: skip
_SIGNATURES: Final = "thought_signatures"


def encode_events(events: Iterable[Mapping[str, Json]]) -> bytes:
    """The events as a stream carries them."""
    return b"".join(
        b"event: " + str(event["type"]).encode() + b"\ndata: " + encode_json(event) + b"\n\n"
        for event in events
    )


class ResponseWriter:
    """Writes one response; `asked` is the request, of which a response repeats a part."""

    def __init__(self, asked: Mapping[str, Json]) -> None:
        self._asked = asked
        self._number = -1
        self._envelope: dict[str, Json] = {}
        self._items: list[Item] = []
        self._done: dict[int, dict[str, Json]] = {}
        self._open: Item | None = None
        self._calls: dict[Json, CallItem] = {}
        self._held: dict[Json, tuple[dict[str, Json], list[str]]] = {}
        self._finish: Json = None

    def whole(self, completion: Mapping[str, Json]) -> dict[str, Json]:
        """The response that a whole completion is. Raises `UpstreamFailed` where it holds no answer, or several."""
        choices = [as_object(choice) for choice in as_items(completion.get("choices"))]
        if len(choices) != 1:
            raise UpstreamFailed(
                f"the provider gave {len(choices)} answers, of which a response holds one",
                code="invalid_upstream_reply",
            )
        pieces = [{**choice, "delta": choice.get("message")} for choice in choices]
        for _ in self.take({**completion, "choices": pieces}):
            pass
        return list(self._ending())[-1]["response"]

    def take(self, chunk: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
        """The events that one chunk becomes."""
        choices = [as_object(choice) for choice in as_items(chunk.get("choices"))]
        for name, value in chunk.items():
            if name != "choices" and value is not None and (name == "usage" or not self._envelope.get(name)):
                self._envelope[name] = value
        if not choices:
            return
        if self._number < 0:
            for kind in ("response.created", "response.in_progress"):
                yield self._event(kind, response=response_of(self._begun(), self._asked, [], IN_PROGRESS))
        for choice in choices:
            if choice.get("index") not in (None, 0):
                raise UpstreamFailed("the provider gave more than one answer", code="invalid_upstream_reply")
            for kind, fields in self._said(as_object(choice.get("delta")), as_object(choice.get("logprobs"))):
                yield self._event(kind, **fields)
            self._finish = choice.get("finish_reason") or self._finish

    def end(self) -> Iterator[dict[str, Json]]:
        """The events that end the response. Raises `UpstreamFailed` where it has no finish reason."""
        if self._finish is None:
            raise UpstreamFailed(
                "the provider's stream ended without a finish reason", code="upstream_truncated"
            )
        return self._ending()

    def _ending(self) -> Iterator[dict[str, Json]]:
        ending = ending_of(self._finish)
        status: Status = "completed" if ending.status == "completed" else "incomplete"
        for kind, fields in self._close_all(status):
            yield self._event(kind, **fields)
        output = [self._done[item.index] for item in self._items]
        yield self._event(
            f"response.{status}", response=response_of(self._envelope, self._asked, output, ending)
        )

    def _begun(self) -> dict[str, Json]:
        return {name: value for name, value in self._envelope.items() if name != "usage"}

    def _event(self, kind: str, **fields: Json) -> dict[str, Json]:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}

    def _said(self, delta: dict[str, Json], logprobs: dict[str, Json]) -> Said:
        yield from self._reason(delta)
        for kind, text in _texts(delta.get("content")):
            yield from self._think(text) if kind == "thinking" else self._speak(text, logprobs)
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            message = yield from self._within(MessageItem, "msg")
            yield from message.add_refusal(delta["refusal"], full_logprobs(logprobs.get("refusal")))
        for annotation in as_items(delta.get("annotations")):
            message = yield from self._within(MessageItem, "msg")
            yield from message.annotate(flat_annotation(annotation))
        for image in as_items(delta.get("images")):
            yield from self._put(ImageItem(len(self._items), self._id("ig"), as_object(image)))
        yield from self._keep_rest(delta)
        for n, call in enumerate(as_items(delta.get("tool_calls"))):
            yield from self._call(as_object(call), n)

    def _speak(self, text: str, logprobs: dict[str, Json]) -> Said:
        message = yield from self._within(MessageItem, "msg")
        yield from message.add_text(text, full_logprobs(logprobs.get("content")))

    def _think(self, text: str) -> Said:
        item = yield from self._within(ReasoningItem, "rs")
        yield from item.add(text)

    def _reason(self, delta: dict[str, Json]) -> Said:
        """Its text, by whichever name, and what else must come back with it."""
        blocks = [as_object(block) for block in as_items(delta.get("thinking_blocks"))]
        text = delta.get("reasoning_content") or delta.get("reasoning")
        if not isinstance(text, str) or not text:
            text = "".join(str(block.get("thinking") or "") for block in blocks)
        if text:
            yield from self._think(text)
        details = as_items(delta.get("reasoning_details"))
        named = isinstance(delta.get("reasoning"), str) and not delta.get("reasoning_content") and text
        if not (blocks or details or named):
            return
        item = yield from self._within(ReasoningItem, "rs")
        for block in blocks:
            gather_block(item.turn.setdefault("thinking_blocks", []), block)
        for detail in details:
            _gather_detail(item.turn.setdefault("reasoning_details", []), as_object(detail))
        if named:
            item.turn["reasoning"] = item.turn.get("reasoning", "") + text

    def _keep_rest(self, delta: dict[str, Json]) -> Said:
        """What nobody here knows goes with the message; signatures go with the reasoning."""
        rest = {name: value for name, value in delta.items() if name not in _READ and value is not None}
        fields = as_object(rest.get("provider_specific_fields"))
        if _SIGNATURES in fields:
            item = yield from self._within(ReasoningItem, "rs")
            kept: dict[str, Json] = item.turn.setdefault("provider_specific_fields", {})
            kept[_SIGNATURES] = fields[_SIGNATURES]
            del rest["provider_specific_fields"]
            others = {name: value for name, value in fields.items() if name != _SIGNATURES}
            rest |= {"provider_specific_fields": others} if others else {}
        if rest:
            place = self._open.rest if isinstance(self._open, MessageItem) else self._envelope
            place.update(rest)

    def _call(self, call: dict[str, Json], position: int) -> Said:
        """A piece of a call, which opens with its name; what comes before that is held."""
        key: Json = call.get("index")
        if key is None:
            key = call.get("id") or position
        begun = self._calls.get(key)
        custom = begun.custom if begun is not None else call.get("type") == "custom" or "custom" in call
        inner = as_object(call.get("custom" if custom else "function"))
        text = arguments_text(inner.get("input" if custom else "arguments"))
        if begun is None:
            known, pieces = self._held.setdefault(key, ({}, []))
            known.update(
                {name: value for name, value in {**call, "name": inner.get("name")}.items() if value}
            )
            if "name" not in known:
                pieces.append(text)
                return
            begun = yield from self._begin_call(known, custom=custom)
            self._calls[key] = begun
            text = "".join(pieces) + text
        if text:
            yield from begun.add(text)

    def _begin_call(
        self, known: dict[str, Json], *, custom: bool
    ) -> Generator[tuple[str, dict[str, Json]], None, CallItem]:
        call_id = str(known.get("id") or f"call_{name_of(self._envelope)}_{len(self._items)}")
        signed = next((name for name in CALL_FIELDS if known.get(name)), None)
        if signed is not None:
            reasoning = yield from self._within(ReasoningItem, "rs")
            reasoning.calls[call_id] = {signed: known[signed]}
        yield from self._close()
        item = CallItem(
            len(self._items), self._id("ctc" if custom else "fc"), call_id, str(known["name"]), custom=custom
        )
        self._items.append(item)
        yield from item.opened()
        return item

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{name_of(self._envelope)}_{len(self._items)}"

    def _within(self, kind: type[_Kind], prefix: str) -> Generator[tuple[str, dict[str, Json]], None, _Kind]:
        """The open item, where it is of this kind, else another."""
        if isinstance(self._open, kind):
            return self._open
        yield from self._close()
        item = kind(len(self._items), self._id(prefix))
        self._items.append(item)
        self._open = item
        yield from item.opened()
        return item

    def _put(self, item: Item) -> Said:
        """An item that comes whole."""
        yield from self._close()
        self._items.append(item)
        yield from item.opened()
        yield from self._finished(item, "completed")

    def _close(self) -> Said:
        """What is open ends, but for calls."""
        if self._open is not None:
            yield from self._finished(self._open, "completed")
            self._open = None

    def _close_all(self, status: Status) -> Said:
        unnamed = self._held.keys() - self._calls.keys()
        if unnamed:
            raise UpstreamFailed("the provider called a tool without a name", code="invalid_upstream_reply")
        for item in self._items:
            if item.index not in self._done:
                yield from self._finished(item, status)

    def _finished(self, item: Item, status: Status) -> Said:
        yield from item.closed(status)
        self._done[item.index] = item.shown(status)


def _texts(content: Json) -> Iterator[tuple[str, str]]:
    """The texts of a message's content, each spoken or thought."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in map(as_object, as_items(content)):
        kind = part.get("type")
        text = part.get("text") if kind == "text" else part.get("thinking")
        if isinstance(text, list):
            text = "".join(str(as_object(piece).get("text") or "") for piece in as_items(text))
        if kind not in ("text", "thinking") or not isinstance(text, str):
            raise UpstreamFailed(
                f"the provider's answer holds a part of type {kind!r}, which a response cannot hold",
                code="invalid_upstream_reply",
            )
        if text:
            yield str(kind), text


def _gather_detail(details: list[dict[str, Json]], piece: dict[str, Json]) -> None:
    """Details of reasoning come in pieces: texts of one entry grow, all else of it is said once."""
    last = details[-1] if details else {}
    if not last or any(last.get(name) != piece.get(name) for name in ("type", "index")):
        details.append(dict(piece))
        return
    for name, value in piece.items():
        grows = (
            name in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(name), str)
        )
        last[name] = last[name] + value if grows else value
