"""Dataset files as people have them, each held to what `osmosis dataset validate` makes of it: no crash, no guess."""

from __future__ import annotations

import decimal
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from osmosis_typed import osmosis

HEAD = "user_prompt,ground_truth\n"
ROW = '{"user_prompt":"q","ground_truth":"1"}'
META = "user_prompt,ground_truth,metadata\n"


def jsonl(**columns: Any) -> str:
    return json.dumps({"user_prompt": "q", "ground_truth": "1"} | columns) + "\n"


GOOD: dict[str, tuple[str | bytes, int]] = {
    "byte_order_mark.csv": (b"\xef\xbb\xbf" + HEAD.encode() + b"2 x 2,4\n", 1),
    "byte_order_mark.jsonl": (b"\xef\xbb\xbf" + ROW.encode() + b"\n", 1),
    "line_end_in_a_cell.csv": (HEAD + '"one\ntwo, three","4"\n', 1),
    "windows_line_ends.csv": (HEAD.replace("\n", "\r\n") + "a,b\r\n", 1),
    "carriage_return_in_a_cell.csv": (HEAD + '"a\rb",c\r\n', 1),
    "quotes_in_a_cell.csv": (HEAD + '"he said ""hi""",4\n', 1),
    "object_in_a_cell.csv": (META + 'q,1,"{""a"": {""b"": [1, {""c"": null}]}, ""s"": ""x,y""}"\n', 1),
    "metadata_left_empty.csv": (META + "q,1,\nr,2,{}\n", 2),
    "cell_of_20_million.csv": (HEAD + '"' + "x" * 20_000_000 + '",1\n', 1),
    "cell_of_200_thousand.csv": (HEAD + '"' + "x" * 200_000 + '",1\n', 1),
    "nul.csv": (HEAD + "a\0b,1\n", 1),
    "nul.jsonl": (jsonl(user_prompt="a\0b"), 1),
    "numbers.jsonl": (
        "".join(jsonl(ground_truth=value) for value in (4, 4.0, True, 0)) + jsonl(user_prompt=7),
        5,
    ),
    "ids_given_twice.jsonl": (jsonl(id="a") + jsonl(id="a"), 2),
    "blank_prompt.jsonl": (jsonl(user_prompt="   "), 1),
    "label_for_ground_truth.jsonl": (
        '{"user_prompt":"q","label":"1"}\n' + jsonl(ground_truth=None, label="2"),
        2,
    ),
    "no_last_newline.jsonl": (ROW, 1),
    "blank_lines.jsonl": ("\n" + ROW + "\n  \n" + ROW + "\n\n", 2),
    "odd_separators.jsonl": ('{"user_prompt":"a\u2028b\u0085c","ground_truth":"1"}\n', 1),
    "messages.jsonl": ('{"messages":[{"role":"user","content":"q"}],"ground_truth":"1"}\n', 1),
    "rows_of_two_kinds.jsonl": (ROW + '\n{"metadata":{"a":1}}\n', 2),
    "CAPITALS.JSONL": (ROW + "\n", 1),
    "other_ending.ndjson": (ROW + "\n", 1),
    "packed.jsonl.gz": (gzip.compress(ROW.encode() + b"\n"), 1),
}

