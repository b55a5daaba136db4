"""OpenAI Responses on the wire lane: what is relayed of a reply, and what is read from it.

Rules for whoever edits this file:

- a reply and its events are passed on as they came, only the response's `model` becomes the client's alias;
- a stream is complete with `response.completed` or `response.incomplete`, and with nothing else;
- a stream that ends otherwise gets an `error` event, which also carries the `error` object that makes OpenAI's client
  raise; a `response.failed` is passed on before it, its message cleaned.

Knows no transport and no clock.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted, Outcome, Status
from osmosis_bridge.dialects.alias import with_alias
from osmosis_bridge.dialects.chat_body import ABSENT, FALSY, said_name, value_of
from osmosis_bridge.dialects.dialect import AnswerFailed, Dialect
from osmosis_bridge.dialects.members import FieldReader, replaced
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.dialects.typed import BOM, TypedEvent, TypedStream, no_answer, told_failure, word_of
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.policy import Envelope
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event
from osmosis_bridge.usage import read_responses_usage

_COMPLETE = frozenset({"response.completed", "response.incomplete"})
_OPEN = frozenset({None, "queued", "in_progress"})
_STATUSES = {
    "server_error": 500,
    "vector_store_timeout": 504,
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "insufficient_quota"), 429),
    **dict.fromkeys(
        (
            "invalid_request_error", "invalid_prompt", "context_length_exceeded", "data_residency_mismatch",
            "bio_policy", "misalignment_policy_violation", "invalid_image", "invalid_image_format",
            "invalid_base64_image", "invalid_image_url", "invalid_image_mode", "image_too_large", "image_too_small",
            "image_parse_error", "image_content_policy_violation", "image_file_too_large", "image_file_not_found",
            "unsupported_image_media_type", "empty_image_file", "failed_to_download_image",
        ),
        400,
    ),
}  # fmt: skip
"""What the codes of a response's own error stand for; it came under HTTP 200."""
_LONGEST_NUMBER = 15
_encode = msgspec.json.Encoder().encode
_WANTED = "response (no list `output`) from /responses"


class Response(msgspec.Struct, gc=False):
    """The few fields that are read of a response; each as its text."""

    model: Raw = ABSENT
    status: Raw = ABSENT
    output: Raw = ABSENT
    error: Raw = ABSENT
    usage: Raw = ABSENT
    incomplete_details: Raw = ABSENT


class _Details(msgspec.Struct, gc=False):
    reason: Raw = ABSENT


_read_response = FieldReader(Response)
_read_details = FieldReader(_Details)


class ResponseReading:
    """What has been read of one response: its usage and how it ended."""

    __slots__ = ("_finish", "_served", "_usage")

    def __init__(self) -> None:
        self._served: str | None = None
        self._usage = b"null"
        self._finish: str | None = None

    def take(self, response: Response) -> None:
        """Read a response, as far as it has come."""
        self._served = self._served or said_name(bytes(response.model))
        if bytes(response.usage) != b"null":
            self._usage = bytes(response.usage)
        details = bytes(response.incomplete_details)
        found = None if details == b"null" else _read_details(details)
        finish = (None if found is None else word_of(bytes(found.reason))) or word_of(bytes(response.status))
        if finish not in _OPEN:
            self._finish = finish

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
            served_model=self._served,
        )


class ResponsesDialect(Dialect):
    """`/responses`."""

    def read_reply(self, body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
        """The response, its `model` the client's own name; one that failed is an error."""
        body = body.removeprefix(BOM)
        found = _read_response(body)
        if found is None:
            raise no_answer(body, redactor, _STATUSES, _WANTED)
        reading = ResponseReading()
        reading.take(found)
        answers = bytes(found.output)[:1] == b"["
        if not answers or _failed(found):
            failure = (
                _failure_of(found, redactor) if answers else no_answer(body, redactor, _STATUSES, _WANTED)
            )
            raise AnswerFailed(failure, reading.outcome("upstream_error", None))
        passed_on = with_alias(body, bytes(found.model), admitted.alias_json)
        return redactor.scrub(passed_on), reading.outcome("ok", 200)

    def error_event(self, error: BridgeError) -> bytes:
        """A typed `error` event."""
        return _error_event(error, 0)

    def open_stream(self, admitted: Admitted, redactor: Redactor) -> Stream:
        """A stream of typed events."""
        return ResponsesStream(admitted, redactor)


class ResponsesStream(TypedStream):
    """One stream of `response.*` events."""

    __slots__ = ("_number", "_reading")

    def __init__(self, admitted: Admitted, redactor: Redactor) -> None:
        super().__init__(admitted, redactor)
        self._reading = ResponseReading()
        self._number = -1

    @property
    def reading(self) -> ResponseReading:
        """What has been read so far."""
        return self._reading

    def _take_typed(self, kind: str, event: Event, data: bytes, found: TypedEvent) -> bytes:
        number = bytes(found.sequence_number)
        known = number.isdigit() and len(number) <= _LONGEST_NUMBER
        self._number = int(number) if known else self._number + 1
        response = None if found.response is ABSENT else _read_response(bytes(found.response))
        if response is not None:
            self._reading.take(response)
            data = with_alias(data, bytes(response.model), self._admitted.alias_json, "response")
        if kind == "response.failed":
            self._take_failed(event, data, response or Response())
            return b""
        if kind in _COMPLETE and response is not None and _failed(response):
            self.fail(_failure_of(response, self._redactor))
            return b""
        frame = self._frame(event, data)
        if kind in _COMPLETE:
            return self._end_with(frame)
        self.started = True
        return frame

    def _take_failed(self, event: Event, data: bytes, response: Response) -> None:
        """A response that failed: told by its own event to a client that has seen others, else by a status."""
        failure = _failure_of(response, self._redactor)
        if self.started:
            told = {"code": failure.code or "server_error", "message": failure.message}
            cleaned = replaced(data, ("response", "error"), _encode(told))
            self.last = self._frame(event, cleaned) + self._error_event(failure)
        self.fail(failure)

    def _failure(self, data: bytes) -> UpstreamFailed:
        return told_failure(value_of(data), self._redactor, _STATUSES)

    def _error_event(self, failure: BridgeError) -> bytes:
        return _error_event(failure, self._number + 1)


def _failed(response: Response) -> bool:
    return bytes(response.error) not in FALSY or bytes(response.status) == b'"failed"'


def _failure_of(response: Response, redactor: Redactor) -> UpstreamFailed:
    error = bytes(response.error)
    if error in FALSY:
        error = b'"the provider says that the response failed, and not why"'
    return told_failure({"error": value_of(error)}, redactor, _STATUSES)


def _error_event(failure: BridgeError, number: int) -> bytes:
    error = msgspec.json.decode(failure.body())["error"]
    said = {"type": "error", **{name: error[name] for name in ("code", "message", "param")}}
    return b"event: error\ndata: " + _encode({**said, "sequence_number": number, "error": error}) + b"\n\n"


RESPONSES_DIALECT = ResponsesDialect("responses", "/responses", Envelope("input", required=False))
