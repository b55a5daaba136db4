"""Who may connect, who may use an idle connection again, and who waits, queues by turns (`turns.py`).

Knows connections only by what they tell (`key`, `is_stale`) and the number of them; knows nothing of bytes or of
addresses. A slot is the right to have one connection, open or being opened; there are never more than the limit.

Nobody waits while a connection idles or a slot is free: whatever is given back goes to the one who is next, as it is if
the key fits, else as the slot of a connection closed for it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from osmosis_bridge.upstream import TransportError
from osmosis_bridge.upstream.connection import Connection
from osmosis_bridge.upstream.turns import Turns

__all__ = ["Pool"]

CLOSED: Final = "the transport is closed"


class _Waiter:
    __slots__ = ("future", "key")

    def __init__(self, key: object, future: asyncio.Future[Connection | None]) -> None:
        self.key = key
        self.future = future

    @property
    def waits(self) -> bool:
        return not self.future.done()


class Pool:
    """The connections of one transport; the `Keeper` of each."""

    def __init__(self, limit: int, expiry: float) -> None:
        self._limit = limit
        self._expiry = expiry
        self._slots = 0
        self._open: set[Connection] = set()
        # Per key in the order they fell idle; a dict, since one that is lost leaves from the middle.
        self._idle: dict[object, dict[Connection, None]] = {}
        self._waiters: Turns[_Waiter] = Turns()
        self._sweeper: asyncio.TimerHandle | None = None
        self.closed = False

    @property
    def slots(self) -> int:
        """Connections open or being opened."""
        return self._slots

    @property
    def idle(self) -> int:
        """Connections kept for the next request."""
        return sum(map(len, self._idle.values()))

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return sum(1 for _ in self._waiters)

    def reuse(self, key: object) -> Connection | None:
        """The connection that fell idle last, if one is alive; whatever is found dead on the way is closed."""
        line = self._idle.get(key)
        if not line:
            return None
        oldest = asyncio.get_running_loop().time() - self._expiry
        while line:
            connection = next(reversed(line))
            if connection.idle_since >= oldest and not connection.is_stale():
                del line[connection]
                return connection
            connection.abort()
        return None

    async def slot(self, key: object, timeout: float, queue: str = "") -> Connection | None:
        """A slot to connect in (None), or a connection that was given back while waiting, in `queue`.

        Raises:
            TransportError: ``no_slot`` after ``timeout`` seconds.
        """
        self._refuse_if_closed()
        if self._slots >= self._limit:
            self._evict()
        if self._slots < self._limit:
            self._slots += 1
            return None
        waiter = _Waiter(key, asyncio.get_running_loop().create_future())
        self._waiters.join(queue, waiter)
        try:
            async with asyncio.timeout(timeout):
                return await waiter.future
        except BaseException as error:
            self._leave(queue, waiter)
            if isinstance(error, TimeoutError):
                busy = f"none of {self._limit} connections became free within {timeout:g} seconds"
                raise TransportError("no_slot", busy) from error
            raise

    def admit(self, connection: Connection) -> None:
        """A connection was opened in a slot."""
        if connection.closed:
            self.give_back_slot()
            return
        self._open.add(connection)
        if self.closed:
            connection.abort()

    def give_back_slot(self) -> None:
        """No connection came of a slot."""
        waiter = self._waiters.take()
        if waiter is None:
            self._slots -= 1
        else:
            waiter.future.set_result(None)

    def reusable(self, connection: Connection) -> None:
        """Keep a connection for the next request, or hand it to the one who waits."""
        if self.closed:
            connection.abort()
            return
        waiter = self._waiters.next()
        if waiter is None:
            self._rest(connection)
        elif waiter.key == connection.key:
            self._waiters.take()
            waiter.future.set_result(connection)
        else:
            connection.abort()

    def lost(self, connection: Connection) -> None:
        """A connection is gone: its slot is free."""
        line = self._idle.get(connection.key)
        if line is not None:
            line.pop(connection, None)
        if connection in self._open:
            self._open.remove(connection)
            self.give_back_slot()

    def close(self) -> None:
        """Close every connection and send away who waits."""
        self.closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        while waiter := self._waiters.take():
            waiter.future.set_exception(TransportError("connect", CLOSED))
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise TransportError("connect", CLOSED)

    def _leave(self, queue: str, waiter: _Waiter) -> None:
        """Stop waiting; what was already given goes to the next."""
        future = waiter.future
        if not future.done() or future.cancelled():
            self._waiters.leave(queue, waiter)
            return
        if future.exception() is not None:
            return
        given = future.result()
        if given is None:
            self.give_back_slot()
        elif not given.closed:
            self.reusable(given)

    def _rest(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(connection.key, {})[connection] = None
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._expiry, self._sweep)

    def _evict(self) -> None:
        """Close the connection that has idled longest, whoever it leads to."""
        oldest = [next(iter(line)) for line in self._idle.values() if line]
        if oldest:
            min(oldest, key=lambda connection: connection.idle_since).abort()

    def _sweep(self) -> None:
        self._sweeper = None
        loop = asyncio.get_running_loop()
        limit = loop.time() - self._expiry
        for key, line in list(self._idle.items()):
            for connection in [idle for idle in line if idle.idle_since <= limit or idle.is_stale()]:
                connection.abort()
            if not line:
                del self._idle[key]
        if self._idle:
            eldest = min(next(iter(line)).idle_since for line in self._idle.values())
            self._sweeper = loop.call_at(eldest + self._expiry, self._sweep)
