"""Where an answer goes, as the one who serves sees it. Knows no HTTP server and no dialect."""

from __future__ import annotations

from typing import Protocol

Headers = tuple[tuple[bytes, bytes], ...]


class Reply(Protocol):
    """Where the answer goes."""

    started: bool

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete reply."""
        ...

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of a reply whose body follows in pieces."""
        ...

    async def send(self, piece: bytes) -> None:
        """Send a piece of the body."""
        ...

    def push(self, piece: bytes) -> bool:
        """Send a piece of a body that has begun, if nothing must be waited for; False: nothing was sent."""
        ...

    async def end(self, piece: bytes) -> None:
        """Send the last piece, which may be empty."""
        ...
