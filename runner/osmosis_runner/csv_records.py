"""CSV text to records, exactly: commas, double quotes, doubled quotes inside them, any of the three line ends.

The standard reader drops or merges what it does not expect; this one says where. Lines come in, records go out; a
quoted cell may hold line ends. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from osmosis_runner.dataset_file import LONGEST_ROW_BYTES, Line
from osmosis_runner.dataset_problems import Unreadable, shown
from osmosis_runner.json_lines import bad_byte

_LONE_RETURN = re.compile(rb"(?<=\r)(?!\n)")


class Record(NamedTuple):
    """One record: its first line and its cells, or what is wrong with it."""

    line: int
    cells: list[str]
    problem: Unreadable | None


def read_records(lines: Iterable[Line]) -> Iterator[Record]:
    """Yield the records, without blank lines.

    A record with a problem has no cells. Raises `Unreadable` where no further record can be told apart.
    """
    open_record: _OpenRecord | None = None
    for line in _physical_lines(lines):
        if open_record is None:
            if not line.content.rstrip(b"\r\n"):
                continue
            if b'"' not in line.content:
                yield _plain_record(line)
                continue
            open_record = _OpenRecord(line.number)
        if open_record.feed(line):
            yield open_record.record()
            open_record = None
    if open_record is not None:
        raise open_record.never_closed()


def _physical_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """Count a carriage return without a newline as a line end too, as editors and spreadsheets do."""
    number = 0
    for line in lines:
        number += 1
        if b"\r" not in line.content[:-2]:
            yield Line(number, line.offset, line.content)
            continue
        offset = line.offset
        for place, piece in enumerate(filter(None, _LONE_RETURN.split(line.content))):
            number += place > 0
            yield Line(number, offset, piece)
            offset += len(piece)


def _plain_record(line: Line) -> Record:
    try:
        return Record(line.number, line.content.rstrip(b"\r\n").decode().split(","), None)
    except UnicodeDecodeError as error:
        return Record(line.number, [], bad_byte(line.content, error.start, line.offset))


class _OpenRecord:
    """A record that is being read, line by line."""

    def __init__(self, first_line: int) -> None:
        self._first_line = first_line
        self._cells: list[str] = []
        self._parts: list[str] | None = None
        """Text of the quoted cell that is open."""
        self._opened = (first_line, 1)
        self._size = 0
        self._problem: Unreadable | None = None

    def record(self) -> Record:
        """Return the complete record."""
        return Record(self._first_line, [] if self._problem else self._cells, self._problem)

    def feed(self, line: Line) -> bool:
        """Take one line; return whether the record ended with it."""
        self._size += len(line.content)
        if self._size > LONGEST_ROW_BYTES:
            raise self.never_closed()
        try:
            text = line.content.decode()
        except UnicodeDecodeError as error:
            self._problem = self._problem or bad_byte(line.content, error.start, line.offset)
            # One byte a character keeps quotes and commas in place, so that the record still ends where it ends.
            text = line.content.decode("latin-1")
        return self._cells_of(text, line.number)

    def never_closed(self) -> Unreadable:
        """Return the problem of a quote that stays open."""
        line, column = self._opened
        return Unreadable(
            f"the double quote at character {column} is never closed",
            'close it; a quote inside a quoted cell is written twice ("")',
            line=line,
        )

    def _cells_of(self, text: str, number: int) -> bool:
        body = text.rstrip("\r\n")
        place = 0
        while True:
            if self._parts is None and body.startswith('"', place):
                self._parts, self._opened, place = [], (number, place + 1), place + 1
            if self._parts is None:
                place = self._plain_cell(body, place)
            else:
                place = self._quoted_cell(text, len(body), place)
                if place < 0:
                    return False
            if place >= len(body):
                if body.endswith(",") and place == len(body):
                    self._cells.append("")
                return True

    def _plain_cell(self, body: str, place: int) -> int:
        end = body.find(",", place)
        cell = body[place:] if end < 0 else body[place:end]
        if cell.lstrip().startswith('"'):
            self._complain(f"a space before the quote at character {place + 1}", "take the space away")
        self._cells.append(cell)
        return len(body) + 1 if end < 0 else end + 1

    def _quoted_cell(self, text: str, body_length: int, place: int) -> int:
        """Read from inside a quoted cell; return where the next cell begins, -1 when it goes on in the next line."""
        parts = self._parts if self._parts is not None else []
        while True:
            end = text.find('"', place)
            if end < 0:
                parts.append(text[place:])
                return -1
            parts.append(text[place:end])
            if not text.startswith('"', end + 1):
                break
            parts.append('"')
            place = end + 2
        self._cells.append("".join(parts))
        self._parts = None
        return self._after_quote(text[:body_length], end + 1)

    def _after_quote(self, body: str, place: int) -> int:
        if place >= len(body):
            return len(body) + 1
        if body[place] == ",":
            return place + 1
        end = body.find(",", place)
        extra = body[place:] if end < 0 else body[place:end]
        self._complain(
            f"{shown(extra)} after the closing quote at character {place}",
            'put the whole cell (such as JSON) in double quotes and write each quote inside it twice ("")',
        )
        return len(body) + 1 if end < 0 else end + 1

    def _complain(self, found: str, fix: str) -> None:
        self._problem = self._problem or Unreadable(found, fix)
