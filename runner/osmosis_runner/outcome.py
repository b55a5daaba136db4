"""How a run ended, as one value: everything the command line shows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from osmosis_runner.events import RunPlan

Ending = Literal["complete", "already_complete", "declined", "interrupted", "halted"]
"""How a run ended.

complete: every item has a record. already_complete: there was nothing to run. declined: the user said no to the
plan; nothing was created. interrupted: a signal. halted: the run stopped itself with items pending.
"""


class UnscoredRow(msgspec.Struct, frozen=True):
    """An item that failed or was skipped, for the block of failed rows."""

    row_index: int
    run_index: int
    rollout_id: str
    status: Literal["failed", "skipped"]
    rollout_dir: str
    """Absolute path of the attempt's folder under rollout_trials."""
    source_row_index: int | None = None
    error_type: str | None = None
    error_phase: str | None = None
    error_message: str | None = None


class RunOutcome(msgspec.Struct, frozen=True):
    """How a run ended and everything the command line shows of it."""

    ended: Ending
    reason: str | None
    """One sentence when `ended` is interrupted or halted."""
    signal: int | None
    """Signal number when interrupted: the exit code is 128 + signal."""
    plan: RunPlan
    local_run_id: str | None
    dispatched: int
    succeeded: int
    failed: int
    skipped: int
    resumed: int
    cancelled: int
    pending: int
    duration_ms: int
    """Wall time of this invocation."""
    metrics: dict[str, object]
    """The `summary` object of metrics.json; empty when nothing was created."""
    failed_rows: tuple[UnscoredRow, ...] = ()
    skipped_rows: tuple[UnscoredRow, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every item has a record."""
        return self.ended in ("complete", "already_complete")
