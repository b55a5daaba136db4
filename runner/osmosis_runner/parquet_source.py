"""Parquet files to judged rows, row group by row group; pyarrow is loaded when the first such file is read.

The only module that knows pyarrow. Reads the columns that rules know and the row groups that hold wanted rows.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from osmosis_runner.dataset_problems import Place, Problems, Unreadable, bounded
from osmosis_runner.dataset_sources import Judge, Wanted, header_problems
from osmosis_runner.row_rules import COLUMNS
from osmosis_runner.selection import Selection

_BATCH_ROWS = 128
_FAULTS = (ValueError, OverflowError, ArithmeticError, KeyError)
_INSTALL = "pip install 'osmosis-bridge[parquet]'"


def load_pyarrow(name: str = "pyarrow.parquet") -> ModuleType:
    """Import and return pyarrow's Parquet module. Raises `Unreadable` naming what to install."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Unreadable("reading Parquet needs pyarrow, which is not installed", _INSTALL) from None


def judge_parquet(path: Path, select: Selection | None, judge: Judge, problems: Problems) -> int:
    """Judge the wanted rows of a Parquet file; return how many rows it has. Raises `Unreadable` for the file."""
    parquet = load_pyarrow()
    arrow = load_pyarrow("pyarrow")
    try:
        with parquet.ParquetFile(path) as file:
            return _judge_open(file, select, judge, problems)
    except (arrow.ArrowException, OSError) as error:
        reason = bounded(str(error).partition("\n")[0])
        raise Unreadable(f"not a Parquet file that can be read: {reason}", "write the file again") from None


def _judge_open(file: Any, select: Selection | None, judge: Judge, problems: Problems) -> int:  # noqa: ANN401 - pyarrow's
    names = cast("list[str]", file.schema_arrow.names)
    for problem in header_problems(names):
        problems.add_unreadable(Place(None, None), problem)
    problems.raise_any()
    known = [name for name in names if name in COLUMNS]
    ignored = dict.fromkeys(name for name in names if name not in COLUMNS)
    wanted = Wanted(select)
    for offset, columns in _rows(file, known, select):
        if wanted.has(offset):
            _judge_row(offset, columns | ignored, judge, problems)
    return cast("int", file.metadata.num_rows)


def _rows(file: Any, known: list[str], select: Selection | None) -> Iterator[tuple[int, dict[str, object]]]:  # noqa: ANN401 - pyarrow's
    offset = 0
    for group in range(cast("int", file.num_row_groups)):
        count = cast("int", file.metadata.row_group(group).num_rows)
        if select is None or _touches(select, offset, offset + count):
            yield from _rows_of_group(file, group, known, offset)
        offset += count


def _rows_of_group(
    file: Any,  # noqa: ANN401 - pyarrow's
    group: int,
    known: list[str],
    offset: int,
) -> Iterator[tuple[int, dict[str, object]]]:
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=known):
        columns = [(name, _cells(batch.column(name), name, offset)) for name in known]
        for place in range(cast("int", batch.num_rows)):
            yield offset + place, {name: cells[place] for name, cells in columns}
        offset += cast("int", batch.num_rows)


def _cells(column: Any, name: str, offset: int) -> list[object]:  # noqa: ANN401 - pyarrow's
    try:
        return cast("list[object]", column.to_pylist(**_options(column)))
    except _FAULTS:
        return [_cell(column[place], name, offset + place) for place in range(len(column))]


def _cell(scalar: Any, name: str, offset: int) -> object:  # noqa: ANN401 - pyarrow's
    try:
        return cast("object", scalar.as_py(**_options(scalar)))
    except _FAULTS as error:
        # Text that is not UTF-8, a date beyond year 9999, a map's key twice: only the row that holds it is wrong.
        return Unreadable(f"a value that cannot be read: {bounded(str(error))}", f"mend row {offset}", name)


def _options(values: Any) -> dict[str, str]:  # noqa: ANN401 - pyarrow's
    """Return how maps become objects, for columns that hold some: strictly, so that no key is lost."""
    return {"maps_as_pydicts": "strict"} if "map<" in str(values.type) else {}


def _judge_row(offset: int, columns: dict[str, object], judge: Judge, problems: Problems) -> None:
    place = Place(None, offset)
    broken = [value for value in columns.values() if isinstance(value, Unreadable)]
    for problem in broken:
        problems.add_unreadable(place, problem)
    if not broken:
        ready = {name: _without_struct_nulls(name, value) for name, value in columns.items()}
        judge.judge(place, ready, lambda column: json.dumps(ready[column]))


def _without_struct_nulls(name: str, value: object) -> object:
    """A struct column holds every field for every row; in messages, fields that are null were never there."""
    if name == "messages" and isinstance(value, list):
        return [_without_nulls(entry) for entry in cast("list[object]", value)]
    return value


def _without_nulls(entry: object) -> object:
    if not isinstance(entry, Mapping):
        return entry
    return {key: part for key, part in cast("Mapping[str, object]", entry).items() if part is not None}


def _touches(select: Selection, start: int, stop: int) -> bool:
    return any(low < stop and high > start for low, high in select.ranges)
