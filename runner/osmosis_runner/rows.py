"""Dataset files to rows: read in one pass, hashed while read, only selected rows kept.

A file is read exactly or refused with file, line or row, column, what was found and what to do; never a traceback,
never silent loss. Rows that are not selected are counted and not judged. Knows nothing of runs or attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from osmosis_runner.dataset_file import (
    DatasetFormat,
    DatasetName,
    check_regular,
    format_of,
    hash_file,
    open_text,
)
from osmosis_runner.dataset_problems import WHOLE_FILE, Problems, Unreadable
from osmosis_runner.dataset_sources import Wanted, judge_csv, judge_jsonl
from osmosis_runner.parquet_source import judge_parquet
from osmosis_runner.row_rules import RowRules
from osmosis_runner.row_store import Row, RowStore
from osmosis_runner.selection import Selection, check_within

__all__ = ["DatasetFormat", "Row", "RowSet", "read_rows"]


class RowSet(msgspec.Struct, frozen=True):
    """The selected rows of one file and what identifies the file."""

    rows: Sequence[Row]
    """Random access; decoded anew on each access, so keep a `Row` only while it is worked on."""
    sha256: str
    """Hex digest of the file's bytes as stored (compressed, for `.gz`)."""
    total_rows: int
    selection: Selection
    """Offsets of `rows` in the file; `selection.compact()` identifies them."""
    file: Path
    dataset_format: DatasetFormat
    ignored_columns: tuple[str, ...] = ()
    """Columns that no rule reads, in order of appearance; bounded."""
    column_sets: int = 1
    """How many different sets of columns rows have; bounded."""


class _Counted(msgspec.Struct, frozen=True):
    total: int
    sha256: str


def read_rows(path: Path, select: Selection | None = None, limit: int | None = None) -> RowSet:
    """Read the rows of `path` that `select` names, else its first `limit` rows, else all.

    Raises `DatasetNotFound`, `DatasetError` (all problems at once, by kind) and `SelectionError`.
    """
    problems = Problems(str(path))
    check_regular(path, problems)
    store = RowStore()
    rules = RowRules(store, problems)
    first = Selection.first(limit) if limit is not None and limit > 0 else None
    asked = first if select is None else select
    try:
        name = format_of(path)
        counted = _judge(path, name, asked, rules, problems)
    except Unreadable as problem:
        problems.add_unreadable(WHOLE_FILE, problem)
        problems.raise_any()
        raise
    except OSError as error:
        problems.add(WHOLE_FILE, None, f"cannot be read: {error.strerror or error}", "check the file")
        problems.raise_any()
        raise
    if select is not None and not problems.total:
        check_within(select, counted.total)
    if not counted.total:
        problems.add(WHOLE_FILE, None, "the file has no rows", "add at least one row")
    problems.raise_any()
    return RowSet(
        rows=store,
        sha256=counted.sha256,
        total_rows=counted.total,
        selection=_taken(asked, counted.total),
        file=path,
        dataset_format=name.format,
        ignored_columns=rules.ignored_columns,
        column_sets=rules.column_sets,
    )


def _judge(
    path: Path, name: DatasetName, select: Selection | None, rules: RowRules, problems: Problems
) -> _Counted:
    if name.format == "parquet":
        return _judge_parquet(path, select, rules, problems)
    judge_text = judge_csv if name.format == "csv" else judge_jsonl
    with open_text(path, gzipped=name.gzipped) as text:
        total = judge_text(text.lines(), Wanted(select), rules, problems)
        return _Counted(total, text.sha256())


def _judge_parquet(path: Path, select: Selection | None, rules: RowRules, problems: Problems) -> _Counted:
    before = path.stat()
    digest = hash_file(path)
    total = judge_parquet(path, select, rules, problems)
    after = path.stat()
    if (before.st_mtime_ns, before.st_size, before.st_ino) != (
        after.st_mtime_ns,
        after.st_size,
        after.st_ino,
    ):
        raise Unreadable("the file changed while it was read", "start again when it is complete")
    return _Counted(total, digest)


def _taken(asked: Selection | None, total: int) -> Selection:
    if asked is None:
        return Selection.first(total)
    return Selection(tuple((start, min(stop, total)) for start, stop in asked.ranges if start < total))
