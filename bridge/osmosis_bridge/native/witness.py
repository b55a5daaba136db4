"""What a provider itself said of a reply: its finish reasons, its usage, whether it erred, and whether it ended.

Reads the raw bytes of a reply beside LiteLLM, which invents usage where none came and calls an unknown finish `stop`.
Knows the shape of each dialect's frames; does no I/O, and never raises on what it cannot read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, cast

from osmosis_bridge.native.eventstream import FrameBroken, FrameSplitter
from osmosis_bridge.native.jsontree import MISSING, Json, as_object, at, objects
from osmosis_bridge.sse import Event, EventSplitter, EventTooLarge

_KEPT: Final = 32 * 1024 * 1024

_MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "anthropic": {
        "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls",
        "refusal": "content_filter", "model_context_window_exceeded": "length",
    },
    "gemini": {
        "STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter",
        "BLOCKLIST": "content_filter", "PROHIBITED_CONTENT": "content_filter", "SPII": "content_filter",
        "IMAGE_SAFETY": "content_filter", "MODEL_ARMOR": "content_filter",
    },
    "converse": {
        "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls",
        "guardrail_intervened": "content_filter", "content_filtered": "content_filter",
        "model_context_window_exceeded": "length",
    },
    "cohere": {
        "COMPLETE": "stop", "STOP_SEQUENCE": "stop", "MAX_TOKENS": "length", "TOOL_CALL": "tool_calls",
        "ERROR": "error", "ERROR_TOXIC": "error", "TIMEOUT": "error",
    },
    "ollama": {"stop": "stop", "length": "length"},
}  # fmt: skip
"""The documented equivalents of each dialect's finish reasons; any other is passed on as the provider said it."""


def openai_finish(dialect: str, said: str, *, calls_tools: bool) -> str:
    """A provider's finish reason as OpenAI has it; one it has no word for stays as it is.

    Gemini and Ollama say `stop` for an answer that calls tools; a forced tool that only carries JSON is no tool call.
    """
    meant = _MEANINGS.get(dialect, {}).get(said, said)
    if meant == "stop" and calls_tools:
        return "tool_calls"
    if meant == "tool_calls" and not calls_tools:
        return "stop"
    return meant


