"""What streams of all dialects have in common: bytes in, bytes out, an end that is told apart from the rest.

Rules for whoever edits this file or a dialect's stream:

- a stream never gains an ending: what ends it is passed on only where the dialect finds the answer complete; whatever
  else ends it becomes an error event, and nothing follows that;
- what ends a stream is never in what `feed` returns: it is `last`, for the caller to send when the record is kept.

Knows no transport and no clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import msgspec

from osmosis_bridge.call import Admitted, Outcome, Status
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event, EventSplitter, EventTooLarge

_TEXT_SHOWN = 2000


class Reading(Protocol):
    """What has been read of an answer so far."""

    def outcome(self, status: Status, http_status: int | None, error_code: str | None = None) -> Outcome:
        """The end of the call, with the usage the provider gave, if it gave any."""
        ...


class Stream(ABC):
    """One stream: bytes from the provider in, bytes for the client out.

    `started` turns true with the first event worth passing on; before that nothing was given out. `ended` turns true
    at the end, however it came; then `last` holds the bytes that end the client's stream, and `failure` says what went
    wrong, if anything did.
    """

    __slots__ = (
        "_admitted",
        "_dropped_cr",
        "_redactor",
        "_splitter",
        "ended",
        "failure",
        "last",
        "started",
        "status",
    )

    def __init__(self, admitted: Admitted, redactor: Redactor) -> None:
        self._admitted = admitted
        self._redactor = redactor
        self._splitter = EventSplitter()
        self._dropped_cr = False
        self.started = False
        self.ended = False
        self.last = b""
        self.failure: BridgeError | None = None
        self.status: Status = "ok"

    def feed(self, piece: bytes) -> bytes:
        """What the client may have of `piece` now."""
        try:
            events = self._splitter.feed(piece)
        except EventTooLarge as error:
            self.fail(
                UpstreamFailed(f"the provider's stream is broken: {error}", code="invalid_upstream_stream")
            )
            return b""
        out: list[bytes] = []
        for event in events:
            out.append(self._pass(event))
            if self.ended:
                break
        return b"".join(out)

    def finish(self) -> bytes:
        """The provider's body ended cleanly; what the client may still have. `ended` is true after it."""
        event = self._splitter.finish()
        out = b""
        if event is not None and not self.ended:
            if self._is_torn(event):
                self._fail_unfinished("the provider's stream ended in the middle of an event")
                return b""
            out = self._pass(event)
            out = out + b"\n\n" if out else out
            self.last = self.last + b"\n\n" if self.last else self.last
        if not self.ended:
            if self.complete:
                self.ended = True
            else:
                self._fail_unfinished("the provider's stream ended without a finish reason")
        return out

    def fail(self, failure: BridgeError, status: Status = "upstream_error") -> None:
        """End the stream with an error event; has no effect on one that has ended."""
        if self.ended:
            return
        self.ended = True
        self.failure = failure
        self.status = status
        if not self.last:
            self.last = self._error_event(failure)

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """What has been read so far."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether the stream may end here and be a success."""

    @abstractmethod
    def _take(self, event: Event) -> bytes:
        """What of one event the client may have now."""

    @abstractmethod
    def _is_torn(self, event: Event) -> bool:
        """Whether an event that the end of the stream left unterminated is half of one."""

    @abstractmethod
    def _error_event(self, failure: BridgeError) -> bytes:
        """An error as the dialect's last event."""

    def _pass(self, event: Event) -> bytes:
        """What of one event the client may have; the LF of a CRLF goes the way of the event whose CR ended it."""
        if self._dropped_cr and event.raw.startswith(b"\n"):
            event = msgspec.structs.replace(event, raw=event.raw[1:])
        out = self._take(event)
        self._dropped_cr = not out and event.raw.endswith(b"\r")
        return out

    def _fail_unfinished(self, message: str) -> None:
        self.fail(UpstreamFailed(message, code="upstream_truncated"), "truncated")

    def _fail_invalid(self, data: bytes) -> None:
        shown = data[:_TEXT_SHOWN].decode("utf-8", "replace")
        message = self._redactor.message(f"the provider sent an event that is not a JSON object: {shown}")
        self.fail(UpstreamFailed(message, code="invalid_upstream_event"))
