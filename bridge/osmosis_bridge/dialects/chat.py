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

import json
from typing import Any, cast

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted, Outcome, Status
from osmosis_bridge.errors import BridgeError, UpstreamFailed, encode_error
from osmosis_bridge.provider_errors import in_band_failure, read_failure
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event, EventSplitter, EventTooLarge, encode_event
from osmosis_bridge.usage import read_usage

_ABSENT = Raw(b"null")
_FALSY = frozenset({b"null", b"false", b'""', b"{}", b"[]", b"0"})
_FINISH_LIMIT = 100
_TEXT_SHOWN = 2000


class _Choice(msgspec.Struct, gc=False):
    index: Raw = _ABSENT
    finish_reason: Raw = _ABSENT
    usage: Raw = _ABSENT


class _Body(msgspec.Struct, gc=False):
    """The few fields that are read, of a reply or of a chunk; each as its text."""

    model: Raw | None = None
    choices: list[_Choice] | None = None
    usage: Raw = _ABSENT
    error: Raw = _ABSENT
    object: Raw = _ABSENT
    x_groq: Raw = _ABSENT


_read_body = msgspec.json.Decoder(_Body).decode
_split = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


class Reading:
    """What has been read of one completion so far: usage, finish reasons, which choices are still open."""

    __slots__ = ("_choice_usage", "_finished", "_seen", "_usage", "_x_groq", "erred")

    def __init__(self) -> None:
        self._usage = self._choice_usage = self._x_groq = b"null"
        self._seen: set[bytes] = set()
        self._finished: dict[bytes, str] = {}
        self.erred = False

    def take(self, body: _Body) -> None:
        """Read one reply or chunk."""
        usage = bytes(body.usage)
        if usage != b"null":
            self._usage = usage
        if body.x_groq is not _ABSENT:
            self._x_groq = bytes(body.x_groq)
        for choice in body.choices or ():
            self._take_choice(choice)

    def _take_choice(self, choice: _Choice) -> None:
        index = bytes(choice.index)
        if index == b"null":
            index = b"0"
        self._seen.add(index)
        finish = bytes(choice.finish_reason)
        if finish not in (b"null", b'""'):
            reason = _text(finish)[:_FINISH_LIMIT]
            self._finished[index] = reason
            self.erred = self.erred or reason == "error"
        if choice.usage is not _ABSENT:
            self._choice_usage = bytes(choice.usage)

    @property
    def complete(self) -> bool:
        """Whether every choice that was seen has a finish reason, and at least one was seen."""
        return bool(self._finished) and self._seen <= self._finished.keys()

    def outcome(self, status: Status, http_status: int | None, error_code: str | None = None) -> Outcome:
        """The end of the call, with the usage the provider gave, if it gave any."""
        usage, cost = read_usage(self._usage)
        if usage is None:
            for raw in (self._choice_usage, _member(self._x_groq, "usage")):
                usage, _ = read_usage(raw)
                if usage is not None:
                    break
        return Outcome(
            status=status,
            http_status=http_status,
            error_code=error_code,
            finish_reasons=tuple(self._finished.values()),
            usage=usage,
            usage_source="missing" if usage is None else "provider",
            cost_usd=cost,
        )


