from __future__ import annotations

import gzip
import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest

from osmosis_runner.errors import DatasetError, DatasetNotFound, SelectionError
from osmosis_runner.rows import Row, RowSet, read_rows
from osmosis_runner.selection import Selection, parse_rows

HEADER = "user_prompt,ground_truth\n"
ROW = '{"user_prompt":"q","ground_truth":"1"}\n'


def read(tmp_path: Path, name: str, content: str | bytes, **options: object) -> RowSet:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_rows(path, **options)  # type: ignore[arg-type]


def asked(rows: RowSet) -> list[tuple[object, str | None]]:
    return [(row.messages[-1]["content"], row.label) for row in rows.rows]


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("bom.csv", b"\xef\xbb\xbf" + HEADER.encode() + b"2 x 2,4\n", [("2 x 2", "4")]),
        ("bom.jsonl", b"\xef\xbb\xbf" + ROW.encode(), [("q", "1")]),
        (
            "quoted.csv",
            HEADER + '"line one\nline two, with comma","4"\n',
            [("line one\nline two, with comma", "4")],
        ),
        ("crlf.csv", HEADER.replace("\n", "\r\n") + "a,b\r\n", [("a", "b")]),
        ("cr.csv", HEADER.replace("\n", "\r") + "a,b\rc,d\r", [("a", "b"), ("c", "d")]),
        ("end.csv", HEADER + "a,b", [("a", "b")]),
        ("field.csv", HEADER + '"a\rb",c\r\n', [("a\rb", "c")]),
        ("quotes.csv", HEADER + '"he said ""hi""",4\n', [('he said "hi"', "4")]),
        ("blank.csv", HEADER + "\na,1\n\nb,2\n", [("a", "1"), ("b", "2")]),
        ("big.csv", HEADER + '"' + "x" * 200_000 + '",1\n', [("x" * 200_000, "1")]),
        ("nul.csv", HEADER + "a\0b,1\n", [("a\0b", "1")]),
        ("nul.jsonl", '{"user_prompt":"a\\u0000b","ground_truth":"1"}\n', [("a\0b", "1")]),
        ("u2028.jsonl", '{"user_prompt":"a\u2028b\u0085c","ground_truth":"1"}\n', [("a\u2028b\u0085c", "1")]),
        ("numbers.jsonl", '{"user_prompt":7,"ground_truth":1.10}\n', [("7", "1.10")]),
        (
            "long.jsonl",
            '{"user_prompt":"q","label":123456789012345678901234567890}',
            [("q", "1234567890" * 3)],
        ),
        ("alias.jsonl", '{"user_prompt":"q","ground_truth":null,"label":"2"}', [("q", "2")]),
        ("UPPER.JSONL", ROW, [("q", "1")]),
        ("x.ndjson", ROW.rstrip(), [("q", "1")]),
        ("x.jsonl.gz", gzip.compress(ROW.encode(), mtime=0), [("q", "1")]),
        ("x.csv.gz", gzip.compress((HEADER + "a,1\n").encode(), mtime=0), [("a", "1")]),
        ("m.jsonl", '{"messages":[{"role":"user","content":"q"}],"ground_truth":"1"}', [("q", "1")]),
        ("dup_ids.jsonl", '{"id":1,"user_prompt":"q","label":"1"}\n' * 2, [("q", "1"), ("q", "1")]),
    ],
)
def test_awkward_files_are_read_exactly(
    tmp_path: Path, name: str, content: str | bytes, wanted: list[tuple[object, str | None]]
) -> None:
    assert asked(read(tmp_path, name, content)) == wanted


