"""Gathers what is wrong with a dataset file: the first problems one by one, all of them by kind."""

from __future__ import annotations

import msgspec

from osmosis_runner.errors import KEPT_ISSUES, DatasetError, DatasetIssue
from osmosis_runner.problem_kinds import ProblemKinds

SHOWN = 60


class Place(msgspec.Struct, frozen=True):
    """Where a row stands."""

    line: int | None
    row: int | None


WHOLE_FILE = Place(None, None)


class Unreadable(Exception):
    """A value or a file that cannot be read exactly; becomes an issue where its place is known."""

    def __init__(self, found: str, fix: str, column: str | None = None, line: int | None = None) -> None:
        super().__init__(found)
        self.found = found
        self.fix = fix
        self.column = column
        self.line = line


class Problems:
    """The problems of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._issues: list[DatasetIssue] = []
        self._kinds = ProblemKinds()

    @property
    def total(self) -> int:
        """How many there are."""
        return self._kinds.total

    def add(self, place: Place, column: str | None, found: str, fix: str) -> None:
        """Note one problem."""
        issue = DatasetIssue(found, fix, place.line, place.row, column)
        self._kinds.add(issue)
        if len(self._issues) < KEPT_ISSUES:
            self._issues.append(issue)

    def add_unreadable(self, place: Place, problem: Unreadable) -> None:
        """Note one problem that was raised."""
        line = place.line if problem.line is None else problem.line
        self.add(Place(line, place.row), problem.column, problem.found, problem.fix)

    def raise_any(self) -> None:
        """Raise `DatasetError` when there is a problem."""
        if self.total:
            raise DatasetError(self._file, self._issues, self._kinds)


def bounded(text: str) -> str:
    """Return `text` cut to what a message may quote, without quotes, on one line."""
    line = text if text.isprintable() else ascii(text)[1:-1]
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."


def shown(value: object) -> str:
    """Return `value` as it may stand in a message: quoted, bounded, one line."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
