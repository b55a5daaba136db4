"""The problems of a dataset by kind: what a thousand rows have wrong in the same way is said once, with their number.

Problems are alike when they are found in the same column and told in the same words but for the values they quote.
Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from osmosis_runner.errors import DatasetIssue
    from osmosis_runner.jsontext import JsonObject

MOST_KINDS = 100
ROWS_TOLD = 5

_VALUES = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d[\d,.]*""")
_PLACES = re.compile(r"\[\d+\]")

_Key = tuple[str | None, str, str]


class ProblemKind(msgspec.Struct):
    """Problems that are alike."""

    first: DatasetIssue
    count: int = 0
    rows: list[int] = msgspec.field(default_factory=list[int])
    """The first rows that have it; none of a problem of the whole file."""
    same: bool = True
    """Whether all of them found the very same."""

    def __str__(self) -> str:
        if self.count == 1 or not self.rows:
            return str(self.first)
        shown = ", ".join(map(str, self.rows)) + (", ..." if self.count > len(self.rows) else "")
        column = f", {_PLACES.sub('', self.first.column)}" if self.first.column else ""
        example = "" if self.same else f" (row {self.rows[0]})"
        line = f" from line {self.first.line}" if self.first.line is not None else ""
        return f"{self.count:,} rows ({shown}{line}){column}: {self.first.found}{example}; {self.first.fix}"

    def to_json(self) -> JsonObject:
        """Count, rows and the first one's words, for programs."""
        told: JsonObject = {"found": self.first.found, "fix": self.first.fix, "count": self.count}
        if self.first.column is not None:
            told["column"] = self.first.column
        return told | {"rows": list(self.rows)}


class ProblemKinds:
    """Kinds of problems in the order in which they were first met."""

    def __init__(self) -> None:
        self.total = 0
        """All problems."""
        self.others = 0
        """Problems of kinds beyond `MOST_KINDS`."""
        self._kinds: dict[_Key, ProblemKind] = {}

    @classmethod
    def of(cls, issues: Iterable[DatasetIssue]) -> Self:
        """The kinds of these problems."""
        kinds = cls()
        for issue in issues:
            kinds.add(issue)
        return kinds

    @property
    def listed(self) -> list[ProblemKind]:
        """The kinds."""
        return list(self._kinds.values())

    def add(self, issue: DatasetIssue) -> None:
        """Count one more problem."""
        self.total += 1
        key = _key(issue)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                self.others += 1
                return
            kind = self._kinds[key] = ProblemKind(issue)
        kind.count += 1
        kind.same = kind.same and issue.found == kind.first.found
        if issue.row is not None and len(kind.rows) < ROWS_TOLD:
            kind.rows.append(issue.row)


def _key(issue: DatasetIssue) -> _Key:
    column = None if issue.column is None else _PLACES.sub("", issue.column)
    # What stands behind a colon is the value that was found.
    return column, _VALUES.sub("", issue.found.partition(": ")[0]), _VALUES.sub("", issue.fix)