@pytest.mark.parametrize(
    ("name", "content", "place", "says"),
    [
        ("utf16.csv", (HEADER + "a,1\n").encode("utf-16"), "", "UTF-16"),
        ("latin1.csv", (HEADER + "café,4\n").encode("latin-1"), "line 2, row 0", "byte 0xE9 at byte 28"),
        (
            "bad.jsonl",
            b'{"user_prompt":"a\xff","ground_truth":"1"}\n',
            "line 1, row 0",
            "byte 0xFF at byte 17",
        ),
        ("bad2.jsonl", ROW.encode() * 2 + b"\xff\n", "line 3, row 2", "byte 0xFF at byte 78"),
        ("open.csv", HEADER + '"never closed,4\nnext,5\n', "line 2", "never closed"),
        ("short.csv", HEADER + "only_prompt\nok,2\n", "line 2, row 0", "1 cell"),
        ("long.csv", HEADER + "a,b,c,d\n", "line 2, row 0", "4 cells"),
        ("commas.csv", HEADER + "a,1\n,\n", "line 3, row 1", "is empty"),
        ("json.csv", 'user_prompt,metadata,label\nq,{"a":1,"b":2},x\n', "line 2, row 0", "double quotes"),
        (
            "twice.csv",
            "user_prompt,ground_truth,ground_truth\na,1,2\n",
            "line 1, ground_truth",
            "stands twice",
        ),
        ("space.csv", "user_prompt, ground_truth\na,1\n", "line 1,  ground_truth", "call it 'ground_truth'"),
        ("case.csv", "User_Prompt,ground_truth\na,1\n", "line 1, User_Prompt", "call it 'user_prompt'"),
        ("semi.csv", "user_prompt;ground_truth\na;1\n", "line 1", "semicolon"),
        ("tabs.csv", "user_prompt\tground_truth\na\t1\n", "line 1", "tab"),
        ("none.csv", "2 x 2,4\n3 x 3,9\n", "line 1", "names no known column"),
        ("header.csv", HEADER, "", "no rows"),
        ("empty.csv", "", "", "is empty"),
        ("empty.jsonl", "", "", "no rows"),
        ("blank.jsonl", "\n\n  \n", "", "no rows"),
        (
            "py.csv",
            "user_prompt,ground_truth,metadata\nq,1,\"{'a': 1}\"\n",
            "line 2, row 0, metadata",
            "not Python",
        ),
        ("arr.csv", 'user_prompt,ground_truth,metadata\nq,1,"[1]"\n', "line 2, row 0, metadata", "a list"),
        ("list.jsonl", '{"user_prompt":"q","ground_truth":["a"]}\n', "line 1, row 0, ground_truth", "a list"),
        (
            "huge.jsonl",
            '{"user_prompt":"q","metadata":{"f":1e400}}',
            "line 1, row 0, metadata.f",
            "too large",
        ),
        (
            "digits.jsonl",
            '{"user_prompt":"q","metadata":{"id":' + "9" * 5000 + "}}",
            "metadata.id",
            "5000 digits",
        ),
        ("big.jsonl", '{"user_prompt":"q","metadata":{"id":' + "9" * 30 + "}}", "metadata.id", "64 bits"),
        ("nan.jsonl", '{"user_prompt":"q","label":"1","metadata":{"x":NaN}}', "metadata.x", "NaN"),
        ("keys.jsonl", '{"user_prompt":"a","user_prompt":"b","label":"1"}', "line 1, row 0", "stands twice"),
        ("missing.jsonl", ROW + '{"user_prompt":"q2"}\n', "line 2, row 1, ground_truth", "there is no"),
        ("prompt.jsonl", '{"user_prompt":"","ground_truth":"1"}', "user_prompt", "is empty"),
        ("label.jsonl", '{"user_prompt":"q","ground_truth":""}', "ground_truth", "is empty"),
        ("comma.jsonl", '{"user_prompt":"q","ground_truth":"1",}', "line 1, row 0", "take away the comma"),
        ("array.jsonl", f"[{ROW.strip()}]", "line 1", "JSON list"),
        ("pretty.jsonl", json.dumps({"user_prompt": "q", "label": "1"}, indent=1), "line 1", "several lines"),
        ("half.jsonl", '{"user_prompt":"\\ud83d lone","ground_truth":"1"}', "user_prompt", "surrogate"),
        ("x.json", "[]", "", "jq"),
        ("x.jsonl.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\xff", "", "cut short"),
    ],
)
def test_awkward_files_are_refused_with_place_and_remedy(
    tmp_path: Path, name: str, content: str | bytes, place: str, says: str
) -> None:
    with pytest.raises(DatasetError) as caught:
        read(tmp_path, name, content)
    text = str(caught.value)
    assert text.startswith(str(tmp_path / name))
    assert place in text
    assert says in text
    assert len(text) < 1_000
    json.dumps(caught.value.details)


