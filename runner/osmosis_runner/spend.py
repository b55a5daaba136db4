"""What attempts cost: sums in which the unknown stays unknown until something is told. Pure."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from osmosis_runner.journal_record import JournalRecord

_Number = TypeVar("_Number", int, float)


class Spend(msgspec.Struct, frozen=True):
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


def add_known(known: _Number | None, more: _Number | None) -> _Number | None:
    """Add two figures of which either may be unknown; unknown only when both are."""
    if known is None or more is None:
        return known if more is None else more
    return known + more
