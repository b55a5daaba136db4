"""What earlier invocations recorded, as little of it as a resume needs: a journal is read, not kept in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from osmosis_runner.errors import JournalCorrupt
from osmosis_runner.journal import JournalRecord, read_records
from osmosis_runner.standing import Standing, standing_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

Item = tuple[int, int]
"""(row_index, run_index)."""

MOST_TOLD = 10_000
"""Failed or skipped items that are told one by one; the rest is in index.jsonl."""


class Recorded:
    """How the items of a run of `rows` x `runs` stand: a byte an item."""

    def __init__(self, rows: int, runs: int) -> None:
        self.runs = runs
        self.standings = bytearray(rows * runs)
        """A `Standing` per item, in order of (row, run)."""
        self._attempts: dict[Item, int] = {}
        # Items that were attempted more than once, or only in vain.

    def add(self, record: JournalRecord) -> None:
        """Take the journal's next record in. Raises `ValueError` for an item that the run does not have."""
        item = record.item
        slot = record.row_index * self.runs + record.run_index
        if record.run_index >= self.runs or slot >= len(self.standings):
            raise ValueError(f"row {record.row_index} run {record.run_index} is no item of this run")
        before = self.attempts_at(item)
        if before or record.status == "cancelled":
            self._attempts[item] = before + 1
        if record.status != "cancelled":
            self.standings[slot] = standing_of(record)

    def attempts_at(self, item: Item) -> int:
        """How many attempts an item has had."""
        recorded = self.standings[item[0] * self.runs + item[1]] != Standing.PENDING
        return self._attempts.get(item, 1 if recorded else 0)

    def counts(self) -> Counter[Standing]:
        """How many items stand how."""
        return Counter({standing: self.standings.count(standing) for standing in Standing})

    def items(self, *standings: Standing, most: int = MOST_TOLD) -> list[Item]:
        """The first `most` items of these standings, in order."""
        wanted = bytes(standing in standings for standing in range(256))
        marks, found = bytes(self.standings).translate(wanted), list[Item]()
        slot = marks.find(1)
        while slot >= 0 and len(found) < most:
            found.append(divmod(slot, self.runs))
            slot = marks.find(1, slot + 1)
        return found


def read_recorded(path: Path, rows: int, runs: int) -> Recorded:
    """Read a journal; raises `JournalCorrupt` and `StorageError`."""
    recorded = Recorded(rows, runs)
    # Every line is a record, so that they are numbered alike.
    for number, record in enumerate(read_records(path), start=1):
        try:
            recorded.add(record)
        except ValueError as error:
            raise JournalCorrupt(str(path), number, str(error), "start anew with --fresh") from None
    return recorded


def last_records(path: Path, items: Collection[Item]) -> list[JournalRecord]:
    """The last final records of these items, in order of the items; one pass over the journal.

    Raises `JournalCorrupt` and `StorageError`.
    """
    wanted = set(items)
    found: dict[Item, JournalRecord] = {}
    for record in read_records(path) if wanted else ():
        if record.item in wanted and record.status != "cancelled":
            found[record.item] = record
    return [found[item] for item in sorted(found)]
