"""One client's connection: its requests, one after another, and what becomes of it.

The protocol class of uvicorn's server, which keeps the sockets, the signals and the end of all. A call goes straight to
`BridgeApp.answer`, any other request through ASGI. Reads HTTP/1.1 by way of httptools (llhttp, with none of its
leniencies on).

Rules for whoever edits this file: replies leave in the order of their requests; nothing is written into a reply but by
its own request; a client that leaves is told to its request at once; a connection that asks nothing is closed after
`timeout_keep_alive` seconds, one whose request cannot be read after one error, or after the reply that is under way.

What is written in a turn of the loop leaves at its end, beside what the other connections were given; the end of a
reply leaves at once where no other call was heard (`crowd.py`).
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.server import ServerState

from osmosis_bridge.app import BridgeApp, call_path
from osmosis_bridge.asgi import App
from osmosis_bridge.crowd import crowd_of
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.door.call import InboundCall
from osmosis_bridge.door.head import reply_head
from osmosis_bridge.door.other import OtherRequest, scope_of
from osmosis_bridge.errors import Refused

HEAD_LIMIT: Final = 64 * 1024
"""Most bytes of a request's line and headers; also of all else that is not body between two pieces of it."""
HEADER_COUNT_LIMIT: Final = 200
_HELD_LIMIT: Final = 64 * 1024
"""Bytes kept for the end of the turn; copying them into one piece costs less than handing over several."""
# Loops count in milliseconds; a timer that comes that much early is on time.
_TICK: Final = 0.002
# What a client says when it offers to go on in HTTP/2 or over a web socket.
_OFFERS: Final = frozenset({b"upgrade", b"http2-settings"})
_CLOSING: Final = ((b"connection", b"close"),)
_log = logging.getLogger("uvicorn.error")


