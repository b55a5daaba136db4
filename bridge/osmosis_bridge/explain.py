"""The forwarding report of one request without a bridge that runs: no provider is asked, and no key is needed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from osmosis_bridge.accounts import Accounts
from osmosis_bridge.config import BridgeConfig
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.dry_run import DryRun, dry_run
from osmosis_bridge.ledger import NoLedger
from osmosis_bridge.log import open_log
from osmosis_bridge.native_process import start_native
from osmosis_bridge.policy import Policy
from osmosis_bridge.providers import LOCAL_PREFIX
from osmosis_bridge.redact import Redactor
from osmosis_bridge.report import ForwardingReport
from osmosis_bridge.routing import Route, plan_route
from osmosis_bridge.serve import Bridge
from osmosis_bridge.target import make_target
from osmosis_bridge.upstream.http import HttpTransport

_NO_KEY = "OSMOSIS_EXPLAIN_NO_KEY"
_PLACEHOLDER = "the-key-is-not-shown"
_LOCAL = "http://127.0.0.1/v1"


class Request(msgspec.Struct, frozen=True):
    """A request to explain, of a dialect (`chat`, `responses`, ...); its headers have lower-case names."""

    body: bytes
    dialect: str = "chat"
    headers: Mapping[bytes, bytes] = msgspec.field(default_factory=dict[bytes, bytes])


async def explain_request(config: BridgeConfig, request: Request) -> ForwardingReport:
    """What the bridge that `config` describes would make of a request.

    On the native lane the process that translates is started for it. Raises `RouteError` for a model path that leads
    nowhere, `NativeLaneError` where LiteLLM is not installed, KeyError for an unknown dialect.
    """
    route = plan_route(
        config.model,
        api_base=config.api_base,
        api_key_env=None if config.model.startswith(f"{LOCAL_PREFIX}/") else _NO_KEY,
        lane=config.lane,
        environ={**config.environ, _NO_KEY: _PLACEHOLDER},
    )
    if route.lane == "wire":
        return await _explain(config, route, (route.base_url or _LOCAL, route.api_key), request)
    path = f"{route.provider}/{route.upstream_model}"
    worker = await start_native(path, api_base=route.base_url, api_key=route.api_key, environ=config.environ)
    try:
        return await _explain(config, route, (worker.base_url, worker.api_key), request)
    finally:
        await worker.stop()


async def _explain(
    config: BridgeConfig, route: Route, address: tuple[str, str | None], request: Request
) -> ForwardingReport:
    redactor = Redactor([_PLACEHOLDER, address[1] or ""])
    async with HttpTransport() as transport:
        bridge = Bridge(
            target=make_target(route, *address),
            transport=transport,
            policy=Policy(upstream_model=route.upstream_model, controls=config.controls),
            ledger=NoLedger(),
            accounts=Accounts(),
            redactor=redactor,
            log=open_log("json", redactor),
        )
        return await dry_run(bridge, DryRun(request.body, DIALECTS[request.dialect], request.headers))
