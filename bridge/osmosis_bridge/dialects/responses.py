"""OpenAI Responses on the wire lane: what is relayed of a reply, and what is read from it.

Rules for whoever edits this file:

- a reply and its events are passed on as they came, only the response's `model` becomes the client's alias;
- a stream is complete with `response.completed` or `response.incomplete`, and with nothing else;
- a stream that ends otherwise gets an `error` event, which also carries the `error` object that makes OpenAI's client
  raise.

Knows no transport and no clock.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted, Outcome, Status
from osmosis_bridge.dialects.alias import with_alias, with_inner_alias
from osmosis_bridge.dialects.chat_body import ABSENT, FALSY, text_of, value_of
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.errors import BridgeError
from osmosis_bridge.policy import Envelope
from osmosis_bridge.provider_errors import in_band_failure, read_failure
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event, with_data
from osmosis_bridge.usage import read_responses_usage

_COMPLETE = frozenset({b'"response.completed"', b'"response.incomplete"'})
_encode = msgspec.json.Encoder().encode


class _Reason(msgspec.Struct, gc=False):
    reason: Raw = ABSENT


class _Response(msgspec.Struct, gc=False):
    model: Raw = ABSENT
    status: Raw = ABSENT
    output: Raw = ABSENT
    error: Raw = ABSENT
    usage: Raw = ABSENT
    incomplete_details: _Reason | None = None


class _Event(msgspec.Struct, gc=False):
    type: Raw = ABSENT
    response: Raw = ABSENT
    error: Raw = ABSENT


_decode_response = msgspec.json.Decoder(_Response).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class ResponseReading:
    """What has been read of one response: its usage and how it ended."""

    __slots__ = ("_finish", "_usage")

    def __init__(self) -> None:
        self._usage = b"null"
        self._finish: str | None = None

    def take(self, response: _Response) -> None:
        """Read a response, as far as it has come."""
        if bytes(response.usage) != b"null":
            self._usage = bytes(response.usage)
        if response.incomplete_details is not None and bytes(response.incomplete_details.reason) != b"null":
            self._finish = text_of(bytes(response.incomplete_details.reason))
        elif bytes(response.status) != b"null":
            self._finish = text_of(bytes(response.status))

    def outcome(self, status: Status, http_status: int | None, error_code: str | None = None) -> Outcome:
        """The end of the call, with the usage the provider gave, if it gave any."""
        usage, cost = read_responses_usage(self._usage)
        return Outcome(
            status=status,
            http_status=http_status,
            error_code=error_code,
            finish_reasons=() if self._finish is None else (self._finish,),
            usage=usage,
            usage_source="missing" if usage is None else "provider",
            cost_usd=cost,
        )


class ResponsesDialect(Dialect):
    """`/responses`."""

    def read_reply(self, body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
        """The response, its `model` the client's own name; one that failed is an error."""
        found = _response(body)
        if found is None:
            failure = read_failure(502, body, redactor)
            failure.code = "invalid_upstream_reply"
            raise failure
        if bytes(found.error) not in FALSY or found.output is ABSENT:
            raise in_band_failure(value_of(body), redactor)
        reading = ResponseReading()
        reading.take(found)
        passed_on = with_alias(body, bytes(found.model), admitted.alias_json)
        return redactor.scrub(passed_on), reading.outcome("ok", 200)

    def error_event(self, error: BridgeError) -> bytes:
        """A typed `error` event."""
        return _error_event(error, 0)

    def open_stream(self, admitted: Admitted, redactor: Redactor) -> Stream:
        """A stream of typed events."""
        return ResponsesStream(admitted, redactor)


class ResponsesStream(Stream):
    """One stream of `response.*` events."""

    __slots__ = ("_complete", "_events", "_reading")

    def __init__(self, admitted: Admitted, redactor: Redactor) -> None:
        super().__init__(admitted, redactor)
        self._reading = ResponseReading()
        self._complete = False
        self._events = 0

    @property
    def reading(self) -> ResponseReading:
        """What has been read so far."""
        return self._reading

    @property
    def complete(self) -> bool:
        """Whether the response said that it is complete."""
        return self._complete

    def _take(self, event: Event) -> bytes:
        data = event.data
        if data is None or not data.strip():
            return self._redactor.scrub(event.raw) if self.started and data is None else b""
        if data.strip() == b"[DONE]":
            self._fail_unfinished("the provider's stream ended before its response was complete")
            return b""
        found = _event(data)
        if found is None and event.name != b"error":
            self._fail_invalid(data)
            return b""
        kind = b'"error"' if found is None or event.name == b"error" else bytes(found.type)
        self._events += 1
        if found is not None and found.response is not ABSENT:
            self._take_response(bytes(found.response))
        if kind == b'"error"' or (found is not None and bytes(found.error) not in FALSY):
            self.fail(in_band_failure(value_of(data), self._redactor))
            return b""
        frame = self._frame(event, data)
        if kind == b'"response.failed"':
            return self._take_failed(frame, found)
        if kind in _COMPLETE:
            self._complete = self.ended = self.started = True
            self.last = frame
            return b""
        self.started = True
        return frame

    def _take_response(self, raw: bytes) -> None:
        response = _response(raw)
        if response is not None:
            self._reading.take(response)

    def _take_failed(self, frame: bytes, found: _Event | None) -> bytes:
        """A response that failed: told by its own event to a client that has seen others, else by a status."""
        response = None if found is None else _response(bytes(found.response))
        failure = in_band_failure(
            {"error": value_of(bytes(response.error))} if response is not None else {}, self._redactor
        )
        if self.started:
            self.last = self._redactor.scrub(frame)
        self.fail(failure)
        return b""

    def _frame(self, event: Event, data: bytes) -> bytes:
        renamed = with_inner_alias(data, "response", self._admitted.alias_json)
        return self._redactor.scrub(event.raw if renamed is data else with_data(event, renamed))

    def _is_torn(self, event: Event) -> bool:
        data = (event.data or b"").strip()
        return bool(data) and event.name != b"error" and _event(data) is None

    def _error_event(self, failure: BridgeError) -> bytes:
        return _error_event(failure, self._events)


def _error_event(failure: BridgeError, number: int) -> bytes:
    error = msgspec.json.decode(failure.body())["error"]
    said = {"type": "error", **{name: error[name] for name in ("code", "message", "param")}}
    return b"event: error\ndata: " + _encode({**said, "sequence_number": number, "error": error}) + b"\n\n"


def _response(raw: bytes) -> _Response | None:
    try:
        return _decode_response(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _event(data: bytes) -> _Event | None:
    try:
        return _decode_event(data)
    except (msgspec.DecodeError, RecursionError):
        return None


RESPONSES_DIALECT = ResponsesDialect("responses", "/responses", Envelope("input", required=False))
