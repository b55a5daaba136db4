"""The forwarding report: what became of each field of one request, and the request that would be sent.

Made from the same decision that serves calls (`policy.admit`), so that it cannot say anything else than what happens.
Values are shown as their JSON text, cut; a control's value is never shown. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw

from osmosis_bridge.client_headers import HeaderReport
from osmosis_bridge.controls import is_control
from osmosis_bridge.errors import Refused
from osmosis_bridge.policy import CHAT, Envelope, Policy, admit

Became = Literal[
    "forwarded",
    "renamed to",
    "moved to",
    "value changed",
    "left out",
    "set by the bridge",
    "set by the translator",
    "stripped as control",
    "ignored",
    "refused",
]
_SHOWN = 200

_split = msgspec.json.Decoder(dict[str, Raw]).decode


Source = Literal["top level", "extra_body", "bridge"]


class FieldReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One field: where it came from, what became of it, and where it stands in the outgoing body.

    `before` and `after` are JSON texts, cut at 200 characters; `at` is a path such as `stream_options`;
    `why` is said where the translator changed or refused something.
    """

    field: str
    origin: Source
    became: Became
    at: str | None = None
    before: str | None = None
    after: str | None = None
    why: str | None = None


class ForwardingReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What would happen to one request; `outgoing` is absent where it is refused.

    `headers` are the client's: which go out with it, and which do not.
    """

    model: str
    provider: str
    lane: str
    accepted: bool
    fields: tuple[FieldReport, ...]
    error: dict[str, Any] | None = None
    outgoing: dict[str, Any] | None = None
    headers: tuple[HeaderReport, ...] = ()


def explain(
    body: bytes,
    policy: Policy,
    envelope: Envelope = CHAT,
    *,
    provider: str,
    url: str,
    headers: Callable[[bool], dict[str, str]],
) -> ForwardingReport:
    """Report on one request without sending it. `headers` gives the outgoing ones, secrets
    masked, for a stream or a plain reply.
    """
    try:
        admitted = admit(body, policy, envelope)
    except Refused as error:
        found = msgspec.json.decode(error.body())["error"]
        return ForwardingReport(
            policy.upstream_model, provider, "wire", False, _refused_fields(body, error.param), error=found
        )
    outgoing = _split(admitted.body)
    return ForwardingReport(
        model=policy.upstream_model,
        provider=provider,
        lane="wire",
        accepted=True,
        fields=tuple(_fields(body, outgoing, envelope)),
        outgoing={
            "method": "POST",
            "url": url,
            "headers": headers(admitted.stream),
            "body": Raw(admitted.body),
        },
    )


def _fields(body: bytes, outgoing: dict[str, Raw], envelope: Envelope) -> list[FieldReport]:
    top, extra = _sources(body)
    rows: list[FieldReport] = []
    for name, raw in top.items():
        if name in extra and name not in envelope.names:
            rows.append(
                FieldReport(name, "top level", "ignored", before=_shown(name, raw), after="extra_body wins")
            )
        else:
            rows.append(_row(name, "top level", raw, outgoing))
    for name, raw in extra.items():
        if name == "model":
            rows.append(FieldReport(name, "extra_body", "ignored", before=_shown(name, raw)))
        elif name not in envelope.names or name not in top:
            rows.append(_row(name, "extra_body", raw, outgoing))
    named = top.keys() | extra.keys()
    rows += [
        FieldReport(name, "bridge", "set by the bridge", at=name, after=_shown(name, raw))
        for name, raw in outgoing.items()
        if name not in named
    ]
    return rows


def _row(name: str, origin: Source, raw: Raw, outgoing: dict[str, Raw]) -> FieldReport:
    if name not in outgoing:
        return FieldReport(name, origin, "stripped as control")
    before, after = bytes(raw), bytes(outgoing[name])
    if before == after:
        return FieldReport(name, origin, "forwarded", at=name, before=_shown(name, raw))
    return FieldReport(
        name, origin, "value changed", at=name, before=_shown(name, raw), after=_shown(name, outgoing[name])
    )


def _refused_fields(body: bytes, param: str | None) -> tuple[FieldReport, ...]:
    try:
        top, extra = _sources(body)
    except (msgspec.DecodeError, RecursionError):
        return ()
    rows: list[FieldReport] = []
    sources: tuple[tuple[Source, dict[str, Raw]], ...] = (("top level", top), ("extra_body", extra))
    for origin, fields in sources:
        rows += [
            FieldReport(name, origin, "refused", before=_shown(name, raw))
            for name, raw in fields.items()
            if name == param or is_control(name)
        ]
    return tuple(rows)


def _sources(body: bytes) -> tuple[dict[str, Raw], dict[str, Raw]]:
    """The fields of the top level and those of `extra_body`."""
    top = _split(body.removeprefix(b"\xef\xbb\xbf"))
    raw = top.pop("extra_body", None)
    if raw is None:
        return top, {}
    try:
        return top, _split(raw)
    except (msgspec.DecodeError, RecursionError):
        return {**top, "extra_body": raw}, {}


def _shown(name: str, raw: Raw) -> str:
    if is_control(name):
        return "…"
    text = bytes(raw).decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def translated(report: ForwardingReport, status: int, answer: bytes) -> ForwardingReport:
    """A report of the native lane: what the bridge kept back, and what the translator's `answer` says of the rest."""
    kept_back = tuple(row for row in report.fields if row.at is None)
    origins: dict[str, Source] = {row.field: row.origin for row in report.fields}
    found = msgspec.json.decode(answer)
    if status != 200:
        error = found["error"]
        sent = {row.field: row for row in report.fields if row.at is not None}
        reasons: dict[str, str | None] = found.get("refused") or (
            {error["param"]: None} if error.get("param") in sent else {}
        )
        refused = tuple(_refused(name, why, sent) for name, why in reasons.items())
        return msgspec.structs.replace(
            report, lane="native", accepted=False, fields=kept_back + refused, error=error, outgoing=None
        )
    rows = tuple(
        FieldReport(
            field=row["field"],
            origin=origins.get(row["field"]) or origins.get(_root(row["field"]), "bridge"),
            became=row["became"],
            at=row.get("at"),
            before=_as_text(row.get("before")),
            after=_as_text(row.get("after")),
            why=row.get("why"),
        )
        for row in found["fields"]
    )
    return msgspec.structs.replace(report, lane="native", fields=kept_back + rows, outgoing=found["outgoing"])


def _refused(name: str, why: str | None, sent: dict[str, FieldReport]) -> FieldReport:
    """A field that the translator refuses, or a place within one, such as `messages[2].name`."""
    field = sent.get(name) or sent.get(_root(name))
    origin: Source = "bridge" if field is None else field.origin
    return FieldReport(name, origin, "refused", before=sent[name].before if name in sent else None, why=why)


def _root(place: str) -> str:
    """The field in which a place is, such as `metadata` of `metadata.user_id`."""
    return place.partition(".")[0].partition("[")[0]


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
