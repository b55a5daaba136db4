"""One HTTP exchange over the lean transport: request out, whole reply in, one time limit. Knows no protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from osmosis_bridge.upstream import Endpoint, TransportError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from osmosis_bridge.upstream import Transport

REPLY_LIMIT = 256 * 1024 * 1024

Headers = tuple[tuple[bytes, bytes], ...]
JSON_BODY: Headers = ((b"content-type", b"application/json"),)


class Answer(msgspec.Struct, frozen=True):
    """One whole reply."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> str | None:
        """First value of a lower-case header name."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1")
        return None


class Site(msgspec.Struct, frozen=True):
    """One server: where it answers and what every request to it carries."""

    transport: Transport
    endpoint: Endpoint
    headers: Headers = ()

    async def ask(
        self, method: bytes, path: str, body: bytes = b"", *, within_s: float, headers: Headers = ()
    ) -> Answer:
        """Send one request and read the reply; raises `TransportError` for anything short of a whole reply."""
        sent = (*self.headers, *headers, *(JSON_BODY if body else ()))
        try:
            async with asyncio.timeout(within_s):
                exchange = await self.transport.open(method, self.endpoint, path.encode("ascii"), sent, body)
                try:
                    content = await exchange.whole(REPLY_LIMIT)
                finally:
                    exchange.close()
        except TimeoutError:
            raise TransportError("timeout_total", f"no whole reply within {within_s:g} s") from None
        return Answer(exchange.status, exchange.headers, content)


class ErrorBody(msgspec.Struct, frozen=True):
    """What an error of the bridge says."""

    message: str = ""
    code: str | int | None = None


class _ErrorReply(msgspec.Struct, frozen=True):
    error: ErrorBody = ErrorBody()


def read_error(body: bytes) -> ErrorBody:
    """The error in a reply's body; an empty one where it holds none."""
    try:
        return msgspec.json.decode(body, type=_ErrorReply, strict=False).error
    except (msgspec.DecodeError, ValueError):
        return ErrorBody()


def bearer(token: str) -> Headers:
    """The header that carries a bearer."""
    return ((b"authorization", b"Bearer " + token.encode("ascii")),)
