"""Rows x attempts to work items, minus what the journal holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from osmosis_runner.standing import Standing


class WorkItem(NamedTuple):
    """One attempt to be made: a plain tuple `(row_index, run_index)` with names."""

    row_index: int
    run_index: int


class PlanCounts(msgspec.Struct, frozen=True):
    """How many items a run has and how they stand before it starts."""

    total: int
    pending: int
    recorded: int
    """Items that will not run again."""
    retried: int
    """Recorded items that will run again."""


def pending_items(standings: bytes | bytearray, runs: int, again: frozenset[Standing]) -> Iterator[WorkItem]:
    """Yield, lazily and in order of (row, run), the items whose standing is in `again`.

    `standings` holds a `Standing` per item, in that order, `runs` of them a row.
    """
    marks = _marked(standings, again)
    slot = marks.find(1)
    while slot >= 0:
        yield WorkItem(*divmod(slot, runs))
        slot = marks.find(1, slot + 1)


def count_items(standings: bytes | bytearray, again: frozenset[Standing]) -> PlanCounts:
    """Count what `pending_items` would yield."""
    pending = _marked(standings, again).count(1)
    recorded = len(standings) - standings.count(Standing.PENDING)
    kept = len(standings) - pending
    return PlanCounts(total=len(standings), pending=pending, recorded=kept, retried=recorded - kept)


def _marked(standings: bytes | bytearray, again: frozenset[Standing]) -> bytes:
    """A byte per item: 1 where it runs."""
    table = bytes(standing in again for standing in range(256))
    return bytes(standings).translate(table)
