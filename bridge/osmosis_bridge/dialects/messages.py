"""Anthropic Messages on the wire lane: what is relayed of a reply, and what is read from it.

Rules for whoever edits this file:

- a reply and its events are passed on as they came, only the message's `model` becomes the client's alias;
- a stream is complete with `message_stop` after a stop reason, and with nothing else;
- usage comes in parts, at the start and with each delta; of each count the last one stands;
- `input_tokens` leaves the cached ones out, so that the prompt is input + cache reads + cache writes.

Knows no transport and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted, Outcome, Status
from osmosis_bridge.dialects.alias import with_alias, with_inner_alias
from osmosis_bridge.dialects.chat_body import ABSENT, FALSY, text_of, value_of
from osmosis_bridge.dialects.dialect import Dialect, Headers
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.policy import Envelope
from osmosis_bridge.provider_errors import in_band_failure, read_failure
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event, with_data
from osmosis_bridge.usage import read_messages_usage

VERSION = b"2023-06-01"
"""The version of Anthropic's API that a client which names none means."""

_PASSED = (b"anthropic-version", b"anthropic-beta")
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_encode = msgspec.json.Encoder().encode


class _Message(msgspec.Struct, gc=False):
    model: Raw = ABSENT
    type: Raw = ABSENT
    content: Raw = ABSENT
    stop_reason: Raw = ABSENT
    usage: Raw = ABSENT
    error: Raw = ABSENT


class _Event(msgspec.Struct, gc=False):
    type: Raw = ABSENT
    message: Raw = ABSENT
    delta: Raw = ABSENT
    usage: Raw = ABSENT
    error: Raw = ABSENT


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class MessageReading:
    """What has been read of one message: its usage so far, and why it stopped."""

    __slots__ = ("_stop", "_usage")

    def __init__(self) -> None:
        self._usage: list[bytes] = []
        self._stop: str | None = None

    def take(self, stop_reason: bytes, usage: bytes) -> None:
        """Read a stop reason and a part of the usage, as JSON texts; null says nothing."""
        if stop_reason != b"null":
            self._stop = text_of(stop_reason)
        if usage != b"null":
            self._usage.append(usage)

    @property
    def stopped(self) -> bool:
        """Whether there is a stop reason."""
        return self._stop is not None

    def outcome(self, status: Status, http_status: int | None, error_code: str | None = None) -> Outcome:
        """The end of the call, with the usage the provider gave, if it gave any."""
        usage = read_messages_usage(self._usage)
        return Outcome(
            status=status,
            http_status=http_status,
            error_code=error_code,
            finish_reasons=() if self._stop is None else (self._stop,),
            usage=usage,
            usage_source="missing" if usage is None else "provider",
        )


class MessagesDialect(Dialect):
    """`/messages`."""

    def read_reply(self, body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
        """The message, its `model` the client's own name."""
        found = _message(body)
        if found is None:
            failure = read_failure(502, body, redactor)
            failure.code = "invalid_upstream_reply"
            raise failure
        if bytes(found.error) not in FALSY or found.content is ABSENT:
            raise in_band_failure(value_of(body), redactor)
        reading = MessageReading()
        reading.take(bytes(found.stop_reason), bytes(found.usage))
        passed_on = with_alias(body, bytes(found.model), admitted.alias_json)
        return redactor.scrub(passed_on), reading.outcome("ok", 200)

    def open_stream(self, admitted: Admitted, redactor: Redactor) -> Stream:
        """A stream of typed events."""
        return MessagesStream(admitted, redactor)

    def error_body(self, error: BridgeError) -> bytes:
        """Anthropic's shape: `{"type": "error", "error": {"type", "message"}}`."""
        return _error(error)

    def error_event(self, error: BridgeError) -> bytes:
        """The same as an event."""
        return b"event: error\ndata: " + _error(error) + b"\n\n"

    def headers(self, key: str | None, client: Mapping[bytes, bytes]) -> Headers:
        """Anthropic's key header beside the usual bearer, and the API version and betas the client named."""
        passed = [(name, client[name]) for name in _PASSED if name in client]
        if _PASSED[0] not in client:
            passed.append((_PASSED[0], VERSION))
        if key is not None:
            passed.append((b"x-api-key", key.encode()))
        return tuple(passed)


class MessagesStream(Stream):
    """One stream of `message_*` and `content_block_*` events."""

    __slots__ = ("_complete", "_reading")

    def __init__(self, admitted: Admitted, redactor: Redactor) -> None:
        super().__init__(admitted, redactor)
        self._reading = MessageReading()
        self._complete = False

    @property
    def reading(self) -> MessageReading:
        """What has been read so far."""
        return self._reading

    @property
    def complete(self) -> bool:
        """Whether the message has stopped."""
        return self._complete

    def _take(self, event: Event) -> bytes:
        data = event.data
        if data is None or not data.strip():
            return self._redactor.scrub(event.raw) if self.started and data is None else b""
        found = _event(data)
        if found is None and event.name != b"error":
            self._fail_invalid(data)
            return b""
        if found is None or event.name == b"error" or bytes(found.error) not in FALSY:
            self.fail(in_band_failure(value_of(data), self._redactor))
            return b""
        kind = bytes(found.type)
        if kind == b'"ping"' and not self.started:
            return b""
        self._read(kind, found)
        if kind == b'"message_stop"':
            return self._take_stop(event)
        self.started = True
        renamed = with_inner_alias(data, "message", self._admitted.alias_json)
        return self._redactor.scrub(event.raw if renamed is data else with_data(event, renamed))

    def _read(self, kind: bytes, found: _Event) -> None:
        if kind == b'"message_start"':
            message = _message(bytes(found.message))
            if message is not None:
                self._reading.take(bytes(message.stop_reason), bytes(message.usage))
        elif kind == b'"message_delta"':
            delta = _message(bytes(found.delta))
            self._reading.take(b"null" if delta is None else bytes(delta.stop_reason), bytes(found.usage))

    def _take_stop(self, event: Event) -> bytes:
        if not self._reading.stopped:
            self._fail_unfinished("the provider's stream ended without a stop reason")
            return b""
        self._complete = self.ended = True
        self.last = event.raw
        return b""

    def _is_torn(self, event: Event) -> bool:
        data = (event.data or b"").strip()
        return bool(data) and event.name != b"error" and _event(data) is None

    def _error_event(self, failure: BridgeError) -> bytes:
        return MESSAGES_DIALECT.error_event(failure)


def _error(error: BridgeError) -> bytes:
    own = isinstance(error, UpstreamFailed) and error.type not in ("upstream_error", "server_error")
    kind = error.type if own else _TYPES.get(error.status, "api_error" if error.status >= 500 else error.type)
    message = msgspec.json.decode(error.body())["error"]["message"]
    return _encode({"type": "error", "error": {"type": kind, "message": message}})


def _message(raw: bytes) -> _Message | None:
    try:
        return _decode_message(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _event(data: bytes) -> _Event | None:
    try:
        return _decode_event(data)
    except (msgspec.DecodeError, RecursionError):
        return None


MESSAGES_DIALECT = MessagesDialect("messages", "/messages", Envelope("messages", listed=True))
