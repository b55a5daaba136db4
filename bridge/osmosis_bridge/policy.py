"""What a caller may ask for: the decision on one request body, and the body that goes out.

The rules, in the order they are applied (CONTRACT: a call's fields):

0. a name that stands twice, at the top level, in `extra_body` or in `stream_options`, is refused by name;
1. a literal `extra_body` is merged into the top level shallowly; its values win;
2. the envelope belongs to the bridge: `model`, the dialect's content (`messages`, `input`, ...), `stream`, and
   `stream_options` where the dialect has it;
3. controls are stripped and named, or refused by name;
4. everything else goes out as the client wrote it.

Values are never parsed: each is kept as the text it came in, so that numbers, nulls, escapes and inner order survive.
Knows no provider and does no I/O.
"""

from __future__ import annotations

import json
import re
from typing import Literal

import msgspec
from msgspec import Raw

from osmosis_bridge.call import DEFAULT_ALIAS, Admitted
from osmosis_bridge.controls import controls_among
from osmosis_bridge.errors import Refused
from osmosis_bridge.fields import NamedTwice, split_fields

Controls = Literal["strip", "reject"]

_TRUE = Raw(b"true")
_NAMES_SHOWN = 20
_VALUE_SHOWN = 40
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

_encode = msgspec.json.Encoder().encode


class Envelope(msgspec.Struct, frozen=True):
    """The fields of a dialect that the bridge reads: which one holds the content, and how a stream is asked for.

    `content` is the content's field; it must be there if `required`, and a list if `listed`. `streams` says that the
    dialect has streams, `usage_option` that usage on a stream must be asked for by `stream_options.include_usage`;
    `names` follow from these.
    """

    content: str
    required: bool = True
    listed: bool = False
    streams: bool = True
    usage_option: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        stream = ("stream",) if self.streams else ()
        options = ("stream_options",) if self.usage_option else ()
        msgspec.structs.force_setattr(self, "names", ("model", self.content, *stream, *options))


CHAT = Envelope("messages", listed=True, usage_option=True)


