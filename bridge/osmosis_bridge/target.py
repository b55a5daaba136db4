"""From a route to the requests it stands for: endpoint and headers, made once."""

from __future__ import annotations

from osmosis_bridge import __version__
from osmosis_bridge.routing import Route
from osmosis_bridge.serve import Target
from osmosis_bridge.upstream import Endpoint


def make_target(route: Route, base_url: str, api_key: str | None) -> Target:
    """Where calls of `route` are sent, with the key and the headers that go with each."""
    common = [
        (b"content-type", b"application/json"),
        (b"accept-encoding", b"identity"),
        (b"user-agent", f"osmosis-bridge/{__version__}".encode()),
    ]
    if api_key is not None:
        common.append((b"authorization", b"Bearer " + api_key.encode()))
    return Target(
        provider=route.provider,
        model=route.upstream_model,
        endpoint=Endpoint.parse(base_url),
        plain_headers=(*common, (b"accept", b"application/json")),
        stream_headers=(*common, (b"accept", b"text/event-stream")),
        key=api_key,
        lane=route.lane,
    )
