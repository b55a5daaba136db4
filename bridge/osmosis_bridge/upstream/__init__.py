"""How an upstream is reached: the protocol every transport speaks, its values and its one error.

Knows addresses, time limits and the ways an exchange can fail. Knows nothing of completions, of JSON, of
sockets or of an event loop; the implementations beside it do.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

__all__ = ["Endpoint", "Exchange", "Reason", "Timeouts", "Transport", "TransportError"]

Reason = Literal[
    "connect",
    "tls",
    "timeout_connect",
    "timeout_idle",
    "timeout_total",
    "no_slot",
    "cut",
    "malformed",
    "too_large",
]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?")
# What a URL may hold as it stands; anything else is percent-encoded, "%" itself is kept as the user wrote it.
_PATH_SAFE: Final = "/%:@!$&'()*+,;=-._~"
_QUERY_SAFE: Final = _PATH_SAFE + "?"


class TransportError(Exception):
    """An exchange with an upstream that did not come to its proper end.

    Reasons: ``connect`` (not reachable, or the transport is closed), ``tls``, ``timeout_connect``,
    ``timeout_idle`` (nothing came for too long), ``timeout_total``, ``no_slot`` (no connection became free in
    time), ``cut`` (the reply ended before its declared end), ``malformed`` (not HTTP, or an unreadable content
    coding), ``too_large`` (more than the caller would take). ``detail`` never holds a host, a URL or a header.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason: Reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class Timeouts(msgspec.Struct, frozen=True):
    """Time limits of one exchange, in seconds; ``None`` means no limit."""

    connect: float = 10.0
    "Name resolution, TCP, proxy and TLS together."
    idle: float | None = 600.0
    "The longest silence while bytes are awaited, the first one included."
    total: float | None = None
    "From the call of open() to the last byte, waiting for a slot included."
    slot: float = 30.0
    "Waiting for one of the bounded number of connections."

    def __post_init__(self) -> None:
        for name in ("connect", "idle", "total", "slot"):
            value: float | None = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"time-out {name!r} must be more than 0 seconds, not {value!r}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an upstream answers: an http(s) origin with a base path and query, parsed once from a URL."""

    tls: bool
    host: str
    "Lower-case ASCII; an IPv6 address stands without brackets."
    port: int
    prefix: bytes = b""
    "The base path, percent-encoded, without a slash at its end: ``/v1`` or empty."
    query: bytes = b""
    "The base query without its question mark, such as ``api-version=2024-10-21``."
    authority: bytes = field(init=False, repr=False, compare=False)
    "The Host header: the port only where it is not the scheme's own."
    origin: tuple[str, int, bool] = field(init=False, repr=False, compare=False)
    "Host, port, TLS: endpoints with the same origin share connections."

    def __post_init__(self) -> None:
        host = f"[{self.host.partition('%')[0]}]" if ":" in self.host else self.host
        shown = host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"
        object.__setattr__(self, "authority", shown.encode("ascii"))
        object.__setattr__(self, "origin", (self.host, self.port, self.tls))

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Read an http or https URL.

        Raises:
            ValueError: naming what is wrong; it never shows user info or a query, which may hold secrets.
        """
        split = _split(url)
        if split.username is not None or split.password is not None:
            raise ValueError(
                "the upstream URL holds user info before '@'; give the credential as an API key instead"
            )
        if split.fragment:
            raise ValueError("the upstream URL has a '#' part, which is never sent; remove it")
        return cls(
            tls=split.scheme == "https",
            host=_host(split),
            port=_port(split),
            prefix=quote(split.path, safe=_PATH_SAFE).rstrip("/").encode("ascii"),
            query=quote(split.query, safe=_QUERY_SAFE).encode("ascii"),
        )

    @property
    def scheme(self) -> str:
        """``https`` or ``http``."""
        return "https" if self.tls else "http"

    @property
    def shown_origin(self) -> str:
        """Scheme, host and port, the port only where it is not the scheme's own."""
        return f"{self.scheme}://{self.authority.decode('ascii')}"

    @property
    def url_for_display(self) -> str:
        """The URL without its query, for logs and messages."""
        return self.shown_origin + self.prefix.decode("ascii")

    def target(self, path: bytes) -> bytes:
        """The request target for a path under this endpoint: base path, path, then the queries of both."""
        if not self.query:
            return self.prefix + path or b"/"
        own, _, query = path.partition(b"?")
        joined = self.query + b"&" + query if query else self.query
        return (self.prefix + own or b"/") + b"?" + joined


