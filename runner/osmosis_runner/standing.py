"""How an item stands once the journal is read, in one byte: what runs next, and what never again. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from osmosis_runner.journal_record import JournalRecord

THWARTED_PHASES = frozenset({"provider", "launch"})
THWARTED_TYPES = frozenset({"cancelled", "lease_expired", "server_lost"})


class Standing(IntEnum):
    """How an item stands."""

    PENDING = 0
    SUCCESS = 1
    FAILED = 2
    SKIPPED = 3
    THWARTED = 4
    """Failed through no fault of its own: the provider failed it, or nobody asked for its result any more. It
    says nothing about the agent, so a resume runs it again without being asked."""


def standing_of(record: JournalRecord) -> Standing:
    """How the item of a record stands after it; a cancelled attempt leaves it pending."""
    if record.status == "success":
        return Standing.SUCCESS
    if record.status == "skipped":
        return Standing.SKIPPED
    if record.status == "cancelled":
        return Standing.PENDING
    if record.error_phase in THWARTED_PHASES or record.error_type in THWARTED_TYPES:
        return Standing.THWARTED
    return Standing.FAILED


def runs_again(*, failed: bool = False, skipped: bool = False) -> frozenset[Standing]:
    """The standings of items that run when a run is started (again), by the flags that ask for more."""
    asked = {Standing.FAILED: failed, Standing.SKIPPED: skipped}
    chosen = {standing for standing, wanted in asked.items() if wanted}
    return frozenset({Standing.PENDING, Standing.THWARTED, *chosen})