def test_a_twenty_megabyte_cell_is_read(tmp_path: Path) -> None:
    rows = read(tmp_path, "big.csv", HEADER + '"' + "x" * 20_000_000 + '",1\n')
    assert len(str(rows.rows[0].messages[0]["content"])) == 20_000_000


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        read(tmp_path, "d.jsonl", (ROW + '{"user_prompt":"q"}\n' + "nonsense\n") * 30)
    assert caught.value.total == 60
    assert len(caught.value.issues) == 60
    assert [kind.count for kind in caught.value.kinds.listed] == [30, 30]
    assert [issue.line for issue in caught.value.issues][:4] == [2, 3, 5, 6]


def test_the_selection_rules_over_the_limit_and_offsets_are_kept(tmp_path: Path) -> None:
    content = "".join(f'{{"user_prompt":"q{i}","label":"{i}"}}\n\n' for i in range(10))
    rows = read(tmp_path, "d.jsonl", content, select=parse_rows("7,2-3"), limit=1)
    assert [(row.row_index, row.source_row_index, row.label) for row in rows.rows] == [
        (0, 2, "2"), (1, 3, "3"), (2, 7, "7"),
    ]  # fmt: skip
    assert rows.total_rows == 10
    assert rows.selection.compact() == "2-3,7"
    first = read(tmp_path, "d.jsonl", content, limit=4)
    assert first.selection.compact() == "0-3"
    assert len(first.rows) == 4
    assert read(tmp_path, "d.jsonl", content, limit=400).selection.compact() == "0-9"
    assert read(tmp_path, "d.jsonl", content, limit=0).selection.compact() == "0-9"


def test_rows_that_are_not_selected_are_not_judged(tmp_path: Path) -> None:
    rows = read(tmp_path, "d.jsonl", ROW + "nonsense\n" + ROW, select=Selection.of([0, 2]))
    assert len(rows.rows) == 2
    assert rows.total_rows == 3


def test_selected_rows_beyond_the_file_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="1-5; valid rows are 0-0"):
        read(tmp_path, "d.jsonl", ROW, select=parse_rows("0-5"))


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound):
        read_rows(tmp_path / "nothing.jsonl")


def test_the_hash_is_the_files_for_every_format(tmp_path: Path) -> None:
    for name, content in (
        ("a.jsonl", ROW.encode()),
        ("a.csv", (HEADER + "a,1\n").encode()),
        ("a.jsonl.gz", gzip.compress(ROW.encode())),
    ):
        assert read(tmp_path, name, content).sha256 == hashlib.sha256(content).hexdigest()


def test_columns_no_rule_reads_are_told(tmp_path: Path) -> None:
    rows = read(tmp_path, "d.jsonl", '{"user_prompt":"q","label":"1","id":3,"topic":"x"}')
    assert rows.ignored_columns == ("id", "topic")


def test_a_row_is_exactly_what_the_file_says(tmp_path: Path) -> None:
    line = '{"system_prompt":"s","user_prompt":"u","label":"l","metadata":{"a":[1,2.50,null,"\\u00e9"]}}'
    assert list(read(tmp_path, "d.jsonl", line).rows) == [
        Row(
            0, 0, [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "l",
            {"a": [1, 2.5, None, "é"]},
        )
    ]  # fmt: skip


def test_memory_stays_flat_when_few_rows_of_a_large_file_are_selected(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for number in range(100_000):
            file.write(f'{{"user_prompt":"question {number} {"x" * 100}","ground_truth":"{number}"}}\n')
    tracemalloc.start()
    try:
        rows = read_rows(path, parse_rows("5,50000,99999"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [row.label for row in rows.rows] == ["5", "50000", "99999"]
    assert rows.total_rows == 100_000
    # The file has 14 MB; buffers take about two.
    assert peak < 4_000_000
