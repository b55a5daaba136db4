"""A connection of the upstream transport without a socket: bytes are put in by hand, what it does is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from osmosis_bridge.upstream import Timeouts
from osmosis_bridge.upstream.connection import Connection
from osmosis_bridge.upstream.exchange import HttpExchange


class FakeTransport(asyncio.Transport):
    """Takes everything; tells the connection of its end as an event loop does, one turn later."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False
        self.reading = True
        self.refuses = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.refuses:
            self.aborted = True
            return
        self.written += bytes(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for piece in list_of_data:
            self.write(piece)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class FakeKeeper:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.kept = 0
        self.losses = 0

    def reusable(self, connection: Connection) -> None:
        self.kept += 1

    def lost(self, connection: Connection) -> None:
        self.losses += 1


@dataclass(slots=True)
class Wire:
    """A connection, its fake socket and its fake keeper."""

    connection: Connection
    transport: FakeTransport
    keeper: FakeKeeper

    def ask(
        self, method: bytes = b"POST", body: bytes = b"{}", total_at: float | None = None
    ) -> HttpExchange:
        """Send a request, as at the end of the loop's turn."""
        exchange = self.connection.start(method, b"%b / HTTP/1.1\r\n\r\n" % method, body, total_at)
        self.connection.send()
        return exchange

    def say(self, *pieces: bytes) -> None:
        """Bytes arrive, one segment each, for as long as the connection is open."""
        for piece in pieces:
            if piece and not self.transport.aborted:
                self.connection.data_received(piece)

    def hang_up(self, error: Exception | None = None) -> None:
        """The other side closes; with an error, it resets."""
        if error is None and not self.transport.aborted:
            self.connection.eof_received()
        self.connection.connection_lost(error)


def wired(timeouts: Timeouts | None = None) -> Wire:
    """A connection that is open; inside a running loop."""
    keeper = FakeKeeper()
    transport = FakeTransport()
    connection = Connection(asyncio.get_running_loop(), keeper, "key", timeouts or Timeouts())
    connection.connection_made(transport)
    return Wire(connection, transport, keeper)