class Exchange(Protocol):
    """One reply being read: its head has arrived, its body may still be on its way."""

    status: int
    headers: list[tuple[bytes, bytes]]
    "Lower-case names in wire order. The body is handed out decoded, so a relay drops content-encoding and length."

    def header(self, name: bytes) -> bytes | None:
        """The first value of a lower-case header name."""
        ...

    async def chunk(self) -> bytes:
        """The next decoded piece of the body, ``b""`` at its clean end.

        May be cancelled and called again without losing a byte. Raises TransportError otherwise.
        """
        ...

    async def pour(self, take: Callable[[bytes], bool]) -> bool:
        """Hand the body to ``take`` as it comes, each piece within the turn of the loop that brought it.

        True as soon as ``take`` says False of a piece, which it has taken; False at the body's clean end. May be
        cancelled and called again without losing a byte. Raises TransportError otherwise, and what ``take`` raises.
        """
        ...

    async def whole(self, limit: int) -> bytes:
        """The rest of the body, at most ``limit`` bytes decoded; raises TransportError (``too_large``)."""
        ...

    def close(self) -> None:
        """Give the connection up, at once and as often as wanted.

        A connection whose reply is complete can be used again; any other is closed.
        """
        ...


class Transport(Protocol):
    """What sends a request and hands back the reply being read."""

    async def open(
        self,
        method: bytes,
        endpoint: Endpoint,
        path: bytes,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        queue: str = "",
    ) -> Exchange:
        """Send one request; returns once the reply's head is there.

        Where connections are short, those who wait for one take turns by the name of their `queue`, so that one that
        asks for much does not starve the others. The transport adds host and content-length and nothing else. Raises
        TransportError, or ValueError for a request that cannot be put on the wire.
        """
        ...

    async def close(self) -> None:
        """Close every connection; exchanges still being read fail."""
        ...


def _split(url: str) -> SplitResult:
    if not url.isprintable() or " " in url:
        raise ValueError("the upstream URL holds a space or a control character")
    try:
        split = urlsplit(url)
    except ValueError as error:
        raise ValueError(
            "the upstream URL's host is not readable; expected http(s)://HOST[:PORT]/PATH"
        ) from error
    if split.scheme not in _DEFAULT_PORTS:
        given = f"the scheme {split.scheme!r}" if split.scheme else "no scheme"
        raise ValueError(f"the upstream URL has {given}; expected http:// or https://")
    return split


def _host(split: SplitResult) -> str:
    host = split.hostname
    if not host:
        raise ValueError("the upstream URL names no host; expected http(s)://HOST[:PORT]/PATH")
    if "[" in split.netloc:
        return _ipv6(host)
    try:
        name = host.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        raise ValueError(f"the upstream URL's host {host!r} is not a host name") from error
    if not _HOST_NAME.fullmatch(name):
        raise ValueError(f"the upstream URL's host {host!r} is not a host name")
    return name


def _ipv6(host: str) -> str:
    try:
        return str(ipaddress.IPv6Address(host.replace("%25", "%")))
    except ValueError as error:
        raise ValueError(f"the upstream URL's host {host!r} is not an IPv6 address") from error


def _port(split: SplitResult) -> int:
    try:
        port = split.port
    except ValueError as error:
        raise ValueError("the upstream URL's port must be a number from 1 to 65535") from error
    if port is None:
        return _DEFAULT_PORTS[split.scheme]
    if port == 0:
        raise ValueError("the upstream URL's port must be a number from 1 to 65535")
    return port
