"""Keeps a rollout server running: tells when it died, starts another, or waits for it where it is somebody else's.

Knows processes and their exits; who was to blame is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from osmosis_runner.elsewhere import ANSWERS_WITHIN_S, RETURNS_WITHIN_S, ServerAddress, reach_server
from osmosis_runner.launch import STOP_GRACE_S, RolloutServer, start_server
from osmosis_runner.protocol import ServerLost

if TYPE_CHECKING:
    from osmosis_bridge.upstream import Transport
    from osmosis_runner.child import Heard, Nursery
    from osmosis_runner.launch import LaunchSpec

EXIT_LAG_S = 1.0
"""How long after a broken connection a dying process may take to be dead."""


class ServerKeeper:
    """One rollout server after another."""

    def __init__(
        self, spec: LaunchSpec | ServerAddress, transport: Transport, nursery: Nursery, heard: Heard
    ) -> None:
        self._spec = spec
        self._transport = transport
        self._nursery = nursery
        self._heard = heard
        self._server: RolloutServer | None = None

    @property
    def server(self) -> RolloutServer:
        """The server started last."""
        if self._server is None:
            message = "no server was started"
            raise RuntimeError(message)
        return self._server

    async def start(self) -> RolloutServer:
        """Start a server, or find it; raises `LaunchError`, and the one before stays the last."""
        spec = self._spec
        if isinstance(spec, ServerAddress):
            within_s = ANSWERS_WITHIN_S if self._server is None else RETURNS_WITHIN_S
            self._server = await reach_server(spec, self._transport, within_s)
        else:
            self._server = await start_server(spec, self._transport, self._nursery, self._heard)
        return self._server

    async def is_dead(self, server: RolloutServer) -> bool:
        """Whether a server that stopped answering is dead; one that lives and does not answer is killed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_LAG_S):
                await server.child.exited.wait()
        if server.child.exited.is_set():
            return True
        try:
            await server.client.health()
        except ServerLost:
            await server.child.kill()
            return True
        return False

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End the server and everything in its process group."""
        if self._server is not None:
            await self._server.child.stop(grace_s)
