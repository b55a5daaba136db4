"""The forwarding report of one request without a bridge that runs: nothing is sent, and no key is needed."""

from __future__ import annotations

from osmosis_bridge.config import BridgeConfig
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.policy import Policy
from osmosis_bridge.providers import LOCAL_PREFIX
from osmosis_bridge.redact import Redactor
from osmosis_bridge.report import ForwardingReport, explain
from osmosis_bridge.routing import plan_route
from osmosis_bridge.target import make_target

_NO_KEY = "OSMOSIS_EXPLAIN_NO_KEY"
_LOCAL = "http://127.0.0.1/v1"


def explain_request(config: BridgeConfig, body: bytes, dialect: str) -> ForwardingReport:
    """What the bridge that `config` describes would make of a request in a dialect (`chat`, `responses`, ...).

    Raises `RouteError` for a model path that leads nowhere and KeyError for an unknown dialect.
    """
    known = DIALECTS[dialect]
    route = plan_route(
        config.model,
        api_base=config.api_base,
        api_key_env=None if config.model.startswith(f"{LOCAL_PREFIX}/") else _NO_KEY,
        lane=config.lane,
        environ={**config.environ, _NO_KEY: "the-key-is-not-shown"},
    )
    target = make_target(route, route.base_url or _LOCAL, route.api_key)
    redactor = Redactor([route.api_key or ""])

    def headers(stream: bool) -> dict[str, str]:  # noqa: FBT001 - what kind of request it is
        usual = known.outgoing(target.headers(stream=stream), target.endpoint.host)
        sent = usual + known.headers(target.key, {})
        return {name.decode(): redactor.scrub(value).decode("latin-1") for name, value in sent}

    return explain(
        body,
        Policy(upstream_model=route.upstream_model, controls=config.controls),
        known.envelope,
        provider=route.provider,
        url=target.endpoint.url_for_display + known.path,
        headers=headers,
    )
