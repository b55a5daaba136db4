"""Word of clients that leave before their reply has ended. Knows nothing of what is served."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any


class Departure:
    """Tells those who serve a connection that its client has left; the server calls `leave`, once."""

    __slots__ = ("_gone", "_told")

    def __init__(self) -> None:
        self._gone = False
        self._told: set[Callable[[], None]] = set()

    def tell(self, who: Callable[[], None]) -> None:
        """Call `who` when the client leaves; at once if it has left already."""
        self._told.add(who)
        if self._gone:
            who()

    def forget(self, who: Callable[[], None]) -> None:
        """Do not call `who` any more."""
        self._told.discard(who)

    def leave(self) -> None:
        """The client has left."""
        self._gone = True
        for who in tuple(self._told):
            who()


@contextlib.asynccontextmanager
async def watched(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> AsyncGenerator[Departure]:
    """The departure of a request's client on any server, from ASGI's `receive`; it takes a task."""
    departure = Departure()

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        departure.leave()

    # No task group: it would wait for a watcher that only ends when the client leaves. It is cancelled below, always.
    watcher = asyncio.get_running_loop().create_task(watch())
    try:
        yield departure
    finally:
        watcher.cancel()
