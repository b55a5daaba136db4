"""Where the calls of a run go, as far as its results depend on it: the lane, and the origin of the endpoint. Pure.

It knows what flags and environment lead to; nothing of bridges that run. A server of this machine that is started for
the run answers at another port each time, so it has no origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from osmosis_bridge.routing import Route, RouteError, plan_route
from osmosis_runner.errors import EndpointError
from osmosis_runner.jsontext import JsonObject


def endpoint_of(
    model_path: str, api_base: str | None, api_key_env: str | None, environ: Mapping[str, str]
) -> JsonObject | None:
    """Return `lane` and, where an address is known, `origin` (`https://host:port`); None where there is no route."""
    try:
        route = planned(model_path, api_base, api_key_env, environ)
    except EndpointError:
        return None
    found: JsonObject = {"lane": route.lane}
    return found if route.base_url is None else {**found, "origin": origin_of(route.base_url)}


def planned(
    model_path: str, api_base: str | None, api_key_env: str | None, environ: Mapping[str, str]
) -> Route:
    """The route that the bridge of the run takes; raises `EndpointError` where there is none."""
    try:
        return plan_route(
            model_path, api_base=api_base, api_key_env=api_key_env, lane="auto", environ=environ
        )
    except RouteError as error:
        raise EndpointError(error.message, {"error": error.code, "model_path": model_path}) from None


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL: no credentials, path or query. The usual port is left out."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    name = f"[{host}]" if ":" in host else host
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    return f"{parts.scheme}://{name}" + (f":{parts.port}" if parts.port not in (None, usual) else "")
