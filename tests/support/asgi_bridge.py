"""The bridge's ASGI application on fakes, and a client for it that needs no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from fakes import Answer, FakeLedger, FakeTransport, a_bridge, completion
from osmosis_bridge.app import BridgeApp, Gate, local_hosts
from osmosis_bridge.metrics import Metrics
from osmosis_bridge.routes import Routes
from osmosis_bridge.upstream import TransportError

TOKEN = "run-token-0123456789"
URL = "http://127.0.0.1:8400"


class Served:
    """An application and what it stands on; `ask` sends it one request."""

    def __init__(
        self,
        *answers: Answer | TransportError,
        token: str | None = TOKEN,
        hosts: Sequence[str] | None = (),
        max_body: int = 1000,
        **fields: Any,
    ) -> None:
        self.transport = fields.pop("transport", None) or FakeTransport(
            *(answers or [Answer([completion()])])
        )
        self.ledger: FakeLedger = fields.pop("ledger", None) or FakeLedger()
        self.bridge = a_bridge(self.transport, self.ledger, **fields)
        gate = Gate(token, None if hosts is None else local_hosts(tuple(hosts)))
        self.rest = Routes(self.bridge, gate, Metrics(self.bridge, self.transport)).app()
        self.app = BridgeApp(self.bridge, gate, self.rest, max_body)

    async def send(
        self, method: str, path: str, *, bearer: str | None = TOKEN, **options: Any
    ) -> httpx.Response:
        """One request; `bearer` None sends none."""
        headers = {
            **({} if bearer is None else {"authorization": f"Bearer {bearer}"}),
            **options.pop("headers", {}),
        }
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
            return await client.request(method, path, headers=headers, **options)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """`send` from a test that is no coroutine."""
        return asyncio.run(self.send(method, path, **options))


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error of a reply, in the shape that all of them have."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-osmosis-error-origin"] in ("bridge", "upstream")
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return body["error"]