class Witness:
    """Reads one reply of a dialect as it comes.

    `finishes` is what the provider said, by choice; `counts` its own usage object, each count by its last value;
    `usage` whether it counted tokens; `error` its own error object or text, if one came within the reply; `ended`
    whether it said that the reply is complete; `cut` whether the connection broke, `broken` what could not be read;
    `message` Cohere's message of a plain reply, of which LiteLLM drops what stands beside tool calls.
    """

    def __init__(self, dialect: str) -> None:
        self.dialect: Final = dialect
        self.finishes: dict[int, str] = {}
        self.counts: dict[str, Json] = {}
        self.usage = False
        self.error: Json = None
        self.message: dict[str, Json] = {}
        self.ended = False
        self.cut = False
        self.broken: str | None = None
        self._take: Callable[[Json], None] = _READERS.get(dialect, Witness._take_other).__get__(self)
        self._kept = bytearray()
        self._form: str | None = None
        self._events = EventSplitter()
        self._frames = FrameSplitter()

    def feed(self, piece: bytes) -> None:
        """Some bytes of the body."""
        if self._form is None and piece.strip():
            self._form = _form(piece, self.dialect)
        if self._form == "events":
            self._feed_events(piece)
        elif self._form == "frames":
            self._feed_frames(piece)
        elif self._form == "lines":
            self._feed_lines(piece)
        elif len(self._kept) < _KEPT:
            self._kept += piece

    def end(self) -> None:
        """The body ended cleanly."""
        if self._form == "events" and (last := self._events.finish()) is not None:
            self._event(last)
        elif self._form == "lines" and self._kept.strip():
            self._take(_parsed(bytes(self._kept)))
        elif self._form in (None, "whole"):
            self._whole(bytes(self._kept))
        if self._frames.torn and self.broken is None:
            self.broken = "the provider's stream ended in the middle of a frame"

    def _whole(self, body: bytes) -> None:
        found = _parsed(body)
        for item in cast("list[Json]", found) if isinstance(found, list) else [found]:
            self._take(item)
        self.ended = isinstance(found, dict | list)

    def _feed_events(self, piece: bytes) -> None:
        try:
            for event in self._events.feed(piece):
                self._event(event)
        except EventTooLarge as error:
            self.broken = str(error)

    def _event(self, event: Event) -> None:
        if event.data is not None and event.data.strip() not in (b"", b"[DONE]"):
            found = _parsed(event.data)
            if found is MISSING:
                self.broken = "the provider sent an event that is not JSON"
            self._take(found)

    def _feed_frames(self, piece: bytes) -> None:
        try:
            for frame in self._frames.feed(piece):
                self._take_frame(frame.headers, frame.payload)
        except FrameBroken as error:
            self.broken = f"the provider's stream is broken: {error}"

    def _feed_lines(self, piece: bytes) -> None:
        self._kept += piece
        *lines, rest = bytes(self._kept).split(b"\n")
        self._kept = bytearray(rest)
        for line in lines:
            if line.strip():
                self._take(_parsed(line))

    def _take_frame(self, headers: dict[str, str], payload: bytes) -> None:
        found = _parsed(payload)
        kind = headers.get(":exception-type") or headers.get(":error-code")
        if kind is not None:
            message = at(found, ("message",))
            self.error = {
                "type": kind,
                "message": message if isinstance(message, str) else headers.get(":error-message", kind),
            }
            return
        self._take({headers.get(":event-type", ""): found})

    def _take_anthropic(self, found: Json) -> None:
        if at(found, ("type",)) == "error":
            self.error = at(found, ("error",))
        self.ended = self.ended or at(found, ("type",)) == "message_stop"
        for path in (("usage",), ("message", "usage")):
            self._count(at(found, path))
        for path in (("stop_reason",), ("delta", "stop_reason")):
            self._finish(0, at(found, path))

    def _take_gemini(self, found: Json) -> None:
        self._error_member(found)
        self._count(at(found, ("usageMetadata",)))
        blocked = at(found, ("promptFeedback", "blockReason"))
        if isinstance(blocked, str):
            self._finish(0, "SAFETY")
            self.ended = True
        candidates = at(found, ("candidates",))
        for n, candidate in enumerate(cast("list[Json]", candidates) if isinstance(candidates, list) else ()):
            index = at(candidate, ("index",))
            self._finish(index if isinstance(index, int) else n, at(candidate, ("finishReason",)))
        self.ended = self.ended or bool(self.finishes)

    def _take_converse(self, found: Json) -> None:
        for path in (("usage",), ("metadata", "usage")):
            self._count(at(found, path))
        for path in (("stopReason",), ("messageStop", "stopReason")):
            self._finish(0, at(found, path))
        self.ended = self.ended or bool(self.finishes)

    def _take_cohere(self, found: Json) -> None:
        self._error_member(found)
        if at(found, ("type",)) is MISSING:
            self.message = as_object(at(found, ("message",)))
        if at(found, ("type",)) == "message-end":
            self.ended = True
            inner = at(found, ("delta", "error"))
            self.error = self.error or (inner if isinstance(inner, str | dict) and inner else None)
        for path in (("usage",), ("delta", "usage")):
            self._count(at(found, path))
        for path in (("finish_reason",), ("delta", "finish_reason")):
            self._finish(0, at(found, path))

    def _take_ollama(self, found: Json) -> None:
        self._error_member(found)
        counts = {name: at(found, (name,)) for name in ("prompt_eval_count", "eval_count")}
        self._count({name: count for name, count in counts.items() if isinstance(count, int)})
        if at(found, ("done",)) is True:
            self.ended = True
            self._finish(0, at(found, ("done_reason",)))

    def _take_other(self, found: Json) -> None:
        """A dialect without a reader: usage is looked for by name; the rest is LiteLLM's word."""
        self._error_member(found)
        for node in objects(found):
            self.usage = self.usage or any(
                "usage" in name.lower() or "token_count" in name.lower() for name in node
            )

    def _error_member(self, found: Json) -> None:
        error = at(found, ("error",))
        if isinstance(error, str | dict) and error:
            self.error = error

    def _count(self, given: Json) -> None:
        """Counts are cumulative: the last value stands, and a frame that says less takes nothing away."""
        if isinstance(given, dict) and given:
            self.usage = True
            self.counts.update(
                {name: count for name, count in cast("dict[str, Json]", given).items() if count is not None}
            )

    def _finish(self, index: int, said: Json) -> None:
        if isinstance(said, str) and said:
            self.finishes[index] = said


_READERS: Final[Mapping[str, Callable[[Witness, Json], None]]] = {
    "anthropic": Witness._take_anthropic,  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
    "gemini": Witness._take_gemini,  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
    "converse": Witness._take_converse,  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
    "cohere": Witness._take_cohere,  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
    "ollama": Witness._take_ollama,  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
}


def _form(piece: bytes, dialect: str) -> str:
    """How a body is framed, by how it begins."""
    start = piece.lstrip()[:8]
    if start[:1] in (b"{", b"["):
        return "lines" if dialect == "ollama" else "whole"
    if dialect == "converse":
        return "frames"
    return "events"


def _parsed(text: bytes) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return MISSING


_EMPTY_USAGE: Final[Mapping[str, tuple[str, Mapping[str, Json]]]] = {
    "anthropic": ("usage", {"input_tokens": 0, "output_tokens": 0}),
    "gemini": ("usageMetadata", {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}),
    "converse": ("usage", {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}),
    "cohere": ("usage", {"tokens": {"input_tokens": 0, "output_tokens": 0}}),
}


def with_empty_usage(body: bytes, dialect: str) -> bytes:
    """A whole reply of a dialect with an empty count in it, for a reader that needs one; it is shown to nobody."""
    found, empty = _parsed(body), _EMPTY_USAGE.get(dialect)
    if empty is None or not isinstance(found, dict):
        return body
    name, counts = empty
    reply = cast("dict[str, Json]", found)
    return json.dumps(reply if reply.get(name) else reply | {name: counts}).encode()
