from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.csv_records import read_records
from osmosis_runner.dataset_file import Line
from osmosis_runner.dataset_problems import Unreadable
from osmosis_runner.errors import DatasetError
from osmosis_runner.json_lines import parse_line
from osmosis_runner.row_rules import json_ready
from osmosis_runner.rows import read_rows

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
cell = st.text(st.sampled_from('a,"\n\r é;\0'), max_size=8)
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=15,
)
separators = st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")])


def lines_of(content: bytes) -> list[Line]:
    found: list[Line] = []
    for piece in io.BytesIO(content).readlines():
        found.append(Line(len(found) + 1, sum(len(line.content) for line in found), piece))
    return found


@given(
    st.lists(st.lists(cell, min_size=2, max_size=4), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_whatever_the_standard_writer_quotes_is_read_back(rows: list[list[str]], end: str) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    records = list(read_records(lines_of(written.getvalue().encode())))
    assert [record.cells for record in records] == rows
    assert all(record.problem is None for record in records)


@given(st.binary(max_size=200) | st.text(st.sampled_from('a,"\n\r'), max_size=60).map(str.encode))
def test_any_bytes_are_records_or_a_clear_problem(content: bytes) -> None:
    broken: list[Unreadable] = []
    try:
        for record in read_records(lines_of(content)):
            assert record.problem is not None or record.cells
    except Unreadable as problem:
        broken.append(problem)
    assert all(problem.line is not None for problem in broken)


@given(st.dictionaries(text, values, max_size=5), separators, st.booleans())
def test_any_object_is_read_back_exactly(
    value: dict[str, Any], spaces: tuple[str, str], ascii_only: bool
) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only, separators=spaces).encode()
    found = parse_line(line)
    assert found == value
    assert json.dumps(json_ready(found)) == json.dumps(value)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", '":', "c"]), st.integers(0, 1)), max_size=5), separators)
def test_a_key_is_refused_exactly_when_it_stands_twice(
    pairs: list[tuple[str, int]], spaces: tuple[str, str]
) -> None:
    comma, colon = spaces
    inner = comma.join(f"{json.dumps(key)}{colon}{value}" for key, value in pairs)
    line = f'{{"x{colon}":{{{inner}}}}}'.encode()
    keys = [key for key, _ in pairs]
    try:
        parse_line(line)
        found = ""
    except Unreadable as problem:
        found = problem.found
    assert ("twice" in found) == (len(set(keys)) < len(keys))
    assert bool(found) == ("twice" in found)


@given(
    st.binary(max_size=120)
    | st.text(st.sampled_from('{}[]":,ae1.\\u -+NInf\n'), max_size=60).map(str.encode),
    st.sampled_from(["d.jsonl", "d.csv", "d.jsonl.gz", "d.csv.gz"]),
)
def test_any_file_is_rows_or_a_clear_error(tmp_path_factory: Any, content: bytes, name: str) -> None:
    path: Path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    refusal: DatasetError | None = None
    try:
        rows = read_rows(path)
        assert rows.total_rows == len(rows.rows) > 0
    except DatasetError as error:
        refusal = error
    if refusal is not None:
        assert str(refusal).startswith(str(path))
        json.dumps(refusal.details).encode()
