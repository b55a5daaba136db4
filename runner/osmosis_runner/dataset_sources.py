"""JSONL and CSV files to judged rows: which rows are wanted, where each stands, what the header promises.

Reads each file once, to its end, so that the hash and the number of rows are those of the whole file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from osmosis_runner.csv_records import Record, read_records
from osmosis_runner.dataset_file import Line
from osmosis_runner.dataset_problems import Place, Problems, Unreadable, shown
from osmosis_runner.json_lines import parse_line, text_of
from osmosis_runner.row_rules import COLUMNS, missing_column, misspelt_columns
from osmosis_runner.selection import Selection

_SEPARATORS = {";": "a semicolon", "\t": "a tab", "|": "a bar"}


class Judge(Protocol):
    """What takes a row's columns."""

    def judge(self, place: Place, columns: Mapping[str, object], text_of: Callable[[str], str]) -> None:
        """Keep the row or note what is wrong with it."""
        ...


class Wanted:
    """Whether offsets, asked for in ascending order, are selected."""

    def __init__(self, selection: Selection | None) -> None:
        self._everything = selection is None
        self._ranges = iter(selection.ranges if selection else ())
        self._current = next(self._ranges, None)

    def has(self, offset: int) -> bool:
        """Whether the row at `offset` is selected."""
        if self._everything:
            return True
        while self._current is not None and offset >= self._current[1]:
            self._current = next(self._ranges, None)
        return self._current is not None and offset >= self._current[0]


def judge_jsonl(lines: Iterable[Line], wanted: Wanted, judge: Judge, problems: Problems) -> int:
    """Judge the wanted rows of a JSONL file; return how many rows it has. Raises `Unreadable` for the file."""
    offset = -1
    for line in lines:
        if line.content.isspace():
            continue
        offset += 1
        if wanted.has(offset):
            _judge_line(line, offset, judge, problems)
    return offset + 1


def _judge_line(line: Line, offset: int, judge: Judge, problems: Problems) -> None:
    place = Place(line.number, offset)
    if offset == 0:
        _check_first_line(line)
    try:
        columns = parse_line(line.content, line.offset)
    except Unreadable as problem:
        problems.add_unreadable(place, problem)
        return
    judge.judge(place, columns, lambda column: text_of(line.content, column))


def _check_first_line(line: Line) -> None:
    """Raise `Unreadable` once for a file whose every line would be wrong in the same way."""
    start = line.content.lstrip()
    if start.startswith(b"["):
        raise Unreadable(
            "the file holds a JSON list, not one object a line", "jq -c '.[]' OLD > NEW", line=line.number
        )
    if start.rstrip() == b"{":
        raise Unreadable(
            "the file's objects go over several lines",
            "write each on one line: jq -c . OLD > NEW",
            line=line.number,
        )


def judge_csv(lines: Iterable[Line], wanted: Wanted, judge: Judge, problems: Problems) -> int:
    """Judge the wanted rows of a CSV file; return how many rows it has. Raises `Unreadable` for the file."""
    records = read_records(lines)
    header = next(records, None)
    if header is None:
        raise Unreadable("the file is empty", "give it a header line such as user_prompt,ground_truth")
    if header.problem is not None:
        problems.add_unreadable(Place(header.line, None), header.problem)
        problems.raise_any()
    names = header.cells
    for problem in header_problems(names):
        problems.add_unreadable(Place(header.line, None), problem)
    problems.raise_any()
    offset = -1
    for offset, record in enumerate(records):
        if wanted.has(offset):
            _judge_record(record, offset, names, judge, problems)
    return offset + 1


def _judge_record(
    record: Record, offset: int, names: Sequence[str], judge: Judge, problems: Problems
) -> None:
    place = Place(record.line, offset)
    if record.problem is not None:
        problems.add_unreadable(place, record.problem)
    elif len(record.cells) != len(names):
        cells = "1 cell" if len(record.cells) == 1 else f"{len(record.cells)} cells"
        found = f"{cells} where the header has {len(names)}"
        last = names[min(len(record.cells), len(names)) - 1]
        fix = "write every cell; a cell that holds a comma, a quote or a line end stands in double quotes"
        problems.add(place, last, found, fix)
    else:
        judge.judge(place, dict(zip(names, record.cells, strict=True)), str)


def header_problems(names: Sequence[str]) -> list[Unreadable]:
    """Return what is wrong with the column names of a CSV or Parquet file, before any row is read."""
    repeated = sorted({name for name in names if name and names.count(name) > 1})
    found = [Unreadable("the column stands twice in the header", "rename one", name) for name in repeated]
    found += misspelt_columns(names)
    if found or "metadata" in names:
        return found
    separator = _other_separator(names)
    if separator is not None:
        return [
            Unreadable(
                f"the header is divided by {_SEPARATORS[separator]}: {shown(separator.join(names))}",
                "save the file with commas",
            )
        ]
    if not any(name in COLUMNS for name in names):
        fix = "begin the file with a header line such as user_prompt,ground_truth"
        return [Unreadable(f"the first line names no known column: {shown(','.join(names))}", fix)]
    return _missing_columns(names)


def _missing_columns(names: Sequence[str]) -> list[Unreadable]:
    missing: list[str] = []
    if "user_prompt" not in names and "messages" not in names:
        missing.append("user_prompt")
    if "ground_truth" not in names and "label" not in names:
        missing.append("ground_truth")
    return [Unreadable(*missing_column(column, names), column) for column in missing]


def _other_separator(names: Sequence[str]) -> str | None:
    text = ",".join(names)
    for separator in _SEPARATORS:
        parts = [part.strip().strip('"').lower() for part in text.split(separator)]
        if len(parts) > 1 and any(part in COLUMNS for part in parts):
            return separator
    return None
