"""Takes secrets out of text before anyone sees it.

Secrets are known by value (the provider's key, the bridge's bearer, whatever the operator configured) and by shape
(key-like words, bearer headers, URLs with credentials or a query). Values are replaced everywhere; shapes only in
messages made by others, where a wrong guess costs nothing. Knows no source of secrets and does no I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, unquote_plus, urlsplit

REDACTED = "[REDACTED]"
_REDACTED_BYTES = REDACTED.encode()
MESSAGE_LIMIT = 1000
"""Characters of a message that are kept."""

_SHORTEST = 6
_SHAPES = (
    re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(
        r"\b(?:sk|pk|rk|gsk|xai|nvapi|csk|fw|pplx|tgp|r8|hf|ghp|gho|ghs|glpat|xox[abp])[-_][A-Za-z0-9_-]{8,}"
    ),
    re.compile(r"\bgithub_pat_[A-Za-z0-9_]{16,}"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{20,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"\borb-[A-Za-z0-9._-]{16,}"),
)
_ASSIGNED = re.compile(
    r"""(?ix) (\b(?:api[-_ ]?key|access[-_ ]?key|secret(?:[-_ ]?key)?|token|passw(?:or)?d|authorization|x-api-key|key)\b
    \\?["']? \s* [=:] \s* \\?["']?) (?!\[REDACTED) [^\s"'&,;})]{6,}"""
)
_PRIVATE_ADDRESS = re.compile(
    r"(?<![\w.-])(?:10(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}|169\.254(?:\.\d{1,3}){2}"
    r"|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2})(?::\d{1,5})?(?![\w.])"
)
_URL = re.compile(
    r"""(?ix) \b ([a-z][a-z0-9+.-]{1,15}://)
    ( (?: [^\s/?\#"<>]* @ )? (?: \[ [0-9a-z:.%_-]* \] )? [^\s"'<>()\[\]{}]* )"""
)
_QUERY = re.compile(r"[?#]")
_CREDENTIAL_NAME = re.compile(r"(?i)key|sig|token|secret|passw|code|auth|cred")
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class Redactor:
    """Replaces known secrets, and cleans messages.

    `secrets` are values (those under six characters are passed over: they would hit ordinary words); `private_hosts`
    are host names, with or without a port, that a message must not show.
    """

    __slots__ = ("_hosts", "_secrets", "_secrets_bytes")

    def __init__(self, secrets: Iterable[str] = (), private_hosts: Iterable[str] = ()) -> None:
        values = {
            value for secret in secrets for value in (secret, secret.strip()) if len(value) >= _SHORTEST
        }
        values |= {written for value in values for written in _as_written(value)}
        # The longest first, so that no remainder of a longer secret survives a shorter one.
        self._secrets = tuple(sorted(values, key=len, reverse=True))
        self._secrets_bytes = tuple(value.encode("utf-8", "surrogateescape") for value in self._secrets)
        self._hosts = tuple(
            re.compile(rf"(?i)(?<![\w.-]){re.escape(host)}(?::\d+)?(?![\w-])")
            for host in sorted(set(private_hosts), key=len, reverse=True)
            if host
        )

    def scrub(self, content: bytes) -> bytes:
        """`content` with every known secret replaced; the same object where there is none."""
        # Not asked for first: `in` takes bytes for a number until that fails.
        for secret in self._secrets_bytes:
            content = content.replace(secret, _REDACTED_BYTES)
        return content

    def scrub_text(self, text: str) -> str:
        """`text` with every known secret replaced, nothing else changed."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def message(self, text: str) -> str:
        """A message fit to show, on one line of at most `MESSAGE_LIMIT` characters.

        Secrets, key-shaped words, URL credentials and queries, and private hosts are replaced.
        """
        # A message of megabytes is cut before the patterns run, with room for what they shorten.
        text = self.scrub_text(text)[: 8 * MESSAGE_LIMIT]
        text = _URL.sub(_clean_url, text)
        for shape in _SHAPES:
            text = shape.sub(REDACTED, text)
        text = _ASSIGNED.sub(rf"\1{REDACTED}", text)
        for host in self._hosts:
            text = host.sub("[private host]", text)
        text = _PRIVATE_ADDRESS.sub("[private host]", text)
        # Once more, for a secret that only shows when line breaks become spaces.
        return _cut(self.scrub_text(_flat(text)), MESSAGE_LIMIT)


def one_line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """`text` on one line of at most `limit` characters; what UTF-8 cannot hold becomes a question mark."""
    return _cut(_flat(text[: 8 * limit]), limit)


def credentials_in(url: str) -> list[str]:
    """What of a URL is a secret: its password, and the values of its query whose names sound like one.

    Each as it is written and as it is meant. A version or a deployment is none, and a text that is no URL holds none.
    """
    try:
        parts = urlsplit(url)
        found = [parts.password or "", unquote(parts.password or "")]
    except ValueError:
        return []
    for field in parts.query.split("&"):
        name, _, value = field.partition("=")
        if _CREDENTIAL_NAME.search(name):
            found += [value, unquote_plus(value)]
    return list(dict.fromkeys(value for value in found if value))


def _flat(text: str) -> str:
    return _SPACES.sub(" ", text).strip().encode("utf-8", "replace").decode()


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _as_written(value: str) -> Iterator[str]:
    """The forms in which JSON and URLs show a value."""
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    yield quote(value, safe="", errors="surrogateescape")


def _clean_url(match: re.Match[str]) -> str:
    scheme, rest = match.group(1), match.group(2)
    address, *query = _QUERY.split(rest, maxsplit=1)
    authority, slash, path = address.partition("/")
    return scheme + authority.rpartition("@")[2] + slash + path + ("?…" if query else "")