class Door(asyncio.Protocol):
    """A connection with at most one reply under way."""

    __slots__ = (
        "_active", "_app", "_calls", "_closed", "_connections", "_crowd", "_deaf", "_head_size", "_headers",
        "_held", "_idle_since", "_in_head", "_keep_alive_s", "_parser", "_parsing", "_quiet", "_room",
        "_state", "_target", "_timer", "_too_large", "_unsent", "_waiting", "full", "loop", "tasks",
        "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.loop = _loop or asyncio.get_running_loop()
        self._crowd = crowd_of(self.loop)
        self.tasks = server_state.tasks
        self.full = False
        self._state = server_state
        # uvicorn names the protocols it knows; what it asks of one is `shutdown`.
        self._connections = cast("set[Door]", server_state.connections)
        self._app = cast("App", config.app)
        self._calls = config.app if isinstance(config.app, BridgeApp) else None
        self._keep_alive_s = config.timeout_keep_alive
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._active: InboundCall | OtherRequest | None = None
        self._parsing: InboundCall | OtherRequest | None = None
        self._waiting: list[InboundCall | OtherRequest] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._room: asyncio.Event | None = None
        self._unsent: list[bytes] = []
        self._held = 0
        self._idle_since = 0.0
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = self._quiet = 0
        self._in_head = self._too_large = self._deaf = self._closed = False

    # What the event loop does with it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket's transport."""
        self.transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        parser = self._parser
        if parser is None or self._deaf:
            return
        self._quiet += len(data)
        if self._parsing is None:
            self._crowd.arrived(self.loop)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay(parser, data[upgrade.args[0] :])
        except httptools.HttpParserError:
            if not self._deaf:
                self._broken()
        else:
            if self._quiet > HEAD_LIMIT and (self._in_head or self._parsing is not None):
                self._too_large = True
                self._broken()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered; nobody waits for the others."""
        self._closed = True
        self._connections.discard(self)
        # Parser and connection hold each other; this frees both without a collection.
        self._parser = self._parsing = self._waiting = None
        self._unsent.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        active, self._active = self._active, None
        if active is not None:
            active.leave()
        self.resume_writing()

    def pause_writing(self) -> None:
        """The client is slow: nothing more is written for a while."""
        self.full = True
        if self._active is not None:
            self._active.pause()

    def resume_writing(self) -> None:
        """The client has caught up, or is gone."""
        self.full = False
        room, self._room = self._room, None
        if room is not None:
            room.set()
        if self._active is not None:
            self._active.resume()

    # What uvicorn's server does with it.

    def shutdown(self) -> None:
        """Close after the request that came last, now if there is none."""
        last = self._last
        if last is None:
            self.break_off()
        else:
            last.keep = False

    # What the parser does with it.

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._deaf:
            raise httptools.HttpParserError("nothing follows a request that closes its connection")
        self._in_head = True
        self._target = b""
        self._headers = []
        self._head_size = self._quiet = 0
        self._idle_since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        """Keep the request's target, or a piece of it."""
        self._head_size += len(url)
        if self._head_size > HEAD_LIMIT:
            self._refuse_head()
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header; a trailer is only counted."""
        self._head_size += len(name) + len(value)
        if self._in_head:
            headers = self._headers
            headers.append((name.lower(), value))
            if len(headers) > HEADER_COUNT_LIMIT:
                self._head_size += HEAD_LIMIT
        if self._head_size > HEAD_LIMIT:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        """Begin to answer, unless a reply is under way."""
        parser = self._parser
        self._in_head = False
        if parser is None or parser.should_upgrade():
            return
        request = self._parsing = self._request(parser)
        self._headers = []  # a stream may be long, and nobody asks this connection for them
        if self._active is None:
            self._active = request
            request.begin()
        elif self._waiting:
            self._waiting.append(request)
        else:
            self._waiting = [request]
            self.transport.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Hand on a piece of the body."""
        self._quiet = 0
        if self._parsing is not None:
            self._parsing.take(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        request, self._parsing = self._parsing, None
        if request is not None:
            self._deaf = not request.keep
            request.complete()

    # What a request does with it.

    def usual_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every reply."""
        return self._state.default_headers

    def write(self, piece: bytes) -> None:
        """Send bytes at the end of this turn of the loop, at once where they are many."""
        if self._closed:
            return
        if not self._unsent:
            self.loop.call_soon(self._send)
        self._unsent.append(piece)
        self._held += len(piece)
        if self._held > _HELD_LIMIT:
            self._send()

    def write_last(self, *pieces: bytes) -> None:
        """Send the last bytes of a reply, with what was kept, now or at the end of this turn."""
        if self._crowd.together:
            for piece in pieces:
                self.write(piece)
        elif not self._closed:
            self._unsent += pieces
            self._held += sum(map(len, pieces))
            self._send()

    async def room(self) -> None:
        """Wait until the client has taken what was written, or has left."""
        while self.full:
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def ended(self, *, keep: bool) -> None:
        """The reply under way is written to its end: go on to the next request, or wait for one."""
        self._state.total_requests += 1
        self._active = None
        if not keep or self._closed:
            self.break_off()
        elif self._waiting:
            self._send()  # an `OtherRequest` writes by itself
            self._active = self._waiting.pop(0)
            if not self._waiting:
                self.transport.resume_reading()
            self._active.begin()
        else:
            self._idle_since = self.loop.time()
            if self._timer is None:
                self._timer = self.loop.call_later(self._keep_alive_s, self._look_at_clock)

    def break_off(self) -> None:
        """Close the connection, after what was written."""
        if not self._closed:
            self._send()
            self._closed = self._deaf = True
            self.transport.close()

    def refuse(self, fault: Refused) -> None:
        """Answer what is not HTTP, and close the connection."""
        body = fault.body()
        headers = (
            *self.usual_headers(),
            (b"content-type", b"application/json"),
            (b"x-osmosis-error-origin", fault.origin.encode()),
            *fault.headers,
            (b"content-length", b"%d" % len(body)),
        )
        self.write(reply_head(fault.status, headers) + body)
        self.break_off()

    # Its own steps.

    def _send(self) -> None:
        """Hand what was kept to the socket."""
        pieces, transport = self._unsent, self.transport
        if not pieces or transport.is_closing():
            return
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif self._held <= _HELD_LIMIT:
            transport.write(b"".join(pieces))
        else:
            transport.writelines(pieces)
        self._unsent = []
        self._held = 0

    @property
    def _last(self) -> InboundCall | OtherRequest | None:
        """The request that came last and is not answered."""
        return self._waiting[-1] if self._waiting else self._active

    def _request(self, parser: httptools.HttpRequestParser) -> InboundCall | OtherRequest:
        """What was asked, its head being read."""
        version, method = parser.get_http_version(), parser.get_method()
        target, headers = self._target, self._headers
        keep = version == "1.1" and parser.should_keep_alive()
        dialect, rollout_id = (
            _meant(target) if method == b"POST" and self._calls is not None else (None, None)
        )
        if dialect is None or self._calls is None:
            scope = scope_of(method.decode("ascii"), target, version, headers, self.transport)
            return OtherRequest(self, self._app, scope, keep=keep)
        call = InboundCall(self, self._calls.answer, dialect, rollout_id, headers)
        call.keep = keep
        call.chunks = version == "1.1"
        return call

    def _stay(self, parser: httptools.HttpRequestParser, rest: bytes) -> None:
        """Read on in HTTP/1.1 where a client offers another protocol, as Java's does with each first request.

        The parser stops at the end of such a head, so the head is read once more without the offer.
        """
        method = parser.get_method()
        if method == b"CONNECT":
            self._broken()
            return
        lines = [method + b" " + self._target + b" HTTP/" + parser.get_http_version().encode("ascii")]
        for name, value in self._headers:
            if name == b"connection":
                value = b",".join(
                    token for token in value.split(b",") if token.strip().lower() not in _OFFERS
                )
            if name not in _OFFERS:
                lines.append(name + b": " + value)
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _refuse_head(self) -> None:
        self._too_large = True
        raise httptools.HttpParserError("too many headers")

    def _broken(self) -> None:
        """No more can be read. It is said where no reply is under way, or to the request whose body it is."""
        _log.warning("Invalid HTTP request received.")
        self._deaf = True
        broken, self._parsing = self._parsing, None
        fault = _unreadable(too_large=self._too_large)
        if broken is not None and broken is self._active:
            broken.broken(fault)
        elif self._active is not None:
            if broken is not None and self._waiting:
                self._waiting.remove(broken)
            cast("InboundCall | OtherRequest", self._last).keep = False
        elif broken is None:
            self.refuse(fault)
        else:
            # Its reply is out already.
            self.break_off()

    def _look_at_clock(self) -> None:
        self._timer = None
        if self._active is not None or self._closed:
            return
        left = self._idle_since + self._keep_alive_s - self.loop.time()
        if left <= _TICK:
            self.break_off()
        else:
            self._timer = self.loop.call_later(left, self._look_at_clock)


def _unreadable(*, too_large: bool) -> Refused:
    if too_large:
        message = "the headers are too large"
        return Refused(message, status=431, code="headers_too_large", headers=_CLOSING)
    return Refused("Invalid HTTP request received.", code="invalid_http", headers=_CLOSING)


# The same few targets come with every call of a rollout.
@lru_cache(maxsize=1024)
def _meant(target: bytes) -> tuple[Dialect | None, str | None]:
    """Which dialect a request of this target speaks, and for which rollout; see `call_path`."""
    path = (httptools.parse_url(target).path or b"").decode("ascii")
    return call_path(unquote(path) if "%" in path else path)
