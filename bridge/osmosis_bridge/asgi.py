"""A call that comes by way of ASGI, and its reply: on any server, and in tests on none.

The bridge's own server brings calls by a shorter way (`door/`). Knows no dialect's text and no provider.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Self

from osmosis_bridge.departure import watched
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.entry import Headers
from osmosis_bridge.errors import Refused

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiCall:
    """A call that comes by way of ASGI; within its context the task that serves it ends when the client leaves."""

    def __init__(
        self, scope: Scope, receive: Receive, dialect: Dialect, rollout_id: str | None, reply: AsgiReply
    ) -> None:
        self.dialect = dialect
        self.rollout_id = rollout_id
        self.lines: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.headers = dict(self.lines)
        self._receive = receive
        self._reply = reply
        self._left = False
        self._exits = contextlib.AsyncExitStack()
        self._serving = asyncio.current_task()

    async def __aenter__(self) -> Self:
        if self._serving is None:
            raise RuntimeError("a call is served within a task")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        await self._exits.aclose()
        left = self._left and self._serving is not None and self._serving.uncancel() == 0
        return left and kind is asyncio.CancelledError

    async def body(self, limit: int) -> bytes:
        """The body; once it is whole, the client's leaving is watched for."""
        pieces: list[bytes] = []
        size = 0
        more = True
        while more and size <= limit:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Refused("the client left before its request was complete", code="client_left")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            more = message.get("more_body", False)
        departure = await self._exits.enter_async_context(watched(self._receive))
        departure.tell(self._leave)
        return b"".join(pieces)

    def _leave(self) -> None:
        if self._serving is not None and not self._reply.finished:
            self._left = True
            self._serving.cancel("the client left")


class _Held:
    """A reply that waits for its end."""

    __slots__ = ("head", "pieces")

    def __init__(self) -> None:
        self.head: tuple[int, Headers] = (500, ())
        self.pieces: list[bytes] = []


class AsgiReply:
    """A reply on an ASGI `send`.

    A client of HTTP/1.0 knows no chunks: without `in_pieces` a stream is collected and sent whole, with its length.
    """

    __slots__ = ("_held", "_send", "finished", "started")

    def __init__(self, send: Send, *, in_pieces: bool = True) -> None:
        self._send = send
        self._held: _Held | None = None if in_pieces else _Held()
        self.started = False
        self.finished = False

    async def pass_on(self, message: Message) -> None:
        """Send what another application says."""
        self.started = True
        await self._send(message)

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete reply."""
        self.started = True
        length = (b"content-length", str(len(body)).encode())
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        self.finished = True
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of a reply whose body follows in pieces."""
        self.started = True
        if self._held is not None:
            self._held.head = (status, headers)
            return
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def send(self, piece: bytes) -> None:
        """Send a piece of the body."""
        if self._held is not None:
            self._held.pieces.append(piece)
            return
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    def push(self, piece: bytes) -> bool:
        """Every message is waited for."""
        return False

    async def end(self, piece: bytes) -> None:
        """Send the last piece."""
        if self._held is not None:
            status, headers = self._held.head
            await self.whole(status, headers, b"".join((*self._held.pieces, piece)))
            return
        self.finished = True
        await self._send({"type": "http.response.body", "body": piece})
