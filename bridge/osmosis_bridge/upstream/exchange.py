"""One reply as its reader sees it: status, headers, and the body decoded as it comes.

Knows what has arrived and who waits for more. Knows nothing of framing or of pools: a `Line` fills it and is told when
it is drained or given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from osmosis_bridge.upstream import Reason, TransportError
from osmosis_bridge.upstream.decoding import Decoding, decoding_of

__all__ = ["HttpExchange", "Line"]


class Line(Protocol):
    """What an exchange asks of the connection that fills it."""

    def awaited(self) -> None:
        """Somebody waits for bytes from now on."""
        ...

    def drained(self) -> None:
        """All that had arrived was taken."""
        ...

    def abort(self) -> None:
        """Close the socket at once."""
        ...


class HttpExchange:
    """One reply being read (the `Exchange` of HTTP/1.1); one reader at a time.

    The connection fills it through the attributes below and lets go of it when the body is complete, so an exchange
    that was read to its end holds no connection, closed or not.
    """

    __slots__ = (
        "_decoding",
        "_failure",
        "_loop",
        "_take_now",
        "_waiter",
        "buffered",
        "codings",
        "ended",
        "framed",
        "headers",
        "line",
        "pieces",
        "started",
        "status",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, line: Line) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.framed = False
        "Whether the body's end was declared (a length, chunks, no body). If not, it ends where the connection did."
        self.started = False
        "Whether the head is here."
        self.ended = False
        "Whether the last byte of the body has arrived; it may not have been taken."
        self.line: Line | None = line
        self.pieces: list[bytes] = []
        self.buffered = 0
        self.codings: list[bytes] | None = None
        "The values of content-encoding, until the decoding is made of them."
        self._decoding: Decoding | None = None
        self._failure: TransportError | None = None
        self._loop = loop
        self._waiter: asyncio.Future[bool] | None = None
        self._take_now: Callable[[bytes], bool] | None = None

    def header(self, name: bytes) -> bytes | None:
        """The first value of a lower-case header name."""
        for given, value in self.headers:
            if given == name:
                return value
        return None

    async def head(self) -> None:
        """Wait for the status and headers."""
        while not self.started:
            self._raise_failure()
            await self._news()

    async def chunk(self) -> bytes:
        """All of the body that is here, decoded; waits if nothing is; ``b""`` at the clean end."""
        while not (piece := self._here()):
            self._raise_failure()
            if self.ended:
                return b""
            await self._news()
        return piece

    async def pour(self, take: Callable[[bytes], bool]) -> bool:
        """See `Exchange.pour`; what is decoded is handed over a turn later, by the reader itself."""
        while True:
            while piece := self._here():
                if not take(piece):
                    return True
            self._raise_failure()
            if self.ended:
                return False
            self._take_now = take
            try:
                if await self._news():
                    return True
            finally:
                self._take_now = None

    async def whole(self, limit: int) -> bytes:
        """The rest of the body; more than ``limit`` bytes of it raise ``too_large`` and close the connection."""
        pieces: list[bytes] = []
        size = 0
        if self.ended and 0 < self.buffered <= limit and self.codings is None and self._decoding is None:
            return self._take()
        while piece := await self.chunk():
            size += len(piece)
            if size > limit:
                self.close()
                raise TransportError("too_large", f"the reply's body is larger than {limit} bytes")
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Give up what has not been read; an unfinished reply closes its connection at once."""
        self._give_up("cut", "the exchange was closed before its end")

    def fail(self, reason: Reason, detail: str) -> None:
        """No more will come; what had arrived can still be taken."""
        self.line = None
        if self._failure is None:
            self._failure = TransportError(reason, detail)
        self.wake()

    def arrived(self) -> None:
        """Hand on what came of the body, or tell the reader that it is here."""
        take, waiter = self._take_now, self._waiter
        packed = self._decoding is not None or self.codings is not None
        if take is None or waiter is None or waiter.done() or packed:
            self.wake()
            return
        try:
            going_on = take(self._take())
        except Exception as error:  # noqa: BLE001 - the reader's own, and raised to the reader
            self._waiter = None
            waiter.set_exception(error)
            return
        if not going_on:
            self._waiter = None
            waiter.set_result(True)

    def wake(self) -> None:
        """Tell the reader, if one waits, that something changed."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(False)

    @property
    def failure(self) -> TransportError | None:
        """Why no more will come."""
        return self._failure

    @property
    def is_awaited(self) -> bool:
        """Whether a reader waits."""
        return self._waiter is not None and not self._waiter.done()

    def _news(self) -> asyncio.Future[bool]:
        """What `wake` completes with False, `arrived` with True. A cancelled wait leaves everything as it was."""
        if self.is_awaited:
            raise RuntimeError("two readers wait on one exchange")
        if self.line is not None:
            self.line.awaited()
        self._waiter = self._loop.create_future()
        return self._waiter

    def _here(self) -> bytes:
        """All of the body that is here, decoded, ``b""`` if nothing is."""
        if self._decoding is None and self.codings is None:
            return self._take() if self.pieces else b""
        return self._decoded()

    def _take(self) -> bytes:
        pieces = self.pieces
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.buffered = 0
        if self.line is not None:
            self.line.drained()
        return piece

    def _decoded(self) -> bytes:
        try:
            if self._decoding is None:
                codings, self.codings = self.codings or (), None
                self._decoding = decoding_of(codings)
                if self._decoding is None:
                    return self._take() if self.pieces else b""
            return self._unfold(self._decoding)
        except TransportError as error:
            self._give_up(error.reason, error.detail)
            raise

    def _unfold(self, decoding: Decoding) -> bytes:
        piece = decoding.read()
        if not piece and self.pieces:
            decoding.feed(self._take())
            piece = decoding.read()
        if not piece and self.ended and self._failure is None:
            decoding.finish()
        return piece

    def _give_up(self, reason: Reason, detail: str) -> None:
        line, self.line = self.line, None
        whole = self.ended and not self.pieces and self._decoding is None
        self.pieces.clear()
        self.buffered = 0
        if self._failure is None and not whole:
            self._failure = TransportError(reason, detail)
        if line is not None:
            line.abort()
        self.wake()

    def _raise_failure(self) -> None:
        # A new one each time: an exception raised twice grows its traceback.
        if self._failure is not None:
            raise TransportError(self._failure.reason, self._failure.detail)
