"""Which proxy, if any, stands between us and an endpoint, by the environment's rules.

Pure: the environment comes as a mapping. Knows HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; knows nothing of
sockets.
"""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import msgspec

from osmosis_bridge.upstream import Endpoint

__all__ = ["Proxies", "Proxy", "proxies_from"]


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy."""

    host: str
    port: int
    credential: bytes | None = field(default=None, repr=False)
    "The value of proxy-authorization."


class Proxies(msgspec.Struct, frozen=True):
    """The proxies of the two schemes and the hosts that are reached without one."""

    http: Proxy | None = None
    https: Proxy | None = None
    direct: tuple[str, ...] = ()
    "NO_PROXY's entries, lower-case: ``*``, a host (and what is under it), an address, a network; with a port or not."

    def between(self, endpoint: Endpoint) -> Proxy | None:
        """The proxy on the way to an endpoint; none for loopback, whatever the environment says."""
        proxy = self.https if endpoint.tls else self.http
        if proxy is None or _is_loopback(endpoint.host):
            return None
        if any(_matches(entry, endpoint) for entry in self.direct):
            return None
        return proxy


def proxies_from(environ: Mapping[str, str]) -> Proxies:
    """The proxies that an environment names; the lower-case spelling of a name wins.

    Raises:
        ValueError: naming the variable; its value, which may hold a password, is not shown.
    """
    # A CGI program finds a client's header "Proxy" in HTTP_PROXY: only the lower-case name can be believed there.
    http = _first(environ, "http_proxy", *(() if "REQUEST_METHOD" in environ else ("HTTP_PROXY",)))
    https = _first(environ, "https_proxy", "HTTPS_PROXY")
    both = _first(environ, "all_proxy", "ALL_PROXY")
    _, direct = _first(environ, "no_proxy", "NO_PROXY")
    entries = (entry.strip().lower() for entry in direct.replace(" ", ",").split(","))
    return Proxies(
        http=_parse(*(http if http[1] else both)),
        https=_parse(*(https if https[1] else both)),
        direct=tuple(entry for entry in entries if entry),
    )


def _first(environ: Mapping[str, str], *names: str) -> tuple[str, str]:
    """The first of the names that is set, even if empty: empty means "none", and hides the next."""
    for name in names:
        if name in environ:
            return name, environ[name].strip()
    return names[0], ""


def _parse(name: str, value: str) -> Proxy | None:
    if not value:
        return None
    problem = f"{name} must be http://[USER:PASSWORD@]HOST[:PORT]"
    try:
        split = urlsplit(value if "://" in value else f"http://{value}")
        host, port = split.hostname, split.port
    except ValueError as error:
        raise ValueError(f"{problem}; its value is not readable") from error
    if split.scheme != "http":
        raise ValueError(f"{problem}; the scheme {split.scheme!r} is not supported")
    if not host or not host.isascii():
        raise ValueError(f"{problem}; it names no host")
    credential = None
    if split.username is not None:
        pair = f"{unquote(split.username)}:{unquote(split.password or '')}"
        credential = b"Basic " + b64encode(pair.encode("utf-8"))
    return Proxy(host, port or 80, credential)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _matches(entry: str, endpoint: Endpoint) -> bool:
    if entry == "*":
        return True
    host, port = _entry_parts(entry)
    if port and port != str(endpoint.port):
        return False
    try:
        return ipaddress.ip_address(endpoint.host.partition("%")[0]) in ipaddress.ip_network(
            host, strict=False
        )
    except ValueError:
        pass
    suffix = host.removeprefix("*").removeprefix(".")
    return bool(suffix) and (endpoint.host == suffix or endpoint.host.endswith(f".{suffix}"))


def _entry_parts(entry: str) -> tuple[str, str]:
    """Host and port of an entry: ``host:80``, ``[::1]:80``, ``::1`` and ``host`` are all met."""
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = entry.rpartition(":")
    if host and ":" not in host:
        return host, port
    return entry, ""
