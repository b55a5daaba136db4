"""Reads a ledger while a bridge writes it: lines by rollout id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from osmosis_bridge.conformance.exact import Exact, at, parsed_or_none


class LedgerView:
    """The records of a ledger file, read further each time it is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._lines: dict[str, list[Exact]] = {}

    async def of(self, rollout: str, patience: float = 0.0) -> Sequence[Exact]:
        """The records of a rollout; waits this many seconds for the first.

        A record is kept before its call ends, so that only a call that was left may be waited for.
        """
        until = time.monotonic() + patience
        while not (found := self._now(rollout)) and time.monotonic() < until:  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
        return found

    def text(self) -> bytes:
        """Everything that the file holds."""
        return self.path.read_bytes() if self.path.exists() else b""

    def _now(self, rollout: str) -> list[Exact]:
        if self.path.exists():
            self._read_on()
        return list(self._lines.get(rollout, ()))

    def _read_on(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._read)
            fresh = file.read()
        whole, newline, _ = fresh.rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.splitlines():
            record = parsed_or_none(line)
            owner = at(record, "rollout_id")
            if isinstance(owner, str):
                self._lines.setdefault(owner, []).append(record)
