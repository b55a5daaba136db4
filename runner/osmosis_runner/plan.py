"""Rows x attempts to work items, minus what the journal holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from osmosis_runner.journal import Status


class WorkItem(NamedTuple):
    """One attempt to be made: a plain tuple `(row_index, run_index)` with names."""

    row_index: int
    run_index: int


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """How many items a run has and how they stand before it starts."""

    total: int
    pending: int
    recorded: int
    """Items that will not run again."""
    retried: int
    """Recorded items that will run again because of the retry set."""


def pending_items(
    rows_count: int,
    n: int,
    recorded: Mapping[tuple[int, int], Status],
    retry: frozenset[Status] = frozenset(),
) -> Iterator[WorkItem]:
    """Yield, lazily and in order of (row, run), the items without a record or whose status is in `retry`."""
    for row_index in range(rows_count):
        for run_index in range(n):
            status = recorded.get((row_index, run_index))
            if status is None or status in retry:
                yield WorkItem(row_index, run_index)


def count_items(
    rows_count: int,
    n: int,
    recorded: Mapping[tuple[int, int], Status],
    retry: frozenset[Status] = frozenset(),
) -> PlanCounts:
    """Count what `pending_items` would yield, in the time of one pass over `recorded`."""
    total = rows_count * n
    known = [status for (row, run), status in recorded.items() if 0 <= row < rows_count and 0 <= run < n]
    retried = sum(status in retry for status in known)
    kept = len(known) - retried
    return PlanCounts(total=total, pending=total - kept, recorded=kept, retried=retried)
