"""OpenAI chat completions on the wire lane: what is relayed of a reply, and what is read from it.

Rules for whoever edits this file:

- a reply is passed on as it came, only its `model` becomes the client's alias;
- `[DONE]` is passed on only after a finish reason was seen for every choice;
- no finish reason is mapped to another.

Knows no transport and no clock.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted, Outcome
from osmosis_bridge.dialects.alias import with_alias
from osmosis_bridge.dialects.chat_body import (
    ABSENT,
    FALSY,
    Body,
    Reading,
    read_body,
    read_named,
    split_or_none,
    usual_outcome,
    value_of,
)
from osmosis_bridge.dialects.dialect import AnswerFailed, Dialect
from osmosis_bridge.dialects.repeated import Repeated
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.policy import CHAT, Envelope
from osmosis_bridge.provider_errors import error_fields, in_band_failure, no_answer_of, no_json
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event, encode_event, with_data

_split = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode
# So many events in a row that no other one repeated, and it is not looked for any more.
_TRIES = 8


def read_reply(body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
    """A plain reply that came with HTTP 2xx: what is passed on, and how the call ended.

    Raises `UpstreamFailed` where the body is an error or no completion at all.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    model, outcome = usual_outcome(body) or _any_outcome(body, redactor)
    return redactor.scrub(with_alias(body, model, admitted.alias_json)), outcome


def _any_outcome(body: bytes, redactor: Redactor) -> tuple[bytes, Outcome]:
    found = read_named(body)
    if found is None:
        raise no_json(body, redactor)
    reading = Reading()
    reading.take(found)
    reading.name(found)
    if found.choices is None or is_error(found):
        failure = _no_completion(value_of(body), redactor)
        if not is_error(found):
            failure.code = failure.code or "invalid_upstream_reply"
        raise AnswerFailed(failure, reading.outcome("upstream_error", None))
    status, code = ("upstream_error", "finish_reason_error") if reading.erred else ("ok", None)
    return bytes(found.model), reading.outcome(status, 200, code)


def _no_completion(found: object, redactor: Redactor) -> UpstreamFailed:
    if error_fields(found) is None:
        return no_answer_of("completion (no list `choices`)", found, redactor)
    return in_band_failure(found, redactor)


class ChatDialect(Dialect):
    """Chat completions, and their elder form with `prompt` for `messages`: same replies, same streams."""

    def read_reply(self, body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
        """See `read_reply`."""
        return read_reply(body, admitted, redactor)

    def open_stream(self, admitted: Admitted, redactor: Redactor) -> Stream:
        """A stream of chunks."""
        return ChatStream(admitted, redactor)


class ChatStream(Stream):
    """One stream of chunks."""

    __slots__ = ("_reading", "_repeated", "_tries")

    def __init__(self, admitted: Admitted, redactor: Redactor) -> None:
        super().__init__(admitted, redactor)
        self._reading = Reading()
        self._repeated: Repeated | None = None
        self._tries = _TRIES

    def feed(self, piece: bytes) -> bytes:
        """What the client may have of `piece` now; most pieces are one event that repeats an earlier one."""
        if self._repeated is not None and self._splitter.between:
            out = self._again(self._repeated, piece)
            if out is not None:
                self._dropped_cr = False
                return out
        return super().feed(piece)

    @property
    def reading(self) -> Reading:
        """What has been read so far."""
        return self._reading

    @property
    def complete(self) -> bool:
        """Whether every choice that was seen has a finish reason, and at least one was seen."""
        return self._reading.complete

    def _error_event(self, failure: BridgeError) -> bytes:
        return encode_event(failure.body())

    def _is_torn(self, event: Event) -> bool:
        return (
            event.data is not None
            and event.data.strip() not in (b"", b"[DONE]")
            and event.name != b"error"
            and read_body(event.data) is None
        )

    def _take(self, event: Event) -> bytes:
        out = None if self._repeated is None else self._again(self._repeated, event.raw)
        return self._take_other(event) if out is None else out

    def _again(self, repeated: Repeated, raw: bytes) -> bytes | None:
        out = repeated.again(raw)
        if out is None:
            return None
        self._tries = _TRIES
        self._reading.pass_by()
        return self._redactor.scrub(out)

    def _take_other(self, event: Event) -> bytes:
        data = event.data
        if data is None:
            return self._redactor.scrub(event.raw) if self.started else b""
        if data == b"[DONE]" or data.strip() == b"[DONE]":
            return self._take_done(event)
        if not data.strip():
            # No client's JSON parser survives an empty event.
            return b""
        found = read_body(data)
        if found is None or is_error(found) or event.name == b"error" or _says_only_error(data, found):
            self._take_error(data, event, found)
            return b""
        self._reading.take(found)
        self._reading.look(data)
        if not self._admitted.usage_asked and _only_usage(found):
            return b""
        if self._reading.erred:
            return self._take_choice_error(event, data, found)
        self.started = True
        frame = self._frame(event, data, found)
        if self._tries and brings_text_alone(found):
            self._tries -= 1
            self._repeated = Repeated.of(event.raw, frame) if self._tries else None
        return self._redactor.scrub(frame)

    def _take_choice_error(self, event: Event, data: bytes, found: Body) -> bytes:
        """A choice that ended in an error: what came with it is passed on, unless it is the first event of all."""
        failure: BridgeError = UpstreamFailed(
            "the provider ended the answer with an error", code="finish_reason_error"
        )
        if self._reading.choice_error != b"null":
            failure = in_band_failure({"error": value_of(self._reading.choice_error)}, self._redactor)
        self.fail(failure)
        return self._redactor.scrub(self._frame(event, data, found)) if self.started else b""

    def _take_done(self, event: Event) -> bytes:
        if self._reading.complete:
            self.ended = True
            self.last = event.raw
        else:
            self._fail_unfinished("the provider's stream ended without a finish reason")
        return b""

    def _take_error(self, data: bytes, event: Event, found: Body | None) -> None:
        if found is None and event.name != b"error":
            self._fail_invalid(data)
            return
        failure = in_band_failure(value_of(data), self._redactor)
        if found is not None:
            self._reading.take(found)
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
        renamed = with_alias(data, bytes(found.model), self._admitted.alias_json)
        return event.raw if renamed is data else with_data(event, renamed)


def _says_only_error(data: bytes, found: Body) -> bool:
    """Whether an event without choices is an error that does not call itself one: `{"message": ...}` and its kin."""
    return found.choices is None and found.usage is ABSENT and error_fields(value_of(data)) is not None


def _only_usage(found: Body) -> bool:
    return not found.choices and found.usage is not ABSENT and bytes(found.usage) != b"null"


def is_error(found: Body) -> bool:
    """Whether a body or an event is an error by its own word."""
    return (found.error is not ABSENT and bytes(found.error) not in FALSY) or (
        found.object is not ABSENT and bytes(found.object) == b'"error"'
    )


def brings_text_alone(found: Body) -> bool:
    """Whether an event changes nothing of what is read of the answer: one choice that goes on, and no more."""
    choices = found.choices
    if choices is None or len(choices) != 1:
        return False
    choice = choices[0]
    return (
        (found.usage is ABSENT or bytes(found.usage) == b"null")
        and found.error is found.x_groq is choice.usage is choice.error is ABSENT
        and bytes(choice.finish_reason) == b"null"
    )


CHAT_DIALECT = ChatDialect("chat", "/chat/completions", CHAT)
COMPLETIONS_DIALECT = ChatDialect(
    "completions", "/completions", Envelope("prompt", required=False, usage_option=True)
)
