"""Notices when a run ends nothing for a while, so that what it waits for can be named. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from osmosis_runner.attempt import Rollout

QUIET_S = 120.0
NAMED = 5


class Quiet(msgspec.Struct):
    """Times how long nothing has ended; says so after `after_s` seconds, then each time it lasted twice as long."""

    after_s: float
    _finished: int = -1
    _since: float = 0.0
    _next: float = 0.0

    def due(self, finished: int, now: float) -> bool:
        """Whether it is time to say so; `finished` counts what has ended, `now` is in seconds."""
        if finished != self._finished:
            self._finished, self._since, self._next = finished, now, self.after_s
            return False
        if now - self._since < self._next:
            return False
        self._next *= 2
        return True


def longest_running(rollouts: Sequence[Rollout], now: float) -> str:
    """Which rollouts have run longest, and for how long: `row 3 (95 s), row 7 run 1 (40 s) and 6 more`."""
    oldest = sorted(rollouts, key=lambda rollout: rollout.began)
    named = ", ".join(f"{_name(rollout)} ({now - rollout.began:.0f} s)" for rollout in oldest[:NAMED])
    return named + (f" and {len(oldest) - NAMED} more" if len(oldest) > NAMED else "")


def _name(rollout: Rollout) -> str:
    row, run = rollout.item
    return f"row {row} run {run}" if run else f"row {row}"