BAD: dict[str, tuple[str | bytes, str]] = {
    "utf16.csv": ((HEAD + "2 x 2,4\n").encode("utf-16"), "the file is UTF-16; save it as UTF-8 (iconv"),
    "latin1.csv": ((HEAD + "caf\u00e9,4\n").encode("latin-1"), "line 2, row 0: byte 0xE9 at byte 28"),
    "bad_byte.jsonl": (ROW.encode().replace(b"q", b"\xff"), "line 1, row 0: byte 0xFF at byte 16"),
    "open_quote.csv": (
        HEAD + '"never closed,4\nnext,5\n',
        "line 2: the double quote at character 1 is never closed",
    ),
    "short_row.csv": (HEAD + "only\nok,2\n", "line 2, row 0, user_prompt: 1 cell where the header has 2"),
    "long_row.csv": (HEAD + "a,b,c,d\n", "line 2, row 0, ground_truth: 4 cells where the header has 2"),
    "empty_cells.csv": (HEAD + "\na,1\n\n,\nb,2\n", "line 5, row 1, user_prompt: 'user_prompt' is empty"),
    "column_twice.csv": (
        "user_prompt,ground_truth,ground_truth\na,1,2\n",
        "the column stands twice in the header",
    ),
    "blank_in_a_name.csv": ("user_prompt, ground_truth\na,1\n", "call it 'ground_truth', exactly"),
    "capitals_in_a_name.csv": ("User_Prompt,Ground_Truth\na,1\n", "call it 'user_prompt', exactly"),
    "semicolons.csv": ("user_prompt;ground_truth\na;1\n", "the header is divided by a semicolon"),
    "tabs.csv": ("user_prompt\tground_truth\na\t1\n", "the header is divided by a tab"),
    "no_header.csv": ("2 x 2,4\n3 x 3,9\n", "the first line names no known column: '2 x 2,4'"),
    "header_alone.csv": (HEAD, "the file has no rows"),
    "empty.csv": ("", "the file is empty; give it a header line"),
    "empty.jsonl": ("", "the file has no rows"),
    "blank.jsonl": ("\n\n  \n", "the file has no rows"),
    "python_in_a_cell.csv": (META + "q,1,\"{'a': None}\"\n", "write JSON, not Python"),
    "list_for_metadata.csv": (META + 'q,1,"[1,2]"\n', "metadata: a list where an object belongs"),
    "list_for_label.jsonl": (jsonl(ground_truth=["a"]), "ground_truth: a list where a string belongs: ['a']"),
    "number_too_large.jsonl": (ROW[:-1] + ',"metadata":{"f":1e400}}\n', "metadata.f: the number 1e400"),
    "number_of_30_digits.jsonl": (
        jsonl(metadata={"id": 10**29}),
        "metadata.id: an integer of more than 64 bits",
    ),
    "number_of_5000_digits.jsonl": (
        ROW[:-1] + ',"metadata":{"id":' + "9" * 5000 + "}}\n",
        "a number of 5000 digits",
    ),
    "not_a_number.jsonl": (jsonl(metadata={"x": float("nan")}), "metadata.x: NaN, which JSON does not know"),
    "key_twice.jsonl": (
        '{"user_prompt":"a",' + ROW[1:] + "\n",
        "the key 'user_prompt' stands twice in one object",
    ),
    "no_label.jsonl": (
        ROW + '\n{"user_prompt":"q2"}\n',
        "line 2, row 1, ground_truth: there is no 'ground_truth'",
    ),
    "empty_prompt.jsonl": (jsonl(user_prompt=""), "user_prompt: 'user_prompt' is empty"),
    "empty_label.jsonl": (jsonl(ground_truth=""), "ground_truth: 'ground_truth' is empty"),
    "last_comma.jsonl": (ROW[:-1] + ",}\n", "take away the comma before the closing bracket"),
    "list.jsonl": (f"[{ROW}]\n", "the file holds a JSON list, not one object a line; jq -c '.[]'"),
    "indented.jsonl": (
        '{\n "user_prompt":"q",\n "ground_truth":"1"\n}\n',
        "the file's objects go over several lines",
    ),
    "half_an_emoji.jsonl": (jsonl(user_prompt="\ud83d lone"), "half of a surrogate pair"),
    "list.json": (f"[{ROW}]", "the name says .json, which is not a dataset format"),
    "text.parquet": ("hello", "not a Parquet file that can be read"),
}


def validated(path: Path) -> tuple[int, dict[str, Any]]:
    said = osmosis("dataset", "validate", str(path), "--json")
    assert said.stderr == ""
    return said.code, said.document["data"]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", GOOD)
def test_a_file_that_can_be_read_exactly_is_in_order(tmp_path: Path, name: str) -> None:
    content, rows = GOOD[name]
    code, shown = validated(write(tmp_path, name, content))
    assert (code, shown["valid"], shown["total_rows"]) == (0, True, rows)


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_is_told_with_place_and_remedy(tmp_path: Path, name: str) -> None:
    content, words = BAD[name]
    path = write(tmp_path, name, content)
    code, shown = validated(path)
    assert (code, shown["valid"]) == (1, False)
    assert all(issue["found"] and issue["fix"] for issue in shown["issues"])
    said = osmosis("dataset", "validate", str(path), "--plain")
    assert words in said.stdout
    assert "Traceback" not in said.stdout + said.stderr


WIDE = {"i": 2**64 - 1}
STRUCT = {"a": 1, "l": [1, 2], "s": {"t": "x"}}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"user_prompt": ["q"], "ground_truth": ["1"]}, None),
        (
            {
                "user_prompt": ["q", "r"],
                "ground_truth": ["1", "2"],
                "metadata": [STRUCT, STRUCT | {"l": None}],
            },
            None,
        ),
        ({"user_prompt": ["q"], "ground_truth": [7]}, None),
        ({"user_prompt": ["q"], "ground_truth": ["1"], "metadata": [WIDE]}, None),
        (
            {"user_prompt": ["q", "r"], "ground_truth": [1, None]},
            "row 1, ground_truth: 'ground_truth' is null",
        ),
        ({"user_prompt": [], "ground_truth": []}, "the file has no rows"),
        (
            {
                "user_prompt": ["q"],
                "ground_truth": ["1"],
                "metadata": [{"ts": datetime(2020, 1, 1, tzinfo=UTC)}],
            },
            "metadata.ts: a datetime, which JSON does not know",
        ),
        (
            {"user_prompt": ["q"], "ground_truth": ["1"], "metadata": [{"d": decimal.Decimal("1.10")}]},
            "metadata.d: a Decimal, which JSON does not know",
        ),
        (
            {"user_prompt": ["q"], "ground_truth": ["1"], "metadata": [{"b": b"\x00\xff"}]},
            "metadata.b: a bytes, which JSON does not know",
        ),
        ({"user_prompt": ["q"], "ground_truth": [float("nan")]}, "which JSON cannot hold"),
    ],
)
def test_parquet_files_are_held_to_the_same(
    tmp_path: Path, columns: dict[str, list[Any]], words: str | None
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    wide = pa.struct([("i", pa.uint64())])
    made = {name: pa.array(cells, wide if cells == [WIDE] else None) for name, cells in columns.items()}
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table(made), path)
    code, shown = validated(path)
    assert (code, shown["valid"]) == ((0, True) if words is None else (1, False))
    assert words is None or words in osmosis("dataset", "validate", str(path), "--plain").stdout
