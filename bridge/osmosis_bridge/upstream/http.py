"""HTTP/1.1 to any upstream: the lean transport of the relay, and of whoever else needs one.

Knows connections, their reuse and their time limits. Knows nothing of JSON, of completions or of retrying what an
upstream answered.

**When a request is sent a second time.** A kept connection may be closed by the other side at any moment, also while
our request is under way, and a request can cost money. So:

1. Before it is used again a connection is asked, through the event loop and through the socket itself, whether the
   other side has closed it or spoken. If so it is dropped and the next one, in the end a new one, is taken: nothing was
   sent.
2. If it is closed or spoken on before the first send, or that is refused on the spot, the kernel took none of the
   request: the same.
3. Once a byte may have left, a POST is never sent again: a connection that closes without a reply says nothing about
   whether the request was acted upon. The caller gets ``cut`` and decides.
4. GET, HEAD and OPTIONS ask for nothing but an answer (RFC 9110, 9.2.1). They are sent once more, on another
   connection, if a kept one closed before any byte of a reply.

A new connection that closes without a reply is never tried again here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from osmosis_bridge.upstream import Endpoint, Timeouts, TransportError
from osmosis_bridge.upstream.connection import Connection
from osmosis_bridge.upstream.dial import dial, tls_context
from osmosis_bridge.upstream.exchange import HttpExchange
from osmosis_bridge.upstream.pool import Pool
from osmosis_bridge.upstream.proxy import Proxies, Proxy
from osmosis_bridge.upstream.request import request_head

__all__ = ["HttpTransport"]

_SAFE: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_DIRECT: Final = Proxies()


class HttpTransport:
    """The `Transport` over sockets; an async context manager that closes itself. Belongs to one event loop."""

    def __init__(
        self,
        *,
        max_connections: int = 1000,
        timeouts: Timeouts | None = None,
        proxies: Proxies = _DIRECT,
        keepalive_expiry: float = 30.0,
    ) -> None:
        if max_connections < 1:
            raise ValueError(f"max_connections must be 1 or more, not {max_connections!r}")
        self._timeouts = timeouts or Timeouts()
        self._pool = Pool(max_connections, keepalive_expiry)
        self._proxies = None if proxies == _DIRECT else proxies
        self._context: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def open_connections(self) -> int:
        """Connections open or being opened, idle ones included."""
        return self._pool.slots

    @property
    def idle_connections(self) -> int:
        """Connections kept for the next request."""
        return self._pool.idle

    @property
    def waiting(self) -> int:
        """Requests that wait for a connection."""
        return self._pool.waiting

    async def open(
        self,
        method: bytes,
        endpoint: Endpoint,
        path: bytes,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        queue: str = "",
    ) -> HttpExchange:
        """Send one request and wait for the head of its reply (see `Transport.open`).

        Cancelling it closes what it had opened. Raises TransportError, or ValueError for what cannot be sent.
        """
        proxy = None if self._proxies is None else self._proxies.between(endpoint)
        key, target, credential = endpoint.origin, endpoint.target(path), None
        if proxy is not None:
            key, target, credential = _through(proxy, endpoint, target)
        head = request_head(method, target, endpoint.authority, headers, len(body), credential)
        total = self._timeouts.total
        total_at = None if total is None else asyncio.get_running_loop().time() + total
        repeated = False
        while True:
            connection = None if repeated else self._pool.reuse(key)
            if connection is None:
                connection = await self._obtain(key, endpoint, proxy, total_at, queue)
            was_used = connection.used
            exchange = connection.start(method, head, body, total_at)
            try:
                await exchange.head()
                return exchange
            except TransportError as error:
                repeated = _is_repeat(error, connection, method, was_used=was_used, repeated=repeated)
            except BaseException:
                exchange.close()
                raise

    async def close(self) -> None:
        """Close every connection at once; exchanges still being read fail, later ones are refused."""
        self._pool.close()
        # Sockets are closed by callbacks; after one turn of the loop they have run.
        await asyncio.sleep(0)

    async def _obtain(
        self, key: object, endpoint: Endpoint, proxy: Proxy | None, total_at: float | None, queue: str
    ) -> Connection:
        """A connection that was given back while waiting, or a new one."""
        try:
            async with asyncio.timeout_at(total_at):
                given = await self._pool.slot(key, self._timeouts.slot, queue)
                while given is not None and given.is_stale():
                    given.abort()
                    given = await self._pool.slot(key, self._timeouts.slot, queue)
                return given or await self._dial(key, endpoint, proxy)
        except TimeoutError as error:
            raise TransportError("timeout_total", "the exchange took longer than it may") from error

    async def _dial(self, key: object, endpoint: Endpoint, proxy: Proxy | None) -> Connection:
        loop = asyncio.get_running_loop()
        limit = self._timeouts.connect
        if endpoint.tls and self._context is None:
            self._context = tls_context()
        try:
            async with asyncio.timeout(limit):
                connection = await dial(
                    endpoint,
                    proxy,
                    self._context,
                    lambda: Connection(loop, self._pool, key, self._timeouts),
                )
        except BaseException as error:
            self._pool.give_back_slot()
            if isinstance(error, TimeoutError):
                silent = f"no connection within {limit:g} seconds"
                raise TransportError("timeout_connect", silent) from error
            raise
        self._pool.admit(connection)
        return connection


def _is_repeat(
    error: TransportError, connection: Connection, method: bytes, *, was_used: bool, repeated: bool
) -> bool:
    """Whether the next try sends a request a second time; raises where there is no next try."""
    lost = error.reason == "cut" and not connection.reply_began
    if lost and connection.unsent:
        if was_used:
            return repeated
        raise TransportError("connect", "the connection was closed as soon as it was open") from None
    if lost and was_used and method in _SAFE and not repeated:
        return True
    raise error


def _through(proxy: Proxy, endpoint: Endpoint, target: bytes) -> tuple[object, bytes, bytes | None]:
    """The pool key, target and credential of a request that a proxy passes on.

    With TLS the proxy carries bytes for one origin; without, it reads the request, whoever it is for.
    """
    if endpoint.tls:
        return (endpoint.origin, proxy), target, None
    return proxy, b"http://" + endpoint.authority + target, proxy.credential
