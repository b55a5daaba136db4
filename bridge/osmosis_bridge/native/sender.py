"""Where an answer of the native lane goes: an ASGI `send`, as it is or through a translation.

Both senders take an answer the same way: a head, pieces and an end, or all at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.native.spoken.answer import Answer, BrokenOff
from osmosis_bridge.sse import encode_event

Headers = list[tuple[bytes, bytes]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON_TYPE: Final = (b"content-type", b"application/json")
SSE_TYPE: Final = (b"content-type", b"text/event-stream; charset=utf-8")
_LARGEST: Final = 512 * 1024 * 1024
_ONE_BODY: Final = (b"{", b"[", b"<")
"""How no line of a stream of events begins."""


class Sender:
    """A reply on an ASGI `send`."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head."""
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, piece: bytes) -> None:
        """Send some bytes of the body."""
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self) -> None:
        """The body is complete."""
        await self._send({"type": "http.response.body", "body": b""})

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a reply at once."""
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        await self._send({"type": "http.response.body", "body": body})

    async def fail(self, error: BridgeError) -> None:
        """Send an error as the reply, unless one has begun."""
        origin = (b"x-osmosis-error-origin", error.origin.encode())
        if not self.started:
            await self.whole(error.status, [JSON_TYPE, origin, *error.headers], error.body())


class SpokenSender:
    """A chat completion on its way to a client of another dialect; errors pass as they are.

    Nothing is sent before there is something to say, so that a stream whose first event is an error is an error.
    `stream` is what was asked for, and decides on a body that does not say what it is.
    """

    def __init__(self, sender: AnySender, answer: Answer, *, stream: bool) -> None:
        self._to = sender
        self._answer = answer
        self._asked_stream = stream
        self._status = 200
        self._headers: Headers = []
        self._form: str | None = None
        self._kept = bytearray()
        self._over = False
        self.started = False

    async def start(self, status: int, headers: Headers) -> None:
        """Note the head."""
        self.started = True
        self._status, self._headers = status, headers
        if not 200 <= status <= 299:
            self._form = "error"
            await self._to.start(status, headers)
        elif dict(headers).get(b"content-type", b"").startswith(b"text/event-stream"):
            self._form = "events"

    async def send(self, piece: bytes) -> None:
        """Say what can be said of some bytes of the body."""
        if self._form is None and piece.strip():
            one_body = piece.lstrip()[:1] in _ONE_BODY
            self._form = "whole" if one_body or not self._asked_stream else "events"
        if self._form == "error":
            await self._to.send(piece)
        elif self._form == "events":
            await self._say(lambda: self._answer.feed(piece))
        else:
            self._kept += piece
            if len(self._kept) > _LARGEST:
                raise UpstreamFailed("the provider's reply is too large", code="upstream_reply_too_large")

    async def end(self) -> None:
        """The chat completion's body is complete; the client's is, where that is one."""
        if self._form == "error":
            await self._to.end()
        elif self._form == "events" or (self._form is None and self._asked_stream):
            await self._say(self._answer.finish)
            await self._finish()
        else:
            await self.whole(self._status, self._headers, bytes(self._kept))

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Say a reply that came at once."""
        self._headers = headers
        if 200 <= status <= 299:
            try:
                body = self._answer.whole(body)
            except BridgeError as failure:
                raise self._with_headers(failure) from None
            headers = [JSON_TYPE, *self._further()]
        await self._to.whole(status, headers, body)

    async def cut(self) -> None:
        """The provider's connection broke: an error, or the end of a stream that has begun."""
        failure = UpstreamFailed("the provider's reply was cut", code="upstream_cut")
        if self._form != "error" and not self._over:
            await self._break_off(failure)
            await self._finish()

    async def _say(self, feed: Callable[[], bytes]) -> None:
        if self._over:
            return
        try:
            await self._pass_on(feed())
        except BrokenOff as broken:
            await self._pass_on(broken.said)
            await self._break_off(broken.failure)
        self._over = self._over or self._answer.ended

    async def _pass_on(self, out: bytes) -> None:
        if out:
            if not self._to.started:
                await self._to.start(self._status, self._headers)
            await self._to.send(out)

    async def _break_off(self, failure: BridgeError) -> None:
        self._over = True
        if not self._to.started:
            raise self._with_headers(failure)
        await self._to.send(encode_event(failure.body()))

    def _with_headers(self, failure: BridgeError) -> BridgeError:
        """A failure that is the reply itself carries what the provider's head said beside its kind."""
        failure.headers = (*failure.headers, *self._further())
        return failure

    def _further(self) -> Headers:
        return [header for header in self._headers if header[0] != b"content-type"]

    async def _finish(self) -> None:
        if not self._to.started:
            await self._to.start(self._status, self._headers)
        await self._to.end()


AnySender = Sender | SpokenSender
