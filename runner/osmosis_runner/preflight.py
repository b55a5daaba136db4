"""One small call before any row, so that a wrong model, key or endpoint fails once and early.

Pure but for the call itself. The call goes the way every rollout's will, through the bridge.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import msgspec

from osmosis_bridge.upstream import TransportError
from osmosis_runner.faults import PreflightError, SidecarError
from osmosis_runner.ledger_spend import PREFLIGHT_PREFIX
from osmosis_runner.web import read_error

if TYPE_CHECKING:
    from osmosis_runner.sidecar import Sidecar
    from osmosis_runner.web import Answer

WITHIN_S = 120.0
"""For all tries together."""
ADVICE = "; if it is only slow, run with --skip-preflight, which asks nothing"
MAX_TOKENS = 16
RETRY_DELAYS_S = (1.0, 2.0)
"""Before a server error of the provider is believed."""

BODY = msgspec.json.encode(
    {
        "model": "osmosis-rollout",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": MAX_TOKENS,
    }
)


class Finding(msgspec.Struct, frozen=True):
    """What one reply means for a run."""

    verdict: Literal["good", "busy", "again", "silent", "down", "bad"]
    """busy: the model is there and limits us; again: may pass; silent: it took too long; down: nobody is there;
    bad: will not pass."""
    text: str
    status: int | None = None
    code: str | None = None


async def check_model(sidecar: Sidecar, model_path: str, api_base: str | None = None) -> str | None:
    """Make the call; returns a warning or None. Raises `PreflightError` when the model does not answer.

    `api_base` is what the user gave: its host is told back to them, which the bridge itself never does.
    """
    until = time.monotonic() + WITHIN_S
    finding = await probe(sidecar)
    for delay in RETRY_DELAYS_S:
        left = until - time.monotonic() - delay
        if finding.verdict != "again" or left <= 0:
            break
        await asyncio.sleep(delay)
        finding = await probe(sidecar, left)
    if finding.verdict == "good":
        return None
    if finding.verdict == "busy":
        return f"{model_path} limits the rate of calls at the moment: {finding.text}"
    message = f"{model_path} does not answer{_at(api_base)}: {finding.text}"
    raise PreflightError(message, {"model": model_path, "status": finding.status, "code": finding.code})


def _at(api_base: str | None) -> str:
    try:
        place = urlsplit(api_base or "")
        port = f":{place.port}" if place.port else ""
    except ValueError:
        return ""
    host = f"[{place.hostname}]" if ":" in (place.hostname or "") else place.hostname
    return f" at {place.scheme}://{host}{port}" if host else ""


async def probe(sidecar: Sidecar, within_s: float = WITHIN_S) -> Finding:
    """One call under an id of its own, which is closed again."""
    rollout_id = PREFLIGHT_PREFIX + secrets.token_hex(8)
    try:
        answer = await sidecar.complete(rollout_id, BODY, within_s)
        await sidecar.close(rollout_id)
    except (TransportError, SidecarError) as error:
        if sidecar.child.exited.is_set():
            return Finding("bad", sidecar.child.describe_exit())
        if isinstance(error, TransportError) and error.reason == "timeout_total":
            return Finding("silent", f"no whole reply to one small question within {within_s:.0f} s{ADVICE}")
        return Finding("again", str(error))
    return judge(answer)


def judge(answer: Answer) -> Finding:
    """What a reply to the preflight means."""
    if answer.status == 200:
        return Finding("good", "")
    error = read_error(answer.body)
    code = None if error.code is None else str(error.code)
    text = f"{answer.status} {error.message}".strip()
    if answer.status == 429:
        spent = code in ("insufficient_quota", "billing_hard_limit_reached")
        return Finding("bad" if spent else "busy", text, 429, code)
    if code in ("upstream_unreachable", "upstream_tls"):
        return Finding("down", text, answer.status, code)
    return Finding("again" if answer.status >= 500 else "bad", text, answer.status, code)