def read_reply(body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
    """A plain reply that came with HTTP 2xx: what is passed on, and how the call ended.

    Raises `UpstreamFailed` where the body is an error or no completion at all.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    found = _read(body)
    if found is None:
        failure = read_failure(502, body, redactor)
        failure.code = "invalid_upstream_reply"
        raise failure
    if _is_error(found):
        raise in_band_failure(_loads(body), redactor)
    if found.choices is None:
        failure = in_band_failure(_loads(body), redactor)
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
            if event.data is not None and event.data.strip() != b"[DONE]" and _read(event.data) is None:
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
        found = _read(data)
        if found is None or _is_error(found) or event.name == b"error":
            self._take_error(data, event, found)
            return b""
        self.reading.take(found)
        if not self._admitted.usage_asked and _only_usage(found):
            return b""
        self.started = True
        frame = self._redactor.scrub(self._frame(event, data, found))
        if self.reading.erred:
            self.fail(
                UpstreamFailed("the provider ended the answer with an error", code="finish_reason_error"),
            )
        return frame

    def _take_done(self, event: Event) -> bytes:
        if self.reading.complete:
            self.ended = True
            self.last = event.raw
        else:
            self._fail_unfinished("the provider's stream ended without a finish reason")
        return b""

    def _fail_unfinished(self, message: str) -> None:
        self.fail(UpstreamFailed(message, code="upstream_truncated"), "truncated")

    def _take_error(self, data: bytes, event: Event, found: _Body | None) -> None:
        if found is None and event.name != b"error":
            shown = data[:_TEXT_SHOWN].decode("utf-8", "replace")
            message = self._redactor.message(f"the provider sent an event that is not a JSON object: {shown}")
            self.fail(UpstreamFailed(message, code="invalid_upstream_event"))
            return
        failure = in_band_failure(_loads(data), self._redactor)
        if found is not None:
            self.reading.take(found)
            self.last = encode_event(self._error_frame(data, failure))
        self.fail(failure)

    def _error_frame(self, data: bytes, failure: UpstreamFailed) -> bytes:
        """The provider's own event with its error cleaned and its other fields kept, where it has both."""
        body = failure.body()
        fields = _split_or_none(data)
        if fields is None or "error" not in fields or "choices" not in fields:
            return body
        fields["error"] = _split(body)["error"]
        if "model" in fields:
            fields["model"] = Raw(self._admitted.alias_json)
        return self._redactor.scrub(_encode(fields))

    def _frame(self, event: Event, data: bytes, found: _Body) -> bytes:
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


def _read(data: bytes) -> _Body | None:
    """The fields that matter, None where `data` is not a JSON object."""
    try:
        return _read_body(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    # Odd types, or a lone surrogate, which JSON allows and msgspec does not: the slow and tolerant way.
    found = _loads(data)
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, Any]", found)
    choices = fields.get("choices")
    return _Body(
        model=_raw(fields["model"]) if "model" in fields else None,
        choices=_choices(cast("list[object]", choices)) if isinstance(choices, list) else None,
        usage=_raw(fields.get("usage")),
        error=_raw(fields.get("error")),
        object=_raw(fields.get("object")),
        x_groq=_raw(fields.get("x_groq")),
    )


def _choices(items: list[object]) -> list[_Choice]:
    found = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
    return [
        _Choice(*(_raw(choice.get(name)) for name in ("index", "finish_reason", "usage"))) for choice in found
    ]


def _raw(value: object) -> Raw:
    return _ABSENT if value is None else Raw(json.dumps(value).encode())


def _loads(data: bytes) -> object:
    """The value of a JSON text, or the text itself where it is not JSON."""
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _only_usage(found: _Body) -> bool:
    return not found.choices and found.usage is not _ABSENT and bytes(found.usage) != b"null"


def _is_error(found: _Body) -> bool:
    return (found.error is not _ABSENT and bytes(found.error) not in _FALSY) or (
        found.object is not _ABSENT and bytes(found.object) == b'"error"'
    )


def _with_alias(data: bytes, found: _Body, admitted: Admitted) -> bytes:
    """`data` with its top-level `model` replaced in place; the same object where there is nothing to do."""
    if found.model is None:
        return data
    model, alias = bytes(found.model), admitted.alias_json
    if model == alias:
        return data
    if data.count(b'"model"') == 1:
        # One such word in the whole text: if the value follows it, it is the one the decoder found at the top level.
        for gap in (b'"model":', b'"model": '):
            if gap + model in data:
                return data.replace(gap + model, gap + alias, 1)
    fields = _split_or_none(data)
    if fields is None:
        return data
    fields["model"] = Raw(alias)
    return _encode(fields)


def _split_or_none(data: bytes) -> dict[str, Raw] | None:
    try:
        return _split(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _member(raw: bytes, name: str) -> bytes:
    fields = _split_or_none(raw) if raw[:1] == b"{" else None
    return bytes(fields[name]) if fields and name in fields else b"null"


def _text(raw: bytes) -> str:
    """A JSON string's value, or the text of anything else."""
    try:
        value: object = json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
    text = value if isinstance(value, str) else raw.decode("utf-8", "replace")
    # A lone surrogate has no UTF-8, and the record is UTF-8.
    return text.encode("utf-8", "replace").decode()
