"""What is read of an OpenAI chat completion, whole or in chunks: the few fields that the bridge must know.

Everything else stays the text it came as. Odd types never raise: what cannot be read is unknown. Knows no framing, no
transport and no clock.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Outcome, Status
from osmosis_bridge.usage import OrdinaryUsage, read_usage

ABSENT = Raw(b"null")
FALSY = frozenset({b"null", b"false", b'""', b"{}", b"[]", b"0"})
_FINISH_LIMIT = 100
_LOOKS = 8
"""Chunks that are asked for what answers; some streams begin with an empty name."""


class Choice(msgspec.Struct, gc=False):
    """The fields read of one choice; each as its text."""

    index: Raw = ABSENT
    finish_reason: Raw = ABSENT
    usage: Raw = ABSENT
    error: Raw = ABSENT


class Body(msgspec.Struct, gc=False):
    """The few fields that are read, of a reply or of a chunk; each as its text."""

    model: Raw = ABSENT
    choices: list[Choice] | None = None
    usage: Raw = ABSENT
    error: Raw = ABSENT
    object: Raw = ABSENT
    x_groq: Raw = ABSENT


class NamedBody(Body, gc=False):
    """The same with what answered, which is read of a whole reply and of the first chunks only."""

    system_fingerprint: Raw = ABSENT


class _UsualChoice(msgspec.Struct, gc=False):
    finish_reason: Annotated[str, msgspec.Meta(min_length=1, max_length=_FINISH_LIMIT)]
    index: int = 0
    usage: None = None
    error: None = None


class _UsualReply(msgspec.Struct, gc=False):
    """A plain reply as OpenAI describes it, and nothing else that is read."""

    model: Annotated[str, msgspec.Meta(min_length=1)]
    choices: Annotated[list[_UsualChoice], msgspec.Meta(min_length=1)]
    usage: OrdinaryUsage
    object: Literal["chat.completion", "text_completion"]
    error: None = None
    x_groq: None = None
    system_fingerprint: str | None = None


_decode_usual = msgspec.json.Decoder(_UsualReply).decode
_decode = msgspec.json.Decoder(Body).decode
_decode_named = msgspec.json.Decoder(NamedBody).decode
_split = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


class Reading:
    """What has been read of one completion so far: usage, finish reasons, which choices are still open."""

    __slots__ = (
        "_choice_usage",
        "_fingerprint",
        "_finished",
        "_looks",
        "_seen",
        "_served",
        "_usage",
        "_x_groq",
        "choice_error",
        "erred",
    )  # fmt: skip

    def __init__(self) -> None:
        self._usage = self._choice_usage = self._x_groq = b"null"
        self._seen: set[bytes] = set()
        self._finished: dict[bytes, str] = {}
        self._served: str | None = None
        self._fingerprint: str | None = None
        self._looks = _LOOKS
        self.erred = False
        self.choice_error = b"null"

    def take(self, body: Body) -> None:
        """Read one reply or chunk."""
        usage = bytes(body.usage)
        if usage != b"null":
            self._usage = usage
        if body.x_groq is not ABSENT:
            self._x_groq = bytes(body.x_groq)
        for choice in body.choices or ():
            self._take_choice(choice)

    def name(self, body: NamedBody) -> None:
        """Read what answered."""
        self._served = said_name(bytes(body.model))
        self._fingerprint = said_name(bytes(body.system_fingerprint))

    def look(self, chunk: bytes) -> None:
        """Read what answered of the first chunk that says it, if it is among the first few."""
        if self._looks and (named := read_named(chunk)) is not None:
            self.name(named)
            self._looks = 0 if self._served is not None else self._looks - 1

    def pass_by(self) -> None:
        """A chunk came that says nothing which an earlier one did not: it is one of the first few all the same."""
        if self._looks:
            self._looks -= 1

    def _take_choice(self, choice: Choice) -> None:
        index = bytes(choice.index)
        if index == b"null":
            index = b"0"
        self._seen.add(index)
        finish = bytes(choice.finish_reason)
        if finish not in (b"null", b'""'):
            reason = text_of(finish)[:_FINISH_LIMIT]
            self._finished[index] = reason
            self.erred = self.erred or reason == "error"
        if choice.usage is not ABSENT:
            self._choice_usage = bytes(choice.usage)
        if choice.error is not ABSENT and bytes(choice.error) not in FALSY:
            self.choice_error = bytes(choice.error)
            self.erred = True

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
            served_model=self._served,
            system_fingerprint=self._fingerprint,
        )


def usual_outcome(body: bytes) -> tuple[bytes, Outcome] | None:
    """The `model` of a plain reply as JSON text, and how the call ended; None where it is not quite as usual.

    The short way of what `Reading` finds out of any reply.
    """
    try:
        found = _decode_usual(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    reasons = tuple({choice.index: choice.finish_reason for choice in found.choices}.values())
    if "error" in reasons:
        return None
    outcome = Outcome(
        status="ok",
        http_status=200,
        finish_reasons=reasons,
        usage=found.usage.counts(),
        usage_source="provider",
        served_model=found.model,
        system_fingerprint=found.system_fingerprint or None,
    )
    return _encode(found.model), outcome


def read_body(data: bytes) -> Body | None:
    """The fields that matter, None where `data` is not a JSON object."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _read_any(data)


def read_named(data: bytes) -> NamedBody | None:
    """The same with what answered."""
    try:
        return _decode_named(data)
    except (msgspec.DecodeError, RecursionError):
        return _read_any(data)


def _read_any(data: bytes) -> NamedBody | None:
    # Odd types, or a lone surrogate, which JSON allows and msgspec does not: the slow and tolerant way.
    found = value_of(data)
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, Any]", found)
    choices = fields.get("choices")
    return NamedBody(
        model=Raw(json.dumps(fields["model"]).encode()) if "model" in fields else ABSENT,
        choices=_choices(cast("list[object]", choices)) if isinstance(choices, list) else None,
        usage=_raw(fields.get("usage")),
        error=_raw(fields.get("error")),
        object=_raw(fields.get("object")),
        x_groq=_raw(fields.get("x_groq")),
        system_fingerprint=_raw(fields.get("system_fingerprint")),
    )


def _choices(items: list[object]) -> list[Choice]:
    found = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
    return [
        Choice(*(_raw(choice.get(name)) for name in ("index", "finish_reason", "usage", "error")))
        for choice in found
    ]


def _raw(value: object) -> Raw:
    return ABSENT if value is None else Raw(json.dumps(value).encode())


def value_of(data: bytes) -> object:
    """The value of a JSON text, or the text itself where it is not JSON."""
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def split_or_none(data: bytes) -> dict[str, Raw] | None:
    """The top level of a JSON object with each value as its text, None where it is none."""
    try:
        return _split(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _member(raw: bytes, name: str) -> bytes:
    fields = split_or_none(raw) if raw[:1] == b"{" else None
    return bytes(fields[name]) if fields and name in fields else b"null"


def said_name(raw: bytes) -> str | None:
    """What a JSON text calls something: None where it is empty or no string."""
    return (text_of(raw) or None) if raw[:1] == b'"' else None


def text_of(raw: bytes) -> str:
    """A JSON string's value, or the text of anything else."""
    if raw[:1] == b'"' and b"\\" not in raw:
        return raw[1:-1].decode("utf-8", "replace")
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        return raw.decode("utf-8", "replace")
    text = value if isinstance(value, str) else raw.decode("utf-8", "replace")
    # A lone surrogate has no UTF-8, and the record is UTF-8.
    return text.encode("utf-8", "replace").decode()
