"""What a provider means by a failure: from its status and body, of whatever shape, to one error.

Shapes known: `{"error": {...}}`, `{"error": "text"}`, flat `{"object": "error", ...}`, `{"message": ...}`,
`{"detail": ...}`, a list of any of these, HTML pages and plain text. Knows no transport and no dialect.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.redact import Redactor, one_line

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 503,
}
# Each pattern runs in linear time, whatever the page: no part of it can match across another's beginning.
_HIDING = re.compile(r"(?i)<(script|style|head)\b")
_TAG = re.compile(r"<[^<>]{0,2000}>")
_TITLE = re.compile(r"(?i)<title\b[^<>]*>([^<]*)</title")
_AN_API = "the base URL (--api-base) is an OpenAI-compatible API's, often with /v1 at its end"
_NEXT = {
    401: "check the key that the bridge was started with",
    403: "check what the key that the bridge was started with may do",
    404: f"check the model's name, and that {_AN_API}",
    405: f"check that {_AN_API}",
}
"""What to do about a status whose reply says no more than the status does."""
_TEXT_SHOWN = 500
_READ = 64 * 1024
_LARGEST_CODE = 2**53


def read_failure(
    status: int, body: bytes, redactor: Redactor, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> UpstreamFailed:
    """The error to show for a reply that is not a success.

    A 4xx or 5xx keeps its status, anything else becomes 502. Type, param and code are the provider's where it sent
    them; the message is its own text, sanitised.
    """
    kept = status if 400 <= status <= 599 else 502
    if 300 <= status <= 399:
        return UpstreamFailed(
            f"the provider answered with a redirect ({status}), which is not followed; correct the base URL"
            " (--api-base), perhaps to https://",
            code="upstream_redirect",
            headers=headers,
        )
    found = _as_json(body)
    if found is None:
        return _failed(redactor, kept, {"message": _bare(status, _plain_text(body), redactor)}, headers)
    fields = error_fields(found) or {"message": f"the provider answered {status}: {_as_text(found)}"}
    message = fields.get("message")
    if status in _NEXT and isinstance(message, str) and _says_only_the_status(status, message):
        fields = {**fields, "message": _bare(status, message, redactor)}
    return _failed(redactor, kept, fields, headers)


def _bare(status: int, text: str, redactor: Redactor) -> str:
    """A status and its text, and what to do where the status is all there is to go by."""
    text = _cut(text, redactor)
    said = f"the provider answered {status}" + (f": {text}" if text else " with an empty body")
    return f"{said}; {_NEXT[status]}" if status in _NEXT else said


def _cut(text: str, redactor: Redactor) -> str:
    """A text so short that what follows it is still shown; secrets first, since half of one would not be found."""
    return one_line(redactor.message(text), _TEXT_SHOWN)


def _says_only_the_status(status: int, message: str) -> bool:
    return message.strip(" .!").lower() == HTTPStatus(status).phrase.lower()


def in_band_failure(
    found: object, redactor: Redactor, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> UpstreamFailed:
    """The error to show for one that came under HTTP 200, as a body or as an event.

    Its status is the numeric code the provider put into it, else what its type stands for, else 502.
    """
    fields = error_fields(found) or {"message": _as_text(found)}
    return _failed(redactor, _status_within(fields), fields, headers)


def error_fields(found: object) -> Mapping[str, Any] | None:
    """The fields of an error object in any of the known shapes, None where none is recognised."""
    while isinstance(found, list) and found:
        found = cast("list[object]", found)[0]
    if not isinstance(found, dict):
        return {"message": found} if isinstance(found, str) and found else None
    fields = cast("dict[str, Any]", found)
    error = fields.get("error")
    if isinstance(error, dict):
        inner = cast("dict[str, Any]", error)
        return inner if inner.get("message") else {**inner, "message": inner.get("detail") or _as_text(inner)}
    if isinstance(error, str) and error:
        detail = fields.get("message") or fields.get("error_description") or fields.get("detail")
        return {**fields, "message": detail if isinstance(detail, str) and detail else error}
    if error:
        return {**fields, "message": _as_text(error)}
    for name in ("message", "detail", "errors", "msg"):
        if fields.get(name):
            return {**fields, "message": fields[name]}
    return None


def _status_within(fields: Mapping[str, Any]) -> int:
    for name in ("code", "status", "status_code"):
        value = fields.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    kind = fields.get("type")
    return _STATUSES.get(kind, 502) if isinstance(kind, str) else 502


def _failed(
    redactor: Redactor, status: int, fields: Mapping[str, Any], headers: tuple[tuple[bytes, bytes], ...]
) -> UpstreamFailed:
    message = fields.get("message")
    text = message if isinstance(message, str) else _as_text(message)
    kind = fields.get("type")
    if isinstance(kind, str):
        kind = redactor.message(kind)[:200]
    param = fields.get("param")
    code = fields.get("code")
    if isinstance(code, str):
        code = redactor.message(code)[:200]
    elif isinstance(code, bool) or not isinstance(code, int) or abs(code) > _LARGEST_CODE:
        code = None
    return UpstreamFailed(
        redactor.message(text) or f"the provider answered {status} without a message",
        status=status,
        type=kind if isinstance(kind, str) and kind else _TYPES.get(status, "upstream_error"),
        param=redactor.message(param)[:200] if isinstance(param, str) else None,
        code=code,
        headers=headers,
    )


def _as_json(body: bytes) -> object | None:
    body = body.removeprefix(b"\xef\xbb\xbf")
    for text in (body, body.decode("utf-8", "replace")):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
    return None


def _as_text(found: object) -> str:
    try:
        return json.dumps(found)
    except RecursionError:
        return "an error nested too deep to show"


def no_json(body: bytes, redactor: Redactor) -> UpstreamFailed:
    """The error to show for a body under HTTP 200 that is no JSON object, whatever it is."""
    text = _cut(_plain_text(body), redactor)
    said = f"something that is no JSON object: {text}" if text else "an empty body"
    message = f"the provider answered 200 with {said}; check that {_AN_API}"
    return UpstreamFailed(redactor.message(message), code="invalid_upstream_reply")


def no_answer_of(wanted: str, found: object, redactor: Redactor) -> UpstreamFailed:
    """The error to show for JSON under HTTP 200 that is neither an answer nor an error.

    `wanted` says what it is not, and of which path: `list of embeddings (no "data") from /embeddings`.
    """
    text = _cut(_as_text(found), redactor)
    message = (
        f"the provider answered 200 with JSON that is no {wanted}: {text}; check that the endpoint serves this path "
        "for this model"
    )
    return UpstreamFailed(redactor.message(message), code="invalid_upstream_reply")


def _plain_text(body: bytes) -> str:
    text = body[:_READ].decode("utf-8", "replace")
    if "<" not in text:
        return text
    found = _TITLE.search(text)
    title = " ".join(found.group(1).split()) if found else ""
    words = " ".join(_TAG.sub(" ", _without_hidden(_TITLE.sub("<p", text))).split())
    return words if words.startswith(title) else f"{title}: {words}" if words else title


def _without_hidden(page: str) -> str:
    """A page without what a browser would not show of it."""
    lower = page.lower()
    kept: list[str] = []
    place = 0
    for opening in _HIDING.finditer(page):
        if opening.start() < place:
            continue
        kept.append(page[place : opening.start()])
        end = lower.find(f"</{opening.group(1).lower()}", opening.end())
        if end < 0:
            return " ".join(kept)
        place = end
    return " ".join([*kept, page[place:]])
