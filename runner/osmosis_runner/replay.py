"""What a journal says once it is read: the last record of each item, its attempts, what all cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from osmosis_runner.journal_record import JournalRecord, Status

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Spend:
    """Sums over attempts; None where no attempt told a value."""

    attempts: int = 0
    tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    def plus(self, other: Spend | JournalRecord) -> Spend:
        """Return the sum with other sums, or with one attempt."""
        return Spend(
            attempts=self.attempts + (other.attempts if isinstance(other, Spend) else 1),
            tokens=add_known(self.tokens, other.tokens),
            prompt_tokens=add_known(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=add_known(self.completion_tokens, other.completion_tokens),
            cached_tokens=add_known(self.cached_tokens, other.cached_tokens),
            cost_usd=add_known(self.cost_usd, other.cost_usd),
        )


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
    """Bytes after the last newline, or of trailing NULs, that were ignored."""

    def statuses(self) -> dict[tuple[int, int], Status]:
        """Return the status of each recorded item, as `plan.pending_items` takes it."""
        return {item: cast("Status", record.status) for item, record in self.latest.items()}


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


def add_known(known: _Number | None, more: _Number | None) -> _Number | None:
    """Add two figures of which either may be unknown; unknown only when both are."""
    if known is None or more is None:
        return known if more is None else more
    return known + more
