"""A call on a connection: its body as it comes in, and its reply, written straight to the socket.

One task answers it, and is cancelled when its client leaves before the reply has ended. Knows HTTP's framing; knows
neither the parser nor what the answer is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.door.head import reply_head
from osmosis_bridge.entry import Headers
from osmosis_bridge.errors import Refused

_CLOSE = (b"connection", b"close")
_CHUNKED = (b"transfer-encoding", b"chunked")


class Line(Protocol):
    """What a call asks of its connection."""

    loop: asyncio.AbstractEventLoop
    full: bool
    tasks: set[asyncio.Task[None]]

    def usual_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every reply."""
        ...

    def write(self, piece: bytes) -> None:
        """Send bytes at the end of this turn of the loop, or keep them until there is room."""
        ...

    def write_last(self, *pieces: bytes) -> None:
        """The same for the last bytes of a reply, which need not wait where nothing else is to be sent."""
        ...

    async def room(self) -> None:
        """Wait until a slow client has taken what was written, or has left."""
        ...

    def ended(self, *, keep: bool) -> None:
        """The reply is written to its end; the connection is used again if it may be kept."""
        ...

    def break_off(self) -> None:
        """Close the connection, after what was written."""
        ...


class InboundCall:
    """One call: what `BridgeApp.answer` asks about (`Asked`), and where its answer goes (`Reply`)."""

    __slots__ = (
        "_answer", "_begins", "_begun", "_complete", "_continue", "_fault", "_held", "_line", "_pieces",
        "_size", "_task", "_waiter", "chunks", "dialect", "finished", "headers", "keep", "lines",
        "rollout_id", "started",
    )  # fmt: skip

    def __init__(
        self,
        line: Line,
        answer: Callable[[InboundCall, InboundCall], Awaitable[None]],
        dialect: Dialect,
        rollout_id: str | None,
        lines: list[tuple[bytes, bytes]],
    ) -> None:
        self._line = line
        self._answer = answer
        self.dialect = dialect
        self.rollout_id = rollout_id
        self.lines = lines
        self.headers = dict(lines)
        self.keep = True
        self.started = self.finished = False
        self.chunks = True
        """Whether the client knows chunks; if not, a reply in pieces is collected and sent whole, with its length."""
        self._held: list[bytes] = []
        self._begins: tuple[int, Headers] = (500, ())
        self._pieces: list[bytes] = []
        self._size = 0
        self._complete = False
        self._continue = self.headers.get(b"expect", b"").lower() == b"100-continue"
        self._fault: Refused | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False

    # What the connection does with it.

    def begin(self) -> None:
        """Answer it, in a task of its own."""
        line = self._line
        # The server that was told to stop waits for these tasks, and cancels them after its grace time.
        task = self._task = line.loop.create_task(self._run())
        line.tasks.add(task)

    def take(self, piece: bytes) -> None:
        """A piece of the body came."""
        if not self.finished:
            self._pieces.append(piece)
            self._size += len(piece)
            self._news()

    def complete(self) -> None:
        """The body is whole."""
        self._complete = True
        self._news()

    def broken(self, fault: Refused) -> None:
        """What follows is not HTTP: whoever waits for the body is told."""
        self.keep = False
        self._fault = fault
        self._news()

    def leave(self) -> None:
        """The client has left."""
        task = self._task
        if self.finished or task is None:
            return
        task.cancel("the client left")
        if not self._begun:
            # A task that is cancelled before its first step runs none of its code.
            self._line.tasks.discard(task)

    def pause(self) -> None:
        """Nothing to do: `Line.full` is looked at before each write."""

    resume = pause

    # What the application does with it.

    async def body(self, limit: int) -> bytes:
        """The body as it came; raises `Refused` where it is broken; beyond `limit` bytes it is cut off."""
        if self._continue and self.chunks:
            self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._complete and self._size <= limit:
            if self._fault is not None:
                raise self._fault
            self._waiter = self._line.loop.create_future()
            await self._waiter
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete reply."""
        line = self._line
        head = self._head(status, headers, (b"content-length", b"%d" % len(body)))
        if line.full:
            await line.room()
        self.started = self.finished = True
        line.write_last(head, body)
        line.ended(keep=self.keep)

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of a reply whose body follows in pieces."""
        self.started = True
        # Nobody asks for them any more, and a stream may be long.
        self.lines = []
        self.headers = {}
        if not self.chunks:
            self._begins = (status, headers)
            return
        self._line.write(self._head(status, headers, _CHUNKED))

    async def send(self, piece: bytes) -> None:
        """Send a piece of the body, once there is room for it."""
        while not self.push(piece):
            await self._line.room()

    def push(self, piece: bytes) -> bool:
        """Send a piece of the body if there is room for it; whether there was."""
        line = self._line
        if line.full:
            return False
        if not piece:
            # A chunk of no bytes would be the end.
            return True
        if not self.chunks:
            self._held.append(piece)
        else:
            line.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return True

    async def end(self, piece: bytes) -> None:
        """Send the last piece."""
        line = self._line
        if not self.chunks:
            await self.whole(*self._begins, b"".join((*self._held, piece)))
            return
        if line.full:
            await line.room()
        self.finished = True
        line.write_last(b"%x\r\n%b\r\n0\r\n\r\n" % (len(piece), piece) if piece else b"0\r\n\r\n")
        line.ended(keep=self.keep)

    # Its own steps.

    async def _run(self) -> None:
        self._begun = True
        try:
            await self._answer(self, self)
        finally:
            task = self._task
            if task is not None:
                self._line.tasks.discard(task)
            if not self.finished:
                # A reply that has begun and not ended must not look whole.
                self.finished = True
                self._line.break_off()

    def _head(self, status: int, headers: Headers, framing: tuple[bytes, bytes]) -> bytes:
        lines = [*self._line.usual_headers(), *headers, framing]
        if _CLOSE in headers:
            self.keep = False
        elif not self.keep:
            lines.append(_CLOSE)
        return reply_head(status, lines)

    def _news(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
