"""OpenAI chat completions on the wire lane: what is relayed of a reply, and what is read from it.

Rules for whoever edits this file:

- a reply is passed on as it came, only its `model` becomes the client's alias;
- a stream never gains an ending: `[DONE]` is passed on only after a finish reason was seen for every choice; whatever
  else ends it becomes an error event, and nothing follows that;
- the event that ends a stream is never in what `feed` returns: it is `last`, for the caller to send when the record is
  kept;
- no finish reason is mapped to another.

Knows no transport and no clock.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted, Outcome, Status
from osmosis_bridge.dialects.chat_body import ABSENT, FALSY, Body, Reading, read_body, split_or_none, value_of
from osmosis_bridge.errors import BridgeError, UpstreamFailed, encode_error
from osmosis_bridge.provider_errors import error_fields, in_band_failure, read_failure
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event, EventSplitter, EventTooLarge, encode_event

_TEXT_SHOWN = 2000


_split = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def read_reply(body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
    """A plain reply that came with HTTP 2xx: what is passed on, and how the call ended.

    Raises `UpstreamFailed` where the body is an error or no completion at all.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    found = read_body(body)
    if found is None:
        failure = read_failure(502, body, redactor)
        failure.code = "invalid_upstream_reply"
        raise failure
    if _is_error(found):
        raise in_band_failure(value_of(body), redactor)
    if found.choices is None:
        failure = in_band_failure(value_of(body), redactor)
        failure.code = failure.code or "invalid_upstream_reply"
        raise failure
    reading = Reading()
    reading.take(found)
    status, code = ("upstream_error", "finish_reason_error") if reading.erred else ("ok", None)
    return redactor.scrub(_with_alias(body, found, admitted)), reading.outcome(status, 200, code)


class ChatStream:
    """One stream of chunks: bytes from the provider in, bytes for the client out.

    `started` turns true with the first event worth passing on; before that nothing was given out. `ended` turns true
    at the end, however it came; then `last` holds the bytes that end the client's stream, and `failure` says what went
    wrong, if anything did.
    """

    __slots__ = (
        "_admitted",
        "_redactor",
        "_splitter",
        "ended",
        "failure",
        "last",
        "reading",
        "started",
        "status",
    )

    def __init__(self, admitted: Admitted, redactor: Redactor) -> None:
        self._admitted = admitted
        self._redactor = redactor
        self._splitter = EventSplitter()
        self.reading = Reading()
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
            out.append(self._take(event))
            if self.ended:
                break
        return b"".join(out)

    def finish(self) -> bytes:
        """The provider's body ended cleanly; what the client may still have. `ended` is true after it."""
        event = self._splitter.finish()
        out = b""
        if event is not None and not self.ended:
            if _is_torn(event):
                self._fail_unfinished("the provider's stream ended in the middle of an event")
                return b""
            out = self._take(event)
            out = out + b"\n\n" if out else out
            self.last = self.last + b"\n\n" if self.last else self.last
        if not self.ended:
            if self.reading.complete:
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
            self.last = encode_event(failure.body())

    def _take(self, event: Event) -> bytes:
        data = event.data
        if data is None:
            return self._redactor.scrub(event.raw) if self.started else b""
        if data == b"[DONE]" or data.strip() == b"[DONE]":
            return self._take_done(event)
        if not data.strip():
            # No client's JSON parser survives an empty event.
            return b""
        found = read_body(data)
        if found is None or _is_error(found) or event.name == b"error" or _says_only_error(data, found):
            self._take_error(data, event, found)
            return b""
        self.reading.take(found)
        if not self._admitted.usage_asked and _only_usage(found):
            return b""
        if self.reading.erred:
            return self._take_choice_error(event, data, found)
        self.started = True
        return self._redactor.scrub(self._frame(event, data, found))

    def _take_choice_error(self, event: Event, data: bytes, found: Body) -> bytes:
        """A choice that ended in an error: what came with it is passed on, unless it is the first event of all."""
        failure: BridgeError = UpstreamFailed(
            "the provider ended the answer with an error", code="finish_reason_error"
        )
        if self.reading.choice_error != b"null":
            failure = in_band_failure({"error": value_of(self.reading.choice_error)}, self._redactor)
        self.fail(failure)
        return self._redactor.scrub(self._frame(event, data, found)) if self.started else b""

    def _take_done(self, event: Event) -> bytes:
        if self.reading.complete:
            self.ended = True
            self.last = event.raw
        else:
            self._fail_unfinished("the provider's stream ended without a finish reason")
        return b""

    def _fail_unfinished(self, message: str) -> None:
        self.fail(UpstreamFailed(message, code="upstream_truncated"), "truncated")

    def _take_error(self, data: bytes, event: Event, found: Body | None) -> None:
        if found is None and event.name != b"error":
            shown = data[:_TEXT_SHOWN].decode("utf-8", "replace")
            message = self._redactor.message(f"the provider sent an event that is not a JSON object: {shown}")
            self.fail(UpstreamFailed(message, code="invalid_upstream_event"))
            return
        failure = in_band_failure(value_of(data), self._redactor)
        if found is not None:
            self.reading.take(found)
            self.last = encode_event(self._error_frame(data, failure))
        self.fail(failure)

    def _error_frame(self, data: bytes, failure: UpstreamFailed) -> bytes:
        """The provider's own event with its error cleaned and its other fields kept, where it has both."""
        body = failure.body()
        fields = split_or_none(data)
        if fields is None or "error" not in fields or "choices" not in fields:
            return body
        fields["error"] = _split(body)["error"]
        if "model" in fields:
            fields["model"] = Raw(self._admitted.alias_json)
        return self._redactor.scrub(_encode(fields))

    def _frame(self, event: Event, data: bytes, found: Body) -> bytes:
        renamed = _with_alias(data, found, self._admitted)
        if renamed is data:
            return event.raw
        if event.raw.count(data) == 1:
            return event.raw.replace(data, renamed)
        head = b"" if event.name is None else b"event: " + event.name + b"\n"
        return head + encode_event(renamed)


def error_event(message: str, type: str, code: str) -> bytes:
    """An error as the last event of a stream."""
    return encode_event(encode_error(message, type, None, code))


def _is_torn(event: Event) -> bool:
    """Whether an unterminated event is half of one."""
    return (
        event.data is not None
        and event.data.strip() not in (b"", b"[DONE]")
        and event.name != b"error"
        and read_body(event.data) is None
    )


def _says_only_error(data: bytes, found: Body) -> bool:
    """Whether an event without choices is an error that does not call itself one: `{"message": ...}` and its kin."""
    return found.choices is None and found.usage is ABSENT and error_fields(value_of(data)) is not None


def _only_usage(found: Body) -> bool:
    return not found.choices and found.usage is not ABSENT and bytes(found.usage) != b"null"


def _is_error(found: Body) -> bool:
    return (found.error is not ABSENT and bytes(found.error) not in FALSY) or (
        found.object is not ABSENT and bytes(found.object) == b'"error"'
    )


def _with_alias(data: bytes, found: Body, admitted: Admitted) -> bytes:
    """`data` with its top-level `model` replaced in place; the same object where there is nothing to do."""
    model, alias = bytes(found.model), admitted.alias_json
    if model in (b"null", alias):
        return data
    if data.count(b'"model"') == 1:
        # One such word in the whole text: if the value follows it, it is the one the decoder found at the top level.
        for gap in (b'"model":', b'"model": '):
            if gap + model in data:
                return data.replace(gap + model, gap + alias, 1)
    fields = split_or_none(data)
    if fields is None:
        return data
    fields["model"] = Raw(alias)
    return _encode(fields)
