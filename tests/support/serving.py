"""The bridge's HTTP server in this process, on a socket of its own, with any application behind it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from asgi_bridge import TOKEN
from osmosis_bridge import collector, server
from osmosis_bridge.config import BridgeConfig
from osmosis_bridge.upstream.http import HttpTransport

CONFIG = BridgeConfig("openai/gpt-x", port=0)
App = Callable[[Any, Any, Any], Awaitable[None]]


class Serving:
    """The bridge's HTTP server with an application of the test's behind it."""

    def __init__(self, listener: socket.socket, made: server._Server) -> None:
        self.port = listener.getsockname()[1]
        self.server = made
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer

    async def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def raw(self, sent: bytes) -> bytes:
        """Everything that comes back for these bytes, until the connection is closed."""
        reader, writer = await self.connect()
        writer.write(sent)
        async with asyncio.timeout(8):
            try:
                came = await reader.read(-1)
            except ConnectionResetError:
                came = b""
        return came


def served(
    app: App,
    use: Callable[[Serving], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    keep_alive_s: int = 75,
    **settings: Any,
) -> None:
    """Serve `app` while `use` runs; afterwards the server is told to stop once, if it was not yet."""
    # The collector of this process, which runs other tests, keeps its thresholds.
    noop = lambda *args: None
    monkeypatch.setattr(collector, "gc", SimpleNamespace(freeze=noop, set_threshold=noop))

    async def main() -> None:
        config = replace(CONFIG, **settings)
        any_app: Any = app
        with server._bind(config) as listener:
            ready = asyncio.Event()
            made = server._Server(server._server_config(any_app, config), HttpTransport(), ready.set)
            made.config.timeout_keep_alive = keep_alive_s
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                serve = group.create_task(made.serve(sockets=[listener]))
                await ready.wait()
                serving = Serving(listener, made)
                try:
                    await use(serving)
                finally:
                    # Also when the test fails: a server that is only cancelled leaves its sockets to a closed loop.
                    await serving.hang_up()
                    if not made.should_exit:
                        made._stop()
                    await asyncio.wait([serve])

    uvloop.run(main())


def request(*headers: bytes, target: bytes = b"/", body: bytes = b"") -> bytes:
    lines = [b"POST " + target + b" HTTP/1.1", b"host: localhost", b"connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def error_of(came: bytes) -> tuple[bytes, dict[str, Any], bytes]:
    head, _, body = came.partition(b"\r\n\r\n")
    assert b"\r\nx-osmosis-error-origin: bridge" in head
    assert b"\r\ncontent-type: application/json" in head
    assert b"\r\nconnection: close" in head
    assert f"\r\ncontent-length: {len(body)}".encode() in head
    return head.partition(b"\r\n")[0], json.loads(body)["error"], head


BEARER = b"authorization: Bearer " + TOKEN.encode()


def asked(body: bytes, *headers: bytes, version: bytes = b"1.1", length: bool = True) -> bytes:
    """A call to the byte."""
    lines = [b"POST /v1/chat/completions HTTP/" + version, b"host: localhost", BEARER, *headers]
    sized = [b"content-length: %d" % len(body)] if length else []
    return b"\r\n".join([*lines, *sized]) + b"\r\n\r\n" + body


def head_and_body(came: bytes) -> tuple[list[bytes], bytes]:
    head, _, body = came.partition(b"\r\n\r\n")
    return head.split(b"\r\n"), body


async def reply_of(reader: asyncio.StreamReader) -> tuple[list[bytes], bytes]:
    """One reply that says its length or comes in chunks, off a connection that stays open."""
    lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    fields = dict(line.split(b": ", 1) for line in lines[1:])
    if b"content-length" in fields:
        return lines, await reader.readexactly(int(fields[b"content-length"]))
    pieces: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        pieces.append((await reader.readexactly(size + 2))[:-2])
    assert await reader.readexactly(2) == b"\r\n"
    return lines, b"".join(pieces)


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0)
