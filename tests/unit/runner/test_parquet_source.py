from __future__ import annotations

import datetime as dt
import decimal
import importlib
import sys
from pathlib import Path

import pytest

from osmosis_runner.dataset_problems import Unreadable
from osmosis_runner.errors import DatasetError
from osmosis_runner.parquet_source import load_pyarrow
from osmosis_runner.rows import RowSet, read_rows
from osmosis_runner.selection import Selection


def arrow():
    return pytest.importorskip("pyarrow")


def write(path: Path, columns, **options) -> Path:
    table = arrow().table(columns)
    importlib.import_module("pyarrow.parquet").write_table(table, path, **options)
    return path


def read(tmp_path: Path, columns, select: Selection | None = None, **options) -> RowSet:
    return read_rows(write(tmp_path / "d.parquet", columns, **options), select)


def refused(tmp_path: Path, columns) -> list[tuple[int | None, str | None, str]]:
    with pytest.raises(DatasetError) as caught:
        read(tmp_path, columns)
    return [(issue.row, issue.column, issue.found) for issue in caught.value.issues]


def test_without_pyarrow_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(Unreadable) as caught:
        load_pyarrow()
    assert caught.value.fix == "pip install 'osmosis-bridge[parquet]'"
    path = tmp_path / "d.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match=r"pip install 'osmosis-bridge\[parquet\]'"):
        read_rows(path)


def test_rows_are_read_with_structs_lists_and_dictionaries(tmp_path: Path) -> None:
    pa = arrow()
    rows = read(
        tmp_path,
        {
            "user_prompt": pa.array(["q", "r"]).dictionary_encode(),
            "ground_truth": pa.array([1, 2], pa.int64()),
            "metadata": [{"a": 1, "l": [1, 2], "s": {"t": "x"}}, {"a": None, "l": None, "s": None}],
            "id": [7, 8],
        },
    )
    assert [row.label for row in rows.rows] == ["1", "2"]
    assert rows.rows[0].metadata == {"a": 1, "l": [1, 2], "s": {"t": "x"}}
    assert rows.rows[1].metadata == {"a": None, "l": None, "s": None}
    assert rows.ignored_columns == ("id",)
    assert rows.dataset_format == "parquet"


def test_numbers_become_their_json_text(tmp_path: Path) -> None:
    rows = read(tmp_path, {"user_prompt": ["q", "r"], "label": [1.5, 4.0]})
    assert [row.label for row in rows.rows] == ["1.5", "4.0"]


def test_large_unsigned_integers_and_maps_are_exact(tmp_path: Path) -> None:
    pa = arrow()
    rows = read(
        tmp_path,
        {
            "user_prompt": ["q", "r"],
            "metadata": pa.array(
                [{"i": 2**64 - 1, "m": [("k", 1)]}, {"i": 0, "m": []}],
                pa.struct([("i", pa.uint64()), ("m", pa.map_(pa.string(), pa.int64()))]),
            ),
        },
    )
    assert rows.rows[0].metadata == {"i": 2**64 - 1, "m": {"k": 1}}
    assert rows.rows[1].metadata == {"i": 0, "m": {}}


def test_a_map_with_a_repeated_key_is_refused_in_its_row_only(tmp_path: Path) -> None:
    pa = arrow()
    metadata = pa.array([[("k", 1)], [("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    [(row, column, found)] = refused(tmp_path, {"user_prompt": ["q", "r"], "metadata": metadata})
    assert (row, column) == (1, "metadata")
    assert "cannot be read" in found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "a datetime"),
        (dt.date(2020, 1, 1), "a date"),
        (decimal.Decimal("1.10"), "a Decimal"),
        (b"\x00\xff", "a bytes"),
        (float("nan"), "nan, which JSON cannot hold"),
    ],
)
def test_values_that_json_lacks_are_refused_at_load_with_their_row(tmp_path: Path, value, found: str) -> None:
    [(row, column, text)] = refused(tmp_path, {"user_prompt": ["q"], "metadata": [{"x": value}]})
    assert (row, column) == (0, "metadata.x")
    assert found in text


def test_a_missing_label_names_its_row(tmp_path: Path) -> None:
    assert refused(tmp_path, {"user_prompt": ["q", "r"], "ground_truth": arrow().array([1, None])}) == [
        (1, "ground_truth", "'ground_truth' is null")
    ]


def test_text_that_is_not_utf8_is_refused_in_its_row_only(tmp_path: Path) -> None:
    pa = arrow()
    broken = pa.array([b"fine", b"caf\xe9"], pa.binary()).view(pa.string())
    [(row, column, _)] = refused(tmp_path, {"user_prompt": broken, "label": ["1", "2"]})
    assert (row, column) == (1, "user_prompt")


def test_messages_lose_the_nulls_of_fields_that_other_rows_have(tmp_path: Path) -> None:
    rows = read(
        tmp_path,
        {
            "messages": [
                [{"role": "user", "content": "q", "name": None}],
                [{"role": "user", "content": "r", "name": "n"}],
            ],
            "label": ["1", "2"],
        },
    )
    assert rows.rows[0].messages == [{"role": "user", "content": "q"}]
    assert rows.rows[1].messages == [{"role": "user", "content": "r", "name": "n"}]


def test_only_wanted_rows_are_read_across_row_groups(tmp_path: Path) -> None:
    prompts = [f"q{i}" for i in range(1000)]
    rows = read(
        tmp_path,
        {"user_prompt": prompts, "label": prompts},
        Selection.of([0, 99, 100, 999]),
        row_group_size=100,
    )
    assert [row.source_row_index for row in rows.rows] == [0, 99, 100, 999]
    assert [row.label for row in rows.rows] == ["q0", "q99", "q100", "q999"]
    assert rows.total_rows == 1000


@pytest.mark.parametrize("content", [b"hello", b"", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    arrow()
    path = tmp_path / "d.parquet"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="not a Parquet file"):
        read_rows(path)


def test_an_empty_table_and_a_wrong_header_are_refused(tmp_path: Path) -> None:
    pa = arrow()
    empty = pa.array([], pa.string())
    with pytest.raises(DatasetError, match="has no rows"):
        read(tmp_path, {"user_prompt": empty, "label": empty})
    assert "called 'Label'" in refused(tmp_path, {"user_prompt": ["q"], "Label": ["1"]})[0][2]


def test_large_nested_lists_are_read(tmp_path: Path) -> None:
    big = "x" * 1_000_000
    rows = read(tmp_path, {"user_prompt": ["q"], "metadata": [{"l": [big, "y"]}]})
    assert rows.rows[0].metadata == {"l": [big, "y"]}
