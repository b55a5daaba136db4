"""Which headers of a client go out with its call, on the wire lane.

A short list of names, and nothing by its shape: headers that belong to the request of inference and say nothing of
where it goes, who pays for it or what is kept of it. What is not here stays, and a dry run names it:

- credentials and accounts (`authorization`, `cookie`, `openai-organization`, `x-goog-user-project`, ...), hosts and
  ways (`forwarded`, `x-forwarded-*`, `x-portkey-*`, ...), answers that are not the model's (`x-openrouter-cache`);
- `idempotency-key` and `x-request-id`: all rollouts share the operator's account, so that one rollout could be given
  the answer of another that named the same key, or end its call;
- what the bridge says for itself: `user-agent`, `accept-encoding`, an SDK's `x-stainless-*`.

Pure. Knows no provider and no dialect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from osmosis_bridge.errors import Refused

Headers = tuple[tuple[bytes, bytes], ...]

PASSED = frozenset(
    {
        # Who asks, as OpenRouter shows it.
        b"http-referer", b"x-title", b"x-openrouter-title", b"x-openrouter-categories",
        # Which form of the API is meant.
        b"openai-beta", b"anthropic-beta", b"x-anthropic-beta",
        # What finds the request again in somebody's log or trace.
        b"x-client-request-id", b"traceparent", b"tracestate",
    }
)  # fmt: skip
"""Names in lower case, as ASGI has them."""

VALUE_LIMIT = 2048
"""Bytes of one value."""

_OURS = frozenset(
    {
        b"accept", b"accept-encoding", b"authorization", b"connection", b"content-encoding", b"content-length",
        b"content-type", b"expect", b"host", b"keep-alive", b"origin", b"te", b"trailer", b"transfer-encoding",
        b"upgrade", b"x-api-key", b"x-osmosis-dry-run", b"x-osmosis-rollout-id", b"x-stainless-retry-count",
    }
)  # fmt: skip
# Every control character but the tab, which a value may hold.
_CONTROLS = bytes(code for code in range(0x20) if code != 0x09) + b"\x7f"
_NAME_SHOWN = 100


class HeaderReport(msgspec.Struct, frozen=True):
    """What becomes of one header of the client; `for the bridge` are those that speak to it, or of the connection."""

    header: str
    became: Literal["forwarded", "dropped", "for the bridge"]


def passing(
    headers: Mapping[bytes, bytes], lines: Iterable[tuple[bytes, bytes]], passed: frozenset[bytes]
) -> Headers:
    """The lines that go out, as they came and in their order; `headers` are the same lines by name.

    Raises `Refused` for a value that is too long or holds a control character; it never shows the value.
    """
    if passed.isdisjoint(headers):
        return ()
    found = tuple([line for line in lines if line[0] in passed])
    if headers.get(b"connection", b"keep-alive") != b"keep-alive":
        found = tuple([line for line in found if _passes(line[0], headers, passed)])
    for name, value in found:
        if len(value) > VALUE_LIMIT:
            raise _refused(name, f"is {len(value):,} bytes long; at most {VALUE_LIMIT:,} are forwarded")
        if len(value) != len(value.translate(None, _CONTROLS)):
            raise _refused(name, "holds a line end or another control character; leave it out")
    return found


def report_headers(headers: Mapping[bytes, bytes], passed: frozenset[bytes]) -> tuple[HeaderReport, ...]:
    """What becomes of each header, by name, in the order of the names' first lines."""
    return tuple(
        HeaderReport(
            name.decode("latin-1")[:_NAME_SHOWN],
            "forwarded"
            if _passes(name, headers, passed)
            else "for the bridge"
            if name in _OURS
            else "dropped",
        )
        for name in headers
    )


def _passes(name: bytes, headers: Mapping[bytes, bytes], passed: frozenset[bytes]) -> bool:
    """Whether a header goes out: it is listed, and `connection` does not say that it is for the next hop alone."""
    if name not in passed:
        return False
    hop = headers.get(b"connection", b"").lower()
    return name not in hop or name not in [word.strip() for word in hop.split(b",")]


def _refused(name: bytes, wrong: str) -> Refused:
    shown = name.decode("latin-1")
    return Refused(f"the header {shown!r} {wrong}", code="invalid_header", param=shown)
