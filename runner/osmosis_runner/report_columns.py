"""Figures of items in typed arrays: eight bytes a figure, replaced in place, with running sums. Pure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator

_UNKNOWN = -1


class IntColumn:
    """One non-negative whole number per item, or unknown."""

    def __init__(self, items: int) -> None:
        self._values = array("q", [_UNKNOWN]) * items
        self._sum = 0
        self.known = 0
        """How many items have a value."""

    def put(self, slot: int, value: int | None) -> None:
        """Set the item's value; the earlier one leaves the sum."""
        before = self._values[slot]
        if before != _UNKNOWN:
            self._sum -= before
            self.known -= 1
        if value is None or value < 0:
            self._values[slot] = _UNKNOWN
            return
        self._values[slot] = value
        self._sum += value
        self.known += 1

    @property
    def total(self) -> int | None:
        """Sum of the known values; None when there is none."""
        return self._sum if self.known else None

    def ordered(self) -> list[int]:
        """Return the known values, ascending."""
        return sorted(value for value in self._values if value != _UNKNOWN)


class FloatColumn:
    """One finite number per item, or unknown."""

    def __init__(self, items: int) -> None:
        self._values = array("d", [math.nan]) * items
        self._sum = 0.0
        self.known = 0
        """How many items have a value."""

    def put(self, slot: int, value: float | None) -> None:
        """Set the item's value; the earlier one leaves the sum."""
        before = self._values[slot]
        if not math.isnan(before):
            self._sum -= before
            self.known -= 1
        if value is None or not math.isfinite(value):
            self._values[slot] = math.nan
            return
        self._values[slot] = value
        self._sum += value
        self.known += 1

    def at(self, slot: int) -> float:
        """Return the item's value, NaN when unknown."""
        return self._values[slot]

    @property
    def running_total(self) -> float | None:
        """Sum of the known values, with the rounding of a running sum; None when there is none."""
        return self._sum if self.known else None

    @property
    def total(self) -> float | None:
        """Exact sum of the known values; None when there is none."""
        return math.fsum(self) if self.known else None

    def ordered(self) -> list[float]:
        """Return the known values, ascending."""
        return sorted(self)

    def by_row(self, runs: int) -> Iterator[float]:
        """Yield the mean of each row that has a known value; `runs` items make a row."""
        for start in range(0, len(self._values), runs):
            values = [value for value in self._values[start : start + runs] if not math.isnan(value)]
            if values:
                yield math.fsum(values) / len(values)

    def __iter__(self) -> Iterator[float]:
        return (value for value in self._values if not math.isnan(value))
