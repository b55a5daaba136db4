"""The raw client: sends exactly the bytes it is given and keeps exactly those that come back.

No SDK and no HTTP library stand between a case and the socket. It judges nothing.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

from osmosis_bridge.conformance.reply import End, Reply, ReplyReader
from osmosis_bridge.conformance.upstream import Progress, reset


@dataclass(frozen=True, slots=True)
class Address:
    """Where the target listens."""

    host: str
    port: int
    tls: bool
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """From `http://host:port[/prefix]`; ValueError names what is wrong."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"target {url!r} is no http:// or https:// URL")
        tls = parts.scheme == "https"
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls, prefix)

    @property
    def authority(self) -> str:
        """Host and port as a Host header says them."""
        return f"{self.host}:{self.port}"


class Wire:
    """One connection to the target."""

    def __init__(self, address: Address, progress: Progress | None = None) -> None:
        self._address = address
        self._progress = progress or Progress()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context() if self._address.tls else None
        self._reader, self._writer = await asyncio.open_connection(
            self._address.host, self._address.port, ssl=context
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.transport.abort()

    async def send(self, data: bytes) -> None:
        """Write bytes; a target that has already closed is seen when reading."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            return

    async def reply(self, deadline: float = 15.0, *, bodiless: bool = False) -> Reply:
        """Read one reply, at most this many seconds; `bodiless` for a reply to HEAD."""
        reader, started = ReplyReader(bodiless=bodiless), time.monotonic()
        try:
            async with asyncio.timeout(deadline):
                end = await self._read_into(reader)
        except TimeoutError:
            end = "waiting"
        except (ConnectionError, ValueError):
            end = "cut"
        return reader.reply(end, time.monotonic() - started)

    async def _read_into(self, reader: ReplyReader) -> End:
        fed = 0
        while not reader.complete:
            data = await self._reader.read(65536)
            if not data:
                return "cut"
            reader.feed(data)
            self._progress.feed(bytes(reader.body[fed:]))
            fed = len(reader.body)
        return "clean"

    async def read_until(self, marker: bytes, deadline: float = 10.0) -> bool:
        """Read until these bytes have come; False when they did not."""
        try:
            async with asyncio.timeout(deadline):
                return await self._came(marker)
        except (TimeoutError, ConnectionError):
            return False

    async def _came(self, marker: bytes) -> bool:
        seen = bytearray()
        while marker not in seen:
            data = await self._reader.read(65536)
            if not data:
                return False
            seen += data
        return True

    def leave(self, how: Literal["fin", "rst"]) -> None:
        """Go away at once."""
        if how == "rst":
            reset(self._writer)
        else:
            self._writer.close()
