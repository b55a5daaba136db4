"""One answer on its way back: the chat completion that came, checked as on the wire lane, said in the client's dialect.

Rules for whoever edits this file:

- what the chat dialect takes for an error or for unfinished is one here too, and never becomes a complete answer;
- a translation is given completions and chunks only, with usage under OpenAI's names, whichever the provider used.

Knows no transport and no clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

import msgspec

from osmosis_bridge.call import Admitted, Outcome, Usage
from osmosis_bridge.dialects.chat import CHAT_DIALECT
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.native.jsontree import Json, as_object
from osmosis_bridge.native.spoken.translation import Translation, encode_json
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import EventSplitter
from osmosis_bridge.usage import read_usage


class Answer:
    """The answer to one translated call; `ended` turns true when nothing of its stream can follow.

    `dialect` is the one in which the answer comes.
    """

    dialect: Dialect = CHAT_DIALECT

    def __init__(self, translation: Translation, redactor: Redactor) -> None:
        self._translation = translation
        self._redactor = redactor
        model = str(translation.request.get("model", ""))
        admitted = Admitted(model, encode_json(model), True, True, b"", (), ())
        self._admitted: Final = admitted
        self._stream = self.dialect.open_stream(admitted, redactor)
        self._events = EventSplitter()
        self._counted = self._broken = False

    @property
    def ended(self) -> bool:
        """Whether the end of the stream was seen."""
        return self._broken or self._stream.ended

    def whole(self, body: bytes) -> bytes:
        """A plain reply. Raises `UpstreamFailed` where it is an error or no completion."""
        checked, outcome = self.dialect.read_reply(body, self._admitted, self._redactor)
        if outcome.status != "ok":
            raise UpstreamFailed("the provider ended the answer with an error", code=outcome.error_code)
        return encode_json(self._translation.reply(self._completion(parsed(checked), outcome)))

    def _completion(self, found: dict[str, Json], outcome: Outcome) -> dict[str, Json]:
        """The reply as the translation is given it."""
        usage = _with_usage(found.get("usage"), outcome.usage)
        completion = {name: value for name, value in found.items() if name != "usage"}
        return completion if usage is None else completion | {"usage": usage}

    def feed(self, piece: bytes) -> bytes:
        """What the client may have of a piece of a stream; raises `BrokenOff` for what ends it badly."""
        return b"" if self.ended else self._said(self._stream.feed(piece))

    def finish(self) -> bytes:
        """The body ended; what the client may still have. Raises as `feed` does."""
        return b"" if self.ended else self._said(self._stream.finish())

    def _said(self, chat: bytes) -> bytes:
        said = bytearray()
        try:
            for event in self._events.feed(chat):
                if event.data:
                    said += self._chunk(event.data)
            if self._stream.failure is not None:
                raise self._stream.failure
            if self._stream.ended:
                said += self._ending() + self._translation.end()
        except BridgeError as failure:
            self._broken = True
            raise BrokenOff(failure, bytes(said)) from None
        return bytes(said)

    def _chunk(self, data: bytes) -> bytes:
        found = parsed(data)
        if found.get("usage") is not None:
            found = found | {"usage": _with_usage(found["usage"], read_usage(encode_json(found["usage"]))[0])}
            self._counted = True
        return self._translation.chunk(found)

    def _ending(self) -> bytes:
        """A chunk for usage that came elsewhere than in the chunks' own member."""
        usage = None if self._counted else self._stream.reading.outcome("ok", 200).usage
        if usage is None:
            return b""
        empty: list[Json] = []
        return self._translation.chunk({"choices": empty, "usage": _with_usage(None, usage)})


class BrokenOff(Exception):
    """A stream that ends badly: why, and what the client may have before it is told."""

    def __init__(self, failure: BridgeError, said: bytes) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.said = said


def _with_usage(given: Json, counted: Usage | None) -> Json:
    """A usage object with OpenAI's names for what was counted, beside whatever else the provider said there."""
    if counted is None:
        return given
    usage = dict(as_object(given))
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        count: int | None = getattr(counted, name)
        usage.pop(name, None)
        if count is not None:
            usage[name] = count
    prompt = {"cached_tokens": counted.cached_tokens, "cache_write_tokens": counted.cache_write_tokens}
    completion = {"reasoning_tokens": counted.reasoning_tokens}
    for name, counts in (("prompt_tokens_details", prompt), ("completion_tokens_details", completion)):
        known: Mapping[str, Json] = {key: count for key, count in counts.items() if count is not None}
        if known:
            usage[name] = as_object(usage.get(name)) | known
    return usage


def parsed(data: bytes) -> dict[str, Json]:
    """The object that `data` is: the chat dialect has seen that it is one."""
    try:
        return msgspec.json.decode(data, type=dict[str, Json])
    except (msgspec.DecodeError, RecursionError):
        return cast("dict[str, Json]", json.loads(data))
