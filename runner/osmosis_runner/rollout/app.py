"""The host's HTTP face: paths, the optional bearer, body size. Decides nothing else.

A bare ASGI callable, because a framework would cost more than the whole rest of a request.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, TypeAlias

from osmosis_runner.rollout.desk import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from osmosis_runner.rollout.desk import Desk

MAX_BODY_BYTES = 256 * 1024 * 1024

Event: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[Event]]"
Send: TypeAlias = "Callable[[Event], Awaitable[None]]"

_JSON = (b"content-type", b"application/json")


class RolloutApp:
    """Routes of the rollout protocol onto a `Desk`."""

    def __init__(self, desk: Desk, api_key: str | None) -> None:
        self._desk = desk
        self._bearer = f"Bearer {api_key}".encode() if api_key else None

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        if self._bearer and not hmac.compare_digest(headers.get(b"authorization", b""), self._bearer):
            reply = _refusal(401, b"unauthorized")
        else:
            reply = await self._answer(scope, headers, receive)
        status, body, more = reply
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *more]})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Event, headers: dict[bytes, bytes], receive: Receive) -> Reply:
        method, path = scope["method"], scope["path"]
        if path.startswith("/rollout/") and path.endswith("/result"):
            if method != "GET":
                return _refusal(405, b"method not allowed")
            lease = headers.get(b"x-osmosis-rollout-lease")
            return await self._desk.result(
                path[len("/rollout/") : -len("/result")],
                None if lease is None else lease.decode("latin-1"),
                until_end=b"wait=terminal" in scope["query_string"],
            )
        if path == "/health":
            return self._desk.health() if method in ("GET", "HEAD") else _refusal(405, b"method not allowed")
        route = {"/rollout": self._desk.admit, "/rollout/cancel": self._desk.cancel}.get(path)
        if route is None:
            return _refusal(404, b"not found")
        if method != "POST":
            return _refusal(405, b"method not allowed")
        body = await _body(receive)
        return _refusal(413, b"the body is too large") if body is None else route(body)


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None when it is over `MAX_BODY_BYTES`."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        part: bytes = event.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            return None
        parts.append(part)
        if not event.get("more_body", False):
            return b"".join(parts)


def _refusal(status: int, text: bytes) -> Reply:
    return status, b'{"detail":"' + text + b'"}', ()
