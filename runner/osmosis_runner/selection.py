"""Which rows of a dataset: the `--rows` text, as sorted ranges.

    SELECTOR = ITEM ("," ITEM)*        ITEM = D | D "-" D        (decimal, inclusive, counted from 0)

Pure; knows nothing of files. Holds ranges, not rows: `0-999999999` costs as little as `0`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from osmosis_runner.errors import SelectionError

LARGEST_OFFSET = 10**12
"""A bound far above any dataset, so that a slip of the finger is an error and not an endless loop."""

_ITEM = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_SHOWN = 200


class Selection(msgspec.Struct, frozen=True):
    """Row offsets, ascending and without repeats."""

    ranges: tuple[tuple[int, int], ...]
    """Half-open, sorted, never empty, never touching."""

    def __post_init__(self) -> None:
        for start, stop in self.ranges:
            if start < 0 or start >= stop:
                raise ValueError(f"not a range of rows: {start}..{stop}")
        for before, after in pairwise(self.ranges):
            if before[1] >= after[0]:
                raise ValueError(f"ranges touch or are out of order: {before}, {after}")

    @classmethod
    def of(cls, offsets: Iterable[int]) -> Selection:
        """Return the selection of `offsets`, in any order."""
        return cls(_merge((offset, offset + 1) for offset in offsets))

    @classmethod
    def first(cls, count: int) -> Selection:
        """Return the first `count` rows; none for a count under 1."""
        return cls(((0, count),) if count > 0 else ())

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for start, stop in self.ranges:
            yield from range(start, stop)

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self.ranges, offset, key=lambda bounds: bounds[0]) - 1
        return place >= 0 and offset < self.ranges[place][1]

    @property
    def last(self) -> int:
        """The highest offset; -1 when empty."""
        return self.ranges[-1][1] - 1 if self.ranges else -1

    def compact(self) -> str:
        """Return the shortest selector, such as `0-9,12`; empty text for no rows."""
        return ",".join(
            str(start) if stop == start + 1 else f"{start}-{stop - 1}" for start, stop in self.ranges
        )

    def outside(self, count: int) -> Selection:
        """Return the part that a dataset of `count` rows does not have."""
        return Selection(tuple((max(start, count), stop) for start, stop in self.ranges if stop > count))


def parse_rows(text: str) -> Selection:
    """Read a `--rows` value. Raises `SelectionError` naming the item and how to write it."""
    stripped = text.strip()
    if not stripped:
        raise SelectionError("--rows is empty; write row offsets from 0, such as 0-9,12", {"rows": text})
    return Selection(_merge(_parse_item(item, stripped) for item in stripped.split(",")))


def check_within(selection: Selection, count: int) -> None:
    """Raise `SelectionError` listing the selected rows that a dataset of `count` rows lacks."""
    missing = selection.outside(count)
    if not missing.ranges:
        return
    valid = f"valid rows are 0-{count - 1}" if count else "the dataset has no rows"
    raise SelectionError(
        f"--rows names rows that the dataset does not have: {_shorten(missing.compact())}; {valid}",
        {"rows": selection.compact(), "missing": missing.compact(), "total_rows": count},
    )


def _parse_item(item: str, whole: str) -> tuple[int, int]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise SelectionError(_malformed(item), {"rows": whole, "item": item})
    first, last = match[1], match[2] or match[1]
    longest = max(first.lstrip("0"), last.lstrip("0"), key=len)
    if len(longest) > len(str(LARGEST_OFFSET)) or int(longest or 0) > LARGEST_OFFSET:
        raise SelectionError(
            f"--rows item {_shorten(item)!r} is beyond any dataset; offsets end at {LARGEST_OFFSET}",
            {"rows": whole, "item": item},
        )
    if int(first) > int(last):
        raise SelectionError(
            f"--rows item {item!r} runs backwards; write {int(last)}-{int(first)}",
            {"rows": whole, "item": item},
        )
    return int(first), int(last) + 1


def _malformed(item: str) -> str:
    shown = _shorten(item)
    tight = re.sub(r"\s", "", item)
    if not tight:
        return "--rows has an empty item; write offsets divided by single commas, such as 0-9,12"
    if tight != item and _ITEM.fullmatch(tight):
        return f"--rows item {shown!r} holds a space; write {_shorten(tight)!r}"
    if item.startswith("-") and item[1:].isdecimal():
        return f"--rows item {shown!r} is negative; offsets count from 0"
    return f"--rows item {shown!r} is not a row; write an offset such as 12 or a range such as 0-9"


def _merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return tuple(merged)


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
