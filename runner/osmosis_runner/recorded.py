"""What earlier invocations recorded, as little of it as a resume needs: a journal is read, not kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from osmosis_runner.journal import JournalRecord, Status, read_records

if TYPE_CHECKING:
    from pathlib import Path

Item = tuple[int, int]
"""(row_index, run_index)."""


@dataclass(slots=True)
class Recorded:
    """How the items of a run stand."""

    statuses: dict[Item, Status] = field(default_factory=dict[Item, Status])
    attempts: dict[Item, int] = field(default_factory=dict[Item, int])
    """Items that were attempted more than once, or only in vain, with their number of attempts."""
    unscored: dict[Item, JournalRecord] = field(default_factory=dict[Item, JournalRecord])
    """Last records of items that failed or were skipped."""

    def add(self, record: JournalRecord) -> None:
        """Take the journal's next record in."""
        item = record.item
        before = self.attempts.get(item, 1 if item in self.statuses else 0)
        if before or record.status == "cancelled":
            self.attempts[item] = before + 1
        if record.status == "cancelled":
            return
        self.statuses[item] = record.status
        if record.status == "success":
            self.unscored.pop(item, None)
        else:
            self.unscored[item] = record

    def attempts_at(self, item: Item) -> int:
        """How many attempts an item has had."""
        return self.attempts.get(item, 1 if item in self.statuses else 0)


def read_recorded(path: Path) -> Recorded:
    """Read a journal; raises `JournalCorrupt` and `StorageError`."""
    recorded = Recorded()
    for record in read_records(path):
        recorded.add(record)
    return recorded
