"""One HTTP/1.1 connection: sends a request, has the reply's bytes read, keeps the clock.

Knows flow control and time limits. Knows nothing of addresses, proxies or other connections: it tells its `Keeper`
when it can be used again and when it is gone.

A connection whose reply came whole is used again unless anything at all speaks against it: the reply says close, came
before the request was sent whole, was followed by another byte, answered HEAD, or was cut. No task runs here: bytes,
the end of the stream, room to write and the one timer arrive as callbacks.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final, Protocol, cast

from osmosis_bridge.crowd import crowd_of
from osmosis_bridge.upstream import Reason, Timeouts
from osmosis_bridge.upstream.exchange import HttpExchange
from osmosis_bridge.upstream.framing import Framing

if sys.platform != "win32":
    from select import POLLIN, poll

__all__ = ["Connection", "Keeper"]

HIGH_WATER: Final = 256 * 1024
"Undelivered body beyond which the socket is not read; one more read of at most 256 KiB may be on top of it."
_UPLOAD_SLICE: Final = 256 * 1024
# Copying a small body behind its head costs less than handing over two pieces.
_JOIN_LIMIT: Final = 64 * 1024
_FOREVER: Final = float("inf")
# Loops count in milliseconds; a timer that comes that much early is on time.
_TICK: Final = 0.002


class Keeper(Protocol):
    """What a connection reports to."""

    def reusable(self, connection: Connection) -> None:
        """The reply came whole and the next request may be sent."""
        ...

    def lost(self, connection: Connection) -> None:
        """The connection is closed; told once."""
        ...


class Connection(asyncio.Protocol):
    """A connection with at most one exchange at a time."""

    __slots__ = (
        "_crowd",
        "_exchange",
        "_framing",
        "_idle",
        "_keeper",
        "_loop",
        "_probe",
        "_reading_paused",
        "_request",
        "_stamp",
        "_timer",
        "_total_at",
        "_transport",
        "_unsent",
        "_writing_paused",
        "closed",
        "idle_since",
        "key",
        "unsent",
        "used",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, keeper: Keeper, key: object, timeouts: Timeouts
    ) -> None:
        self.key = key
        self.closed = False
        self.used = False
        self.unsent = False
        "Whether it was lost before a byte of its last request was sent."
        self.idle_since = 0.0
        self._loop = loop
        self._crowd = crowd_of(loop)
        self._keeper = keeper
        self._idle = _FOREVER if timeouts.idle is None else timeouts.idle
        self._transport: asyncio.Transport | None = None
        self._framing = Framing()
        self._probe: poll | None = None
        self._exchange: HttpExchange | None = None
        self._request = b""
        self._unsent: memoryview | None = None
        self._reading_paused = False
        self._writing_paused = False
        self._stamp = 0.0
        self._total_at = _FOREVER
        self._timer: asyncio.TimerHandle | None = None

    # What the transport does with it.

    def start(self, method: bytes, head: bytes, body: bytes, total_at: float | None) -> HttpExchange:
        """Send a request, now or at the end of this turn; see `unsent` for one that could not be sent."""
        exchange = self._exchange = HttpExchange(self._loop, self)
        self._framing.begin(exchange, method)
        self._total_at = _FOREVER if total_at is None else total_at
        self._request = head
        if len(body) <= _JOIN_LIMIT:
            self._request += body
            if self._crowd.together:
                self._loop.call_soon(self.send)
            else:
                self.send()
        else:
            self._unsent = memoryview(body)
            self.send()
        if self._timer is None and not self.closed:
            self._arm()
        return exchange

    def is_stale(self) -> bool:
        """Whether an idle connection was closed by the other side, or spoke unasked, so far as this side can know.

        The event loop may not have come round to it yet, so the socket itself is asked.
        """
        if self.closed or self._transport is None or self._transport.is_closing():
            return True
        return self._probe is not None and bool(self._probe.poll(0))

    @property
    def reply_began(self) -> bool:
        """Whether any byte came in answer to the last request."""
        return self._framing.began

    # What an exchange does with it.

    def awaited(self) -> None:
        """The reader waits: silence counts from here."""
        self._stamp = self._loop.time()

    def drained(self) -> None:
        """The reader took everything: read on if reading had stopped."""
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the socket now, whatever is on its way, and give the slot back."""
        if self._request:
            self.unsent = True
            self._request = b""
        exchange, self._exchange = self._exchange, None
        if not self.closed:
            self._close()
        if exchange is not None and exchange.line is not None:
            exchange.fail("cut", "the connection was closed")

    # What the event loop does with it.

    def send(self) -> None:
        """Send the request that was started, or its head where the body is a large one, unless it is out."""
        transport = self._transport
        if not self._request:
            return
        if transport is None or transport.is_closing():
            self.abort()
            return
        if self._unsent is None or len(self._unsent) > _UPLOAD_SLICE:
            transport.write(self._request)
        else:
            transport.writelines((self._request, self._unsent))
            self._unsent = None
        if transport.is_closing():
            # The first send was refused on the spot: what refuses it takes none of it.
            self.abort()
            return
        self._request = b""
        self._upload()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket's transport."""
        if self.closed:
            cast("asyncio.Transport", transport).abort()
            return
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sys.platform != "win32" and sock is not None:
            self._probe = poll()
            self._probe.register(sock.fileno(), POLLIN)

    def data_received(self, data: bytes) -> None:
        """Hand what came to the exchange; unasked for, it ends the connection."""
        exchange = self._exchange
        if exchange is None or self._request:
            self.abort()
            return
        if not exchange.started:
            self._crowd.arrived(self._loop)
        self._stamp = self._loop.time()
        problem = self._framing.feed(data)
        if problem is not None:
            self._fail("malformed", problem)
            return
        if exchange.pieces:
            exchange.arrived()
        if exchange.ended:
            self._finish(exchange)
        elif exchange.failure is not None:
            self.abort()
        elif exchange.buffered > HIGH_WATER and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """End a body that ends with its connection; anything else is cut."""
        exchange = self._exchange
        if exchange is None or self._request:
            self.abort()
        elif exchange.started and not exchange.framed:
            exchange.ended = True
            self._finish(exchange)
        else:
            self._fail("cut", self._where_cut(exchange))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what was being read."""
        exchange = self._exchange
        self._transport = None
        if exchange is not None:
            self._fail("cut", self._where_cut(exchange))
        self.abort()

    def pause_writing(self) -> None:
        """Stop sending a large body."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """Go on sending a large body."""
        self._writing_paused = False
        self._stamp = self._loop.time()
        self._upload()

    # Its own steps.

    def _close(self) -> None:
        self.closed = True
        self._unsent = None
        self._framing.drop()
        self._probe = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._keeper.lost(self)

    def _where_cut(self, exchange: HttpExchange) -> str:
        if exchange.started:
            return "the connection closed before the reply's end"
        if self._framing.began:
            return "the connection closed inside the reply's head"
        return "the connection closed without a reply"

    def _finish(self, exchange: HttpExchange) -> None:
        """The body is complete: part with the exchange, and with the connection unless it is spotless."""
        self._exchange = None
        exchange.line = None
        exchange.wake()
        if not self._framing.keep or self._unsent is not None:
            self.abort()
            return
        self.used = True
        self.drained()
        self._keeper.reusable(self)

    def _fail(self, reason: Reason, detail: str) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.fail(reason, detail)
        self.abort()

    def _upload(self) -> None:
        """Hand over one slice a turn of the loop while there is room, so that an early reply stops the rest."""
        unsent, transport = self._unsent, self._transport
        if unsent is None or transport is None or self._writing_paused:
            return
        transport.write(unsent[:_UPLOAD_SLICE])
        self._unsent = unsent[_UPLOAD_SLICE:] if len(unsent) > _UPLOAD_SLICE else None
        if self._unsent is not None and not self._writing_paused:
            self._loop.call_soon(self._upload)

    def _arm(self) -> None:
        """Set the one timer: never later than any limit can be reached, and looked at only when it fires."""
        at = min(self._total_at, self._loop.time() + self._idle)
        if at != _FOREVER:
            self._timer = self._loop.call_at(at, self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._timer = None
        exchange = self._exchange
        if exchange is None:
            return
        now = self._loop.time()
        idle_at = self._stamp + self._idle if exchange.is_awaited else now + self._idle
        if now + _TICK >= self._total_at:
            self._fail("timeout_total", "the exchange took longer than it may")
        elif now + _TICK >= idle_at:
            what = "the next byte" if exchange.started else "a reply"
            self._fail("timeout_idle", f"{what} did not come within {self._idle:g} seconds")
        else:
            self._timer = self._loop.call_at(min(self._total_at, idle_at), self._look_at_clock)