class Policy(msgspec.Struct, frozen=True):
    """What the operator decided: the `model` text that goes out, and what is done with controls."""

    upstream_model: str
    controls: Controls = "strip"
    model_json: Raw = Raw()
    """The outgoing `model` as JSON; follows from the model."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "model_json", Raw(_encode(self.upstream_model)))


def admit(body: bytes, policy: Policy, envelope: Envelope = CHAT) -> Admitted:
    """Decide on one request of a dialect, given its envelope.

    `body` is the JSON text as received. Raises `Refused` (400) with `param` set where a field is at fault; nothing has
    been sent to a provider then.
    """
    fields = _parse(body)
    stripped: list[str] = []
    if "extra_body" in fields:
        fields = _merge(fields, stripped, envelope)
    alias, alias_json = _alias(fields)
    stream = _stream(fields) if envelope.streams else False
    _require_content(fields, envelope)
    usage_asked = _ask_for_usage(fields) if stream and envelope.usage_option else False
    _without_controls(fields, stripped, policy)
    fields["model"] = policy.model_json
    return Admitted(
        alias=alias,
        alias_json=alias_json,
        stream=stream,
        usage_asked=usage_asked,
        body=_encode(fields),
        forwarded=tuple([name for name in fields if name not in envelope.names]),
        stripped=tuple(stripped),
    )


def _parse(body: bytes) -> dict[str, Raw]:
    if not body.strip():
        raise Refused("the request body is empty; send a JSON object", code="invalid_json")
    try:
        if not body.isascii():
            body.decode()
        return split_fields(body.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise Refused(
            f"the request body is not UTF-8: bad byte at offset {error.start}", code="invalid_json"
        ) from None
    except msgspec.ValidationError as error:
        raise Refused(f"the request body must be a JSON object ({error})", code="invalid_json") from None
    except NamedTwice as twice:
        raise _twice(twice.name, "the request") from None
    except (msgspec.DecodeError, RecursionError) as error:
        wrong = f"is not valid JSON ({error}); send one JSON object"
        if _lacks_only_half_a_pair(body):
            wrong = (
                "holds half of a surrogate pair (an escape from \\ud800 to \\udfff by itself), which is no text;"
                " send the whole character, or leave it out"
            )
        raise Refused(f"the request body {wrong}", code="invalid_json") from None


def _lacks_only_half_a_pair(body: bytes) -> bool:
    """Whether a body that could not be read is JSON but for the other half of a surrogate pair."""
    if not _SURROGATE.search(body):
        return False
    try:
        _read_loosely(body.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> None:
    raise ValueError(name)


# Values are walked over, not made: no number is too long for it.
_read_loosely = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant).decode


def _twice(name: str, where: str) -> Refused:
    return Refused(
        f"{name!r} stands twice in {where}, and which one is meant cannot be told; send it once",
        code="duplicate_field",
        param=name,
    )


def _merge(fields: dict[str, Raw], stripped: list[str], envelope: Envelope) -> dict[str, Raw]:
    """Unwrap `extra_body` once; later names win, the envelope excepted."""
    raw = bytes(fields.pop("extra_body"))
    try:
        extra = split_fields(raw)
    except NamedTwice as twice:
        raise _twice(twice.name, "extra_body") from None
    except msgspec.ValidationError:
        raise Refused(
            "extra_body must be a JSON object, whose fields are merged into the request; leave it out if it has none",
            code="invalid_extra_body",
            param="extra_body",
        ) from None
    if "extra_body" in extra:
        raise Refused(
            "extra_body must not hold another extra_body; put its fields one level up",
            code="invalid_extra_body",
            param="extra_body",
        )
    if extra.pop("model", None) is not None:
        stripped.append("extra_body.model")
    for name in envelope.names:
        if name in extra:
            _same_or_refuse(name, fields, extra)
    fields.update(extra)
    return fields


def _same_or_refuse(name: str, fields: dict[str, Raw], extra: dict[str, Raw]) -> None:
    at_top = fields.get(name)
    if at_top is None and name == "stream":
        at_top = Raw(b"false")
    if at_top is None or _equal(bytes(at_top), bytes(extra[name])):
        return
    raise Refused(
        f"{name} inside extra_body differs from the request's own; send it once, at the top level",
        code="invalid_extra_body",
        param=name,
    )


def _equal(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except (msgspec.DecodeError, RecursionError):
        # Text that is JSON and no value (1e400): equal only where it is the same text.
        return False


def _alias(fields: dict[str, Raw]) -> tuple[str, bytes]:
    raw = fields.get("model")
    if raw is None:
        return DEFAULT_ALIAS, _encode(DEFAULT_ALIAS)
    text = bytes(raw)
    if text[:1] != b'"':
        raise Refused("model must be a string; any name will do", code="invalid_model", param="model")
    return msgspec.json.decode(text, type=str), text


def _stream(fields: dict[str, Raw]) -> bool:
    raw = fields.get("stream")
    if raw is None:
        return False
    text = bytes(raw)
    if text == b"true":
        return True
    if text == b"false":
        return False
    shown = text[:_VALUE_SHOWN].decode("utf-8", "replace")
    raise Refused(
        f"stream must be true or false, as a JSON boolean, and is {shown}; leave it out for a plain reply",
        code="invalid_stream",
        param="stream",
    )


def _require_content(fields: dict[str, Raw], envelope: Envelope) -> None:
    name = envelope.content
    raw = fields.get(name)
    if raw is None and envelope.required:
        wanted = f"; send {name} as a list" if envelope.listed else ""
        raise Refused(f"{name} is missing{wanted}", code=f"invalid_{name}", param=name)
    # A view, since the content may be long.
    if raw is not None and envelope.listed and memoryview(raw)[0] != ord("["):
        raise Refused(f"{name} must be a list", code=f"invalid_{name}", param=name)


def _ask_for_usage(fields: dict[str, Raw]) -> bool:
    """Set `stream_options.include_usage`, keep the other options; say whether the client had asked."""
    raw = fields.get("stream_options")
    text = b"null" if raw is None else bytes(raw)
    if text == b"null":
        fields["stream_options"] = Raw(b'{"include_usage":true}')
        return False
    try:
        options = split_fields(text)
    except NamedTwice as twice:
        raise _twice(twice.name, "stream_options") from None
    except msgspec.ValidationError:
        raise Refused(
            "stream_options must be a JSON object", code="invalid_stream_options", param="stream_options"
        ) from None
    asked = bytes(options.get("include_usage", Raw(b"null"))) == b"true"
    if not asked:
        options["include_usage"] = _TRUE
        fields["stream_options"] = Raw(_encode(options))
    return asked


def _without_controls(fields: dict[str, Raw], stripped: list[str], policy: Policy) -> None:
    """Take the controls out of `fields` and name them in `stripped`."""
    controls = controls_among(fields)
    if controls and policy.controls == "reject":
        shown = ", ".join(controls[:_NAMES_SHOWN])
        raise Refused(
            f"these fields are the operator's and cannot be sent by a client: {shown}",
            code="control_not_allowed",
            param=controls[0],
        )
    for name in controls:
        del fields[name]
    stripped += controls
