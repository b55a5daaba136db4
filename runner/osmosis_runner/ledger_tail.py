"""Reads the bridge's ledger while it grows: the calls of each open rollout, each line parsed once.

Memory holds the calls of rollouts that have not been taken yet, nothing else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from osmosis_runner.replay import Spend

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

PREFLIGHT_PREFIX = "preflight-"

Call = dict[str, Any]
"""One record, as in the ledger."""

CHUNK = 1 << 20


class LedgerTail:
    """Follows one ledger file from its present end. The file may be renamed meanwhile."""

    def __init__(self, path: Path) -> None:
        """Open the ledger; raises OSError."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offset = os.fstat(self._fd).st_size
        self._rest = b""
        self._calls: dict[str, list[Call]] = {}

    def take(self, rollout_id: str) -> list[Call]:
        """The calls of a rollout the bridge has closed, in order of their end; they are not kept."""
        self._read()
        return self._calls.pop(rollout_id, [])

    def forget_all_but(self, open_rollouts: Collection[str]) -> None:
        """Drop stragglers of rollouts that were taken already."""
        for rollout_id in [known for known in self._calls if known not in open_rollouts]:
            del self._calls[rollout_id]

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _read(self) -> None:
        while chunk := os.pread(self._fd, CHUNK, self._offset):
            self._offset += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            call: Call = msgspec.json.decode(line)
            rollout_id: str = call["rollout_id"]
        except (msgspec.DecodeError, ValueError, KeyError, TypeError):
            # A line of somebody else's making says nothing about a rollout of ours.
            return
        self._calls.setdefault(rollout_id, []).append(call)


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None


class _Spent(msgspec.Struct, gc=False):
    """The part of a record that says what a call spent."""

    rollout_id: str
    usage: _Usage | None = None
    usage_source: str | None = None
    cost_usd: float | None = None


def unrecorded_spend(path: Path, recorded: Collection[str]) -> Spend:
    """What a ledger says was spent by rollouts the journal does not know: killed with their runner.

    Preflights are left out; a missing ledger says nothing. Raises OSError when it cannot be read.
    """
    if not path.exists():
        return Spend()
    decoder = msgspec.json.Decoder(_Spent)
    sums = _Sums()
    with path.open("rb") as file:
        for line in file:
            try:
                call = decoder.decode(line)
            except (msgspec.DecodeError, ValueError):
                continue
            if call.rollout_id not in recorded and not call.rollout_id.startswith(PREFLIGHT_PREFIX):
                sums.add(call)
    return sums.spend()


class _Sums:
    """Sums of calls; None where none of them tells."""

    def __init__(self) -> None:
        self._rollouts: set[str] = set()
        self._figures: dict[str, float | None] = {}

    def add(self, call: _Spent) -> None:
        self._rollouts.add(call.rollout_id)
        self._plus("cost_usd", call.cost_usd)
        usage = call.usage
        if usage is None or call.usage_source == "estimated":
            return
        total = usage.total_tokens
        if total is None:
            total = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        self._plus("tokens", total)
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            self._plus(name, getattr(usage, name))

    def spend(self) -> Spend:
        counts = {name: int(value) for name, value in self._figures.items() if name != "cost_usd" and value}
        return Spend(attempts=len(self._rollouts), cost_usd=self._figures.get("cost_usd"), **counts)

    def _plus(self, name: str, value: float | None) -> None:
        if value is not None:
            self._figures[name] = (self._figures.get(name) or 0) + value


def provider_trouble(calls: Sequence[Call]) -> str | None:
    """Why the provider is to blame when this rollout failed, in words; None when it is not.

    Only the last call counts: an agent that got over a failed call did not fail because of it.
    """
    if not calls:
        return None
    last = calls[-1]
    status, http_status = last.get("status"), last.get("http_status")
    if status == "truncated":
        return "the provider's reply was cut off"
    if status != "upstream_error":
        return None
    if (
        isinstance(http_status, int)
        and http_status < 500
        and http_status not in (401, 402, 403, 404, 408, 429)
    ):
        return None
    code = last.get("error_code")
    return f"the provider answered {http_status}" + (f" ({code})" if code else "")


def median_ttft_ms(calls: Sequence[Call]) -> float | None:
    """Median time to first token over the calls that have one."""
    times = sorted(t for call in calls if isinstance(t := call.get("ttft_ms"), (int, float)))
    return round(float(times[len(times) // 2]), 3) if times else None
