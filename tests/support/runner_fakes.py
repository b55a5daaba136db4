"""Fakes of what the runner waits for: a transport that answers from a script, a rollout's author, a watcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from osmosis_bridge.upstream import Endpoint, TransportError
from osmosis_runner.web import Site

Scripted = tuple[int, object] | TransportError


@dataclass
class ScriptedExchange:
    """A reply that is there at once."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]
    closed: bool = False

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)

    async def chunk(self) -> bytes:
        body, self.body = self.body, b""
        return body

    async def whole(self, limit: int) -> bytes:
        return await self.chunk()

    def close(self) -> None:
        self.closed = True


@dataclass
class ScriptedTransport:
    """Answers requests in turn; `asked` keeps method, path, headers and body of each."""

    script: list[Scripted]
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    asked: list[tuple[bytes, bytes, Sequence[tuple[bytes, bytes]], bytes]] = field(default_factory=list)
    exchanges: list[ScriptedExchange] = field(default_factory=list)

    async def open(
        self, method: bytes, endpoint: Endpoint, path: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> ScriptedExchange:
        self.asked.append((method, path, headers, body))
        await asyncio.sleep(0)
        step = self.script.pop(0)
        if isinstance(step, TransportError):
            raise step
        status, value = step
        content = value if isinstance(value, bytes) else msgspec.json.encode(value)
        exchange = ScriptedExchange(status, content, self.headers)
        self.exchanges.append(exchange)
        return exchange

    async def close(self) -> None: ...


def site(*script: Scripted, headers: Sequence[tuple[bytes, bytes]] = ()) -> tuple[Site, ScriptedTransport]:
    """A site whose server answers from the script."""
    transport = ScriptedTransport(list(script), list(headers))
    return Site(transport, Endpoint.parse("http://127.0.0.1:1")), transport


async def turns(count: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_true(holds: Callable[[], Any], within_s: float = 9.0) -> None:
    """Wait for something to hold."""
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.005)
