"""A whole journal folded in memory, by its rules: what the runner, which only reads along, must agree with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from osmosis_runner.journal import read_records, torn_bytes
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.spend import Spend


@dataclass(frozen=True, slots=True)
class Replay:
    """What a journal says."""

    latest: Mapping[tuple[int, int], JournalRecord]
    """Last final record of each item (never a cancelled one), in order of first appearance."""
    attempts: Mapping[tuple[int, int], int]
    """How many attempts each item has had, cancelled ones included."""
    spent: Spend
    """Over every line: superseded and cancelled attempts included."""
    lines: int
    dropped_tail: int
    """Bytes after the last newline that were ignored."""

    def statuses(self) -> dict[tuple[int, int], str]:
        """The status of each recorded item."""
        return {item: record.status for item, record in self.latest.items()}


def replay(path: Path) -> Replay:
    """Read a journal."""
    return fold(read_records(path), torn_bytes(path))


def fold(records: Iterable[JournalRecord], dropped_tail: int = 0) -> Replay:
    """Read `records` in order of their lines."""
    latest: dict[tuple[int, int], JournalRecord] = {}
    attempts: dict[tuple[int, int], int] = {}
    spent = Spend()
    lines = 0
    for record in records:
        lines += 1
        attempts[record.item] = attempts.get(record.item, 0) + 1
        spent = spent.plus(record)
        if record.status != "cancelled":
            latest[record.item] = record
    return Replay(latest, attempts, spent, lines, dropped_tail)
