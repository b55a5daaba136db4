"""Upstreams made of raw sockets for tests: what they send is written byte by byte, when they send it is scripted.

Also the two event loops every socket test is run under.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from osmosis_bridge.upstream import Endpoint

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if sys.platform != "win32":
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop

DEADLINE = 9.0
"Seconds after which a test that hangs fails."


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it stood on the wire."""

    head: bytes
    body: bytes = b""

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        lines = self.head.removesuffix(b"\r\n\r\n").split(b"\r\n")[1:]
        return [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)


@dataclass(slots=True)
class Peer:
    """The server's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    place: int
    "The how-manieth connection of its server this is, from 0."
    server: RawServer

    async def request(self) -> Request:
        """The next request; EOFError (`IncompleteReadError`) when the client is gone."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        request = Request(head)
        size = int(request.header(b"content-length") or b"0")
        request = Request(head, await self.reader.readexactly(size))
        self.server.requests.append(request)
        return request

    async def send(self, *pieces: bytes, apart: float | None = 0.0) -> None:
        """Send pieces as segments of their own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            if apart is not None:
                await asyncio.sleep(apart)

    async def gone(self) -> bool:
        """Wait until the client has closed the connection, cleanly or not."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass
        return True

    def reset(self) -> None:
        """Close at once; unread bytes make it a reset."""
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@dataclass(slots=True)
class RawServer:
    """A server on loopback whose connections each run the script."""

    script: Script
    endpoint: Endpoint = field(default_factory=lambda: Endpoint(tls=False, host="127.0.0.1", port=1))
    connections: int = 0
    open: int = 0
    requests: list[Request] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, self.connections, self)
        self.connections += 1
        self.open += 1
        try:
            await self.script(peer)
        except (EOFError, ConnectionError):
            pass
        except Exception as error:
            self.errors.append(error)
        finally:
            self.open -= 1
            writer.close()
            with suppress(Exception):
                await writer.wait_closed()


@asynccontextmanager
async def serving(
    script: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[RawServer]:
    """A running server; a script's own failure (not a client that left) fails the test."""
    server = RawServer(script)
    listener = await asyncio.start_server(server.handle, host, 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    name = "localhost" if tls else host
    server.endpoint = Endpoint(tls=tls is not None, host=name, port=port, prefix=b"/v1")
    try:
        yield server
    finally:
        listener.close()
        for error in server.errors:
            raise error


def replying(reply: bytes, *, close: bool = False) -> Script:
    """The same reply to every request of a connection."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(reply, apart=None)
            if close:
                return

    return script


def run(loop: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine under one of `LOOPS`, with a deadline that only fails a hang."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE):
            await main()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop turns until something holds; the test's deadline bounds it."""
    while not condition():
        await asyncio.sleep(0.002)
