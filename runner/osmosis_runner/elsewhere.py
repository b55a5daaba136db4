"""A rollout server that somebody else runs (`--rollout-url`): found, used, given up, never started or ended.

Its rollouts call the bridge, which listens on loopback, so it must be on this machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from osmosis_bridge.upstream import Endpoint
from osmosis_runner.faults import LaunchError
from osmosis_runner.launch import RolloutServer, usable
from osmosis_runner.protocol import RolloutClient, ServerLost
from osmosis_runner.web import Site, bearer

if TYPE_CHECKING:
    from osmosis_bridge.upstream import Transport

API_KEY_VARIABLE = "OSMOSIS_ROLLOUT_API_KEY"
"""Holds the bearer of a server that wants one."""
ANSWERS_WITHIN_S = 5.0
"""Is the server there? Somebody may have started it a moment ago."""
RETURNS_WITHIN_S = 60.0
"""For whoever runs a server that went away to start it again."""
ASK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the server answers, and the bearer it wants."""

    url: str
    endpoint: Endpoint
    api_key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, api_key: str | None = None) -> ServerAddress:
        """Check a URL; raises `LaunchError` saying what is wrong with it."""
        try:
            endpoint = Endpoint.parse(url)
        except ValueError as error:
            raise LaunchError(f"--rollout-url: {str(error).replace('upstream URL', 'URL')}") from None
        if endpoint.query:
            raise LaunchError("--rollout-url: the URL must end before its question mark")
        if not _is_here(endpoint.host):
            message = (
                f"--rollout-url: {endpoint.host} is another machine, and the bridge that its rollouts would call "
                f"listens on this one only; give the address that the server has here, such as "
                f"http://127.0.0.1:{endpoint.port}"
            )
            raise LaunchError(message)
        return cls(endpoint.url_for_display, endpoint, api_key)


class Elsewhere:
    """Stands for the process: `exited` is set once it is given up. Nothing here ends it."""

    def __init__(self, url: str) -> None:
        self.exited = asyncio.Event()
        self._url = url

    def describe_exit(self) -> str:
        """What became of it, as far as it can be told from here."""
        return f"the rollout server at {self._url} stopped answering"

    async def kill(self) -> None:
        """Give it up."""
        self.exited.set()

    async def stop(self, grace_s: float) -> None:
        """Leave it alone: whoever started it ends it."""


async def reach_server(address: ServerAddress, transport: Transport, within_s: float) -> RolloutServer:
    """Wait until the server answers; raises `LaunchError`."""
    headers = bearer(address.api_key) if address.api_key else ()
    client = RolloutClient(Site(transport, address.endpoint, headers))
    deadline = time.monotonic() + within_s
    while True:
        try:
            health = usable(await client.health())
        except ServerLost as lost:
            why = str(lost)
        else:
            return RolloutServer(Elsewhere(address.url), client, health, address.endpoint.port)
        wants_key = " 401" in why
        if wants_key or time.monotonic() > deadline:
            fix = f"; put its key into {API_KEY_VARIABLE}" if wants_key else ""
            message = f"the rollout server at {address.url} is not usable: {why}{fix}"
            raise LaunchError(message)
        await asyncio.sleep(ASK_EVERY_S)


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
