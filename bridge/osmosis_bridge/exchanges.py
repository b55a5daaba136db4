"""What a call needs to know of an exchange beside its answer: faults, kinds, ids, left-over bytes."""

from __future__ import annotations

import asyncio

from osmosis_bridge.entry import Headers
from osmosis_bridge.errors import BridgeError, Refused, UpstreamFailed
from osmosis_bridge.redact import Redactor
from osmosis_bridge.upstream import Exchange, TransportError

ERROR_BODY_LIMIT = 1024 * 1024
ANSWERED = frozenset({"invalid_upstream_reply", "invalid_upstream_stream", "ledger_unavailable"})
"""Codes of calls that were paid for and could not be passed on, or not be recorded."""
TRUNCATIONS = frozenset({"upstream_cut", "upstream_truncated"})
"""Codes of answers that broke off."""
_DRAIN_S = 0.5
_REQUEST_IDS = (b"x-request-id", b"request-id", b"x-generation-id")
_TRANSPORT_FAULTS: dict[str, tuple[int, str]] = {
    "connect": (502, "upstream_unreachable"),
    "tls": (502, "upstream_tls"),
    "timeout_connect": (504, "upstream_timeout"),
    "timeout_idle": (504, "upstream_timeout"),
    "timeout_total": (504, "upstream_timeout"),
    "cut": (502, "upstream_cut"),
    "malformed": (502, "invalid_upstream_reply"),
    "too_large": (502, "upstream_reply_too_large"),
}

_NOT_REACHED = frozenset({"upstream_unreachable", "upstream_tls"})
_REMEDIES: dict[str, str] = {
    "connect": "check that it runs and that the base URL (--api-base) is its own",
    "tls": "check the scheme of the base URL (--api-base), http:// or https://, and the server's certificate",
    "timeout_connect": "check the base URL (--api-base) and the network, or give it longer (--connect-timeout-s)",
    "timeout_idle": "give it longer (--idle-timeout-s), or ask it for less",
    "timeout_total": "give it longer (--total-timeout-s), or ask it for less",
    "cut": "ask again; if it goes on, the server's own log says why",
    "malformed": "check that the base URL (--api-base) is an HTTP server's; its own log may say more",
}
"""What to do about a fault, by its reason."""


def transport_failure(error: TransportError, redactor: Redactor) -> BridgeError:
    """What a client is told of a fault of the transport: 502, 504 where time ran out, 503 where no slot was free."""
    if error.reason == "no_slot":
        return BridgeError(
            "all connections to the provider are in use; try again shortly",
            status=503,
            code="upstream_busy",
            headers=((b"retry-after", b"1"),),
        )
    status, code = _TRANSPORT_FAULTS[error.reason]
    verb = "be reached" if code in _NOT_REACHED else "answer"
    remedy = _REMEDIES.get(error.reason)
    message = redactor.message(
        f"the provider could not {verb}: {error.detail}" + (f"; {remedy}" if remedy else "")
    )
    return UpstreamFailed(message, status=status, code=code)


def as_refusal(failure: UpstreamFailed) -> BridgeError:
    """A failure that was ours to make: nobody was asked."""
    kind = Refused if failure.status < 500 else BridgeError
    return kind(
        failure.message, status=failure.status, type=failure.type, param=failure.param, code=failure.code
    )


async def error_body(exchange: Exchange) -> bytes:
    """What can be read of an error's body; a broken one is cut short, since the status already says what matters."""
    try:
        return await exchange.whole(ERROR_BODY_LIMIT)
    except TransportError:
        return b""


async def drain(exchange: Exchange) -> None:
    """Read the few bytes that end the provider's body, so that the connection can be used again."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            while await exchange.chunk():
                pass
    except (TransportError, TimeoutError):
        return


def content_type(exchange: Exchange) -> bytes:
    """The reply's media type, in lower case, without parameters."""
    value = exchange.header(b"content-type") or b""
    return value.partition(b";")[0].strip().lower()


def request_id(headers: Headers) -> str | None:
    """The provider's own id of the request, under any of its usual names."""
    for name, value in headers:
        if name in _REQUEST_IDS:
            return value.decode("latin-1")[:200]
    return None
