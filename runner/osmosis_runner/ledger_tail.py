"""Reads the bridge's ledger while it grows: the calls of each open rollout, each line parsed once.

Memory holds the calls of rollouts that have not been taken yet, nothing else.
"""

from __future__ import annotations

import os
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from osmosis_runner.ledger_spend import Sums, spent_in
from osmosis_runner.spend import Spend

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Call = dict[str, Any]
"""One record, as in the ledger."""

CHUNK = 1 << 20
NOT_RECORDED = "ledger_unavailable"
"""The code of calls that the bridge did not serve, or served without success, since it could not write its ledger."""
PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which clients ask again."""


class Waits(msgspec.Struct, frozen=True):
    """How the provider keeps rollouts waiting."""

    refusals: int = 0
    """Calls that it turned away for a while (429, 5xx) since the ledger was opened."""
    waiting: int = 0
    """Open rollouts whose last call it turned away: their clients wait to ask again."""
    status: int | None = None
    """The last status it did so with."""


class Retries(msgspec.Struct, frozen=True):
    """Calls of one rollout that the provider turned away and that were asked again."""

    count: int = 0
    wait_ms: int = 0
    """Time between the end of such a call and the next one."""


class LedgerTail:
    """Follows one ledger file from its present end. The file may be renamed meanwhile."""

    def __init__(self, path: Path) -> None:
        """Open the ledger; raises OSError."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offset = os.fstat(self._fd).st_size
        self._open: dict[str, list[Call]] = {}
        self._refusals = 0
        self._status: int | None = None
        self._strays = Sums(counted=False)

    def expect(self, rollout_id: str) -> None:
        """Keep this rollout's calls until they are taken."""
        self._open[rollout_id] = []

    def take(self, rollout_id: str) -> list[Call]:
        """The calls of a rollout the bridge has closed, in order of their end; they are not kept."""
        self._read()
        return self._open.pop(rollout_id, [])

    def waits(self) -> Waits:
        """How the provider keeps rollouts waiting now."""
        self._read()
        waiting = sum(1 for calls in self._open.values() if calls and turned_away(calls[-1]))
        return Waits(self._refusals, waiting, self._status)

    def strays(self) -> Spend:
        """What calls spent that ended after their rollout was taken; told once."""
        self._read()
        strays, self._strays = self._strays, Sums(counted=False)
        return strays.beyond(Spend())

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _read(self) -> None:
        size = CHUNK
        while chunk := os.pread(self._fd, size, self._offset):
            *lines, rest = chunk.split(b"\n")
            if not lines and len(chunk) < size:
                # Half a line: it may yet be cut off by its writer, or by the next one.
                return
            self._offset += len(chunk) - len(rest)
            size = CHUNK if lines else 2 * size
            for line in lines:
                self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            call: Call = msgspec.json.decode(line)
            rollout_id: str = call["rollout_id"]
            calls = self._open.get(rollout_id)
        except (msgspec.DecodeError, ValueError, KeyError, TypeError):
            # A line of somebody else's making says nothing about a rollout of ours.
            return
        if calls is None:
            stray = spent_in(line)
            if stray is not None:
                self._strays.add(stray)
            return
        calls.append(call)
        if turned_away(call):
            self._refusals += 1
            self._status = call["http_status"]


def turned_away(call: Call) -> bool:
    """Whether the provider turned a call away for a while, so that a client asks again."""
    status = call.get("http_status")
    return (
        call.get("status") == "upstream_error"
        and call.get("error_code") != NOT_RECORDED
        and isinstance(status, int)
        and (status >= 500 or status in PASSING)
    )


def retries_of(calls: Sequence[Call]) -> Retries:
    """The calls of a rollout, in order of their end, that the provider turned away and that were asked again."""
    count, waited = 0, 0.0
    for call, following in pairwise(calls):
        if turned_away(call):
            count += 1
            waited += max(
                0.0, _started_ms(following) - _started_ms(call) - float(call.get("duration_ms") or 0)
            )
    return Retries(count, round(waited))


def _started_ms(call: Call) -> float:
    try:
        return datetime.fromisoformat(call["started_at"]).timestamp() * 1000
    except (KeyError, TypeError, ValueError):
        return 0.0


def provider_trouble(calls: Sequence[Call]) -> str | None:
    """Why the provider, or the bridge before it, is to blame when this rollout failed, in words; None when it is not.

    Only the last call counts: an agent that got over a failed call did not fail because of it.
    """
    if not calls:
        return None
    last = calls[-1]
    status, http_status = last.get("status"), last.get("http_status")
    if last.get("error_code") == NOT_RECORDED:
        return "the bridge could not write its ledger and served no calls"
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
