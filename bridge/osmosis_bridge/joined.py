"""A connection's writes of one turn of the event loop, joined into one system call.

An HTTP server writes the head of a reply and its body apart, and a busy stream several events at once. Nothing waits
longer for it: what was written is handed to the system before the loop looks for new work. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from typing import Any


class JoinedWrites:
    """A transport whose `write` collects and whose end of turn sends; everything else is the transport's own."""

    __slots__ = ("_loop", "_pending", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []

    def write(self, piece: bytes) -> None:
        """Send `piece` at the end of this turn of the loop."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(piece)

    def close(self) -> None:
        """Send what was written, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        pending = self._pending
        if pending:
            self._transport.write(pending[0] if len(pending) == 1 else b"".join(pending))
            pending.clear()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self._transport, name)
