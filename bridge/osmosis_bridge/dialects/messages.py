"""Anthropic Messages on the wire lane: what is relayed of a reply, and what is read from it.

Rules for whoever edits this file:

- a reply and its events are passed on as they came, only the message's `model` becomes the client's alias;
- a stream is complete with `message_stop` after a stop reason, and with nothing else;
- usage comes in parts, at the start and with each delta, and is cumulative (`usage.MessagesUsage`);
- a ping before the first event is not passed on: what comes next may be an error, which then has its status.

Knows no transport and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted, Outcome, Status
from osmosis_bridge.client_headers import PASSED
from osmosis_bridge.dialects.alias import with_alias
from osmosis_bridge.dialects.chat_body import ABSENT, FALSY, said_name, value_of
from osmosis_bridge.dialects.dialect import AnswerFailed, Dialect, Headers
from osmosis_bridge.dialects.members import FieldReader
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.dialects.typed import BOM, TypedEvent, TypedStream, no_answer, told_failure, word_of
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.policy import Envelope
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event
from osmosis_bridge.usage import MessagesUsage

VERSION = b"2023-06-01"
"""The version of Anthropic's API that a client which names none means."""

_VERSION = b"anthropic-version"
_ANTHROPIC = "api.anthropic.com"
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
# The last of two stands: an overloaded provider is 529.
_STATUSES = {kind: status for status, kind in _TYPES.items()}
_UNSAID = frozenset({"upstream_error", "server_error"})
_encode = msgspec.json.Encoder().encode
_WANTED = "message (no list `content`) from /messages"


class Message(msgspec.Struct, gc=False):
    """The few fields that are read of a message or of what changes it; each as its text."""

    model: Raw = ABSENT
    content: Raw = ABSENT
    stop_reason: Raw = ABSENT
    usage: Raw = ABSENT
    error: Raw = ABSENT


_read_message = FieldReader(Message)


class MessageReading:
    """What has been read of one message: its usage so far, and why it stopped."""

    __slots__ = ("_served", "_stop", "_usage")

    def __init__(self) -> None:
        self._served: str | None = None
        self._usage = MessagesUsage()
        self._stop: str | None = None

    def take(self, stop_reason: bytes, usage: bytes, model: bytes = b"null") -> None:
        """Read a stop reason, a part of the usage and the model, as JSON texts; null says nothing."""
        self._served = self._served or said_name(model)
        self._stop = word_of(stop_reason) or self._stop
        if usage != b"null":
            self._usage.take(usage)

    @property
    def stopped(self) -> bool:
        """Whether there is a stop reason."""
        return self._stop is not None

    def outcome(self, status: Status, http_status: int | None, error_code: str | None = None) -> Outcome:
        """The end of the call, with the usage the provider gave, if it gave any."""
        usage, cost = self._usage.read()
        return Outcome(
            status=status,
            http_status=http_status,
            error_code=error_code,
            finish_reasons=() if self._stop is None else (self._stop,),
            usage=usage,
            usage_source="missing" if usage is None else "provider",
            cost_usd=cost,
            served_model=self._served,
        )


class MessagesDialect(Dialect):
    """`/messages`."""

    passed = PASSED | {_VERSION}
    passed_natively = frozenset({_VERSION, b"anthropic-beta"})

    def read_reply(self, body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
        """The message, its `model` the client's own name."""
        body = body.removeprefix(BOM)
        found = _read_message(body)
        if found is None:
            raise no_answer(body, redactor, _STATUSES, _WANTED)
        reading = MessageReading()
        reading.take(bytes(found.stop_reason), bytes(found.usage), bytes(found.model))
        if bytes(found.error) not in FALSY or bytes(found.content)[:1] != b"[":
            raise AnswerFailed(
                no_answer(body, redactor, _STATUSES, _WANTED), reading.outcome("upstream_error", None)
            )
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
        """Anthropic's key header beside the usual bearer, and an API version where the client named none."""
        version: Headers = () if _VERSION in client else ((_VERSION, VERSION),)
        return version if key is None else (*version, (b"x-api-key", key.encode()))

    def outgoing(self, usual: Headers, host: str) -> Headers:
        """Without the bearer for Anthropic itself, which takes a key there for a false token; others may want it."""
        return tuple(pair for pair in usual if pair[0] != b"authorization") if host == _ANTHROPIC else usual


class MessagesStream(TypedStream):
    """One stream of `message_*` and `content_block_*` events."""

    __slots__ = ("_reading",)

    def __init__(self, admitted: Admitted, redactor: Redactor) -> None:
        super().__init__(admitted, redactor)
        self._reading = MessageReading()

    @property
    def reading(self) -> MessageReading:
        """What has been read so far."""
        return self._reading

    def _take_typed(self, kind: str, event: Event, data: bytes, found: TypedEvent) -> bytes:
        if kind == "ping" and not self.started:
            return b""
        if kind == "message_stop":
            return self._take_stop(event, data)
        if kind == "message_start":
            message = _read_message(bytes(found.message)) or Message()
            self._reading.take(bytes(message.stop_reason), bytes(message.usage), bytes(message.model))
            data = with_alias(data, bytes(message.model), self._admitted.alias_json, "message")
        elif kind == "message_delta":
            delta = _read_message(bytes(found.delta)) or Message()
            self._reading.take(bytes(delta.stop_reason), bytes(found.usage))
        self.started = True
        return self._frame(event, data)

    def _take_stop(self, event: Event, data: bytes) -> bytes:
        if not self._reading.stopped:
            self._fail_unfinished("the provider's stream ended without a stop reason")
            return b""
        return self._end_with(self._frame(event, data))

    def _failure(self, data: bytes) -> UpstreamFailed:
        return told_failure(value_of(data), self._redactor, _STATUSES)

    def _error_event(self, failure: BridgeError) -> bytes:
        return MESSAGES_DIALECT.error_event(failure)


def _error(error: BridgeError) -> bytes:
    """An error in Anthropic's shape; its type is the provider's own word, where it said one, else its status's."""
    if isinstance(error, UpstreamFailed) and error.type not in _UNSAID:
        kind = error.type
    else:
        kind = _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    message = msgspec.json.decode(error.body())["error"]["message"]
    return _encode({"type": "error", "error": {"type": kind, "message": message}})


# Anthropic's clients add `/v1/messages` to a base URL, whatever it ends with.
MESSAGES_DIALECT = MessagesDialect(
    "messages", "/messages", Envelope("messages", listed=True), also_at=("/v1/messages",)
)
