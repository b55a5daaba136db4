"""What streams of typed events have in common: every event is an object whose `type` says what it is.

Both Responses and Messages are such. Knows no event but `error`, and no transport and no clock.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted
from osmosis_bridge.dialects.chat_body import ABSENT, FALSY, text_of, value_of
from osmosis_bridge.dialects.members import FieldReader
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.provider_errors import error_fields, in_band_failure, no_answer_of, no_json
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event, with_data

BOM = b"\xef\xbb\xbf"
WORD_LIMIT = 100
"""Characters that are kept of a word such as a stop reason."""


class TypedEvent(msgspec.Struct, gc=False):
    """The few fields that are read of an event; each as its text."""

    type: Raw = ABSENT
    sequence_number: Raw = ABSENT
    response: Raw = ABSENT
    message: Raw = ABSENT
    delta: Raw = ABSENT
    usage: Raw = ABSENT
    error: Raw = ABSENT


_read_event = FieldReader(TypedEvent)


class TypedStream(Stream):
    """One stream of typed events."""

    __slots__ = ("_complete",)

    def __init__(self, admitted: Admitted, redactor: Redactor) -> None:
        super().__init__(admitted, redactor)
        self._complete = False

    @property
    def complete(self) -> bool:
        """Whether the event came that says so."""
        return self._complete

    @abstractmethod
    def _take_typed(self, kind: str, event: Event, data: bytes, found: TypedEvent) -> bytes:
        """What of an event that is no error the client may have now; `data` is the event's."""

    @abstractmethod
    def _failure(self, data: bytes) -> UpstreamFailed:
        """The error that an event tells of."""

    def _take(self, event: Event) -> bytes:
        data = event.data
        if data is None:
            return self._redactor.scrub(event.raw) if self.started else b""
        text = data.strip()
        if not text:
            # No client's JSON parser survives an empty event.
            return b""
        if text == b"[DONE]":
            self._fail_unfinished("the provider's stream ended before its answer was complete")
            return b""
        found = _read_event(data)
        if found is None and event.name != b"error":
            self._fail_invalid(data)
            return b""
        kind = _kind(event, found)
        if found is None or kind == "error" or event.name == b"error" or bytes(found.error) not in FALSY:
            self.fail(self._failure(data))
            return b""
        return self._take_typed(kind, event, data, found)

    def _end_with(self, frame: bytes) -> bytes:
        """The event that completes the answer: held back until the call is recorded."""
        self._complete = self.ended = self.started = True
        self.last = frame
        return b""

    def _frame(self, event: Event, data: bytes) -> bytes:
        """The event with `data`, as it came where that is its own; without secrets."""
        return self._redactor.scrub(event.raw if data is event.data else with_data(event, data))

    def _is_torn(self, event: Event) -> bool:
        data = (event.data or b"").strip()
        return data not in (b"", b"[DONE]") and event.name != b"error" and _read_event(data) is None


def _kind(event: Event, found: TypedEvent | None) -> str:
    """What an event calls itself: in its data, else by its name."""
    if found is not None and bytes(found.type)[:1] == b'"':
        return text_of(bytes(found.type))
    return (event.name or b"").decode("utf-8", "replace")


def word_of(raw: bytes) -> str | None:
    """A word such as a stop reason, cut at `WORD_LIMIT` characters; None where it is null or empty."""
    return None if raw in (b"null", b'""') else text_of(raw)[:WORD_LIMIT]


def told_failure(found: object, redactor: Redactor, statuses: Mapping[str, int]) -> UpstreamFailed:
    """The error that an event or a body tells of under HTTP 200.

    `statuses` says what a code or a type stands for, where no status is told.
    """
    said = error_fields(found)
    if said is None:
        return in_band_failure(found, redactor)
    fields = dict(said)
    if fields.get("type") == "error":
        # The event's own type, where the error is the event itself.
        del fields["type"]
    words = [word for word in (fields.get("code"), fields.get("type")) if isinstance(word, str)]
    known = [statuses[word] for word in words if word in statuses]
    if known and not str(fields.get("status", "")).isdigit():
        fields["status"] = known[0]
    return in_band_failure({"error": fields}, redactor)


def no_answer(body: bytes, redactor: Redactor, statuses: Mapping[str, int], wanted: str) -> UpstreamFailed:
    """The error to show for a body under HTTP 200 that is no answer: the one it tells of, else that it is none.

    `wanted` says what it is not (`provider_errors.no_answer_of`).
    """
    found = value_of(body)
    if not isinstance(found, dict):
        return no_json(body, redactor)
    if error_fields(cast("object", found)) is None:
        return no_answer_of(wanted, cast("object", found), redactor)
    fields = cast("dict[str, Any]", found)
    failure = told_failure(fields, redactor, statuses)
    if not fields.get("error"):
        failure.code = failure.code or "invalid_upstream_reply"
    return failure
