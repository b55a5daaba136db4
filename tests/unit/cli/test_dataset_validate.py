"""`osmosis dataset validate` over files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from osmosis_typed import osmosis

ROW = {"user_prompt": "2 x 2", "ground_truth": "4"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".env").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, *rows: dict[str, Any]) -> bytes:
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    Path(name).write_bytes(content)
    return content


def test_a_file_in_order_is_described_and_exits_0(folder: Path) -> None:
    content = written("d.jsonl", *[ROW | {"id": 1, "metadata": {"k": 1}}] * 4)
    said = osmosis("dataset", "validate", "d.jsonl", "--plain")
    assert (said.code, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "File: d.jsonl", "Result: in order", "Format: jsonl", "Rows: 4", "With Prompt: 4", "With Label: 4",
        "With Metadata: 4", "Ignored Columns: id", f"Size: {len(content)} bytes",
        f"SHA-256: {hashlib.sha256(content).hexdigest()}",
    ]  # fmt: skip
    shown = osmosis("dataset", "validate", "d.jsonl", "--json").document["data"]
    assert (shown["valid"], shown["total_rows"], shown["file"]) == (True, 4, str(folder / "d.jsonl"))
    assert "in order" in osmosis("dataset", "validate", "d.jsonl").stdout


def test_problems_are_told_by_kind_and_one_by_one_to_programs() -> None:
    written("d.jsonl", *[{"user_prompt": "q", "ground_truth": ["a"]}] * 30, {"user_prompt": "", "label": "1"})
    said = osmosis("dataset", "validate", "d.jsonl", "--plain")
    assert said.code == 1
    lines = said.stdout.splitlines()
    assert lines[:3] == ["File: d.jsonl", "Result: 31 problems", "Problems:"]
    assert lines[3].startswith("  30 rows (0, 1, 2, 3, 4, ... from line 1), ground_truth: a list where")
    assert lines[4].startswith("  line 31, row 30, user_prompt: 'user_prompt' is empty")
    assert len(lines) == 5
    asked = osmosis("dataset", "validate", "d.jsonl", "--json")
    shown = asked.document["data"]
    assert (asked.code, shown["valid"], shown["total"], len(shown["issues"])) == (1, False, 31, 31)
    assert [kind["count"] for kind in shown["kinds"]] == [30, 1]


def test_a_run_refuses_a_file_in_the_same_words() -> None:
    written("d.jsonl", *[{"user_prompt": "q"}] * 3)
    told = osmosis("dataset", "validate", "d.jsonl", "--plain").stdout.splitlines()[3].strip()
    for name in ("rollouts/t", "configs/eval"):
        Path(name).mkdir(parents=True)
    Path("rollouts/t/main.py").touch()
    Path("configs/eval/t.toml").write_text(
        '[experiment]\nrollout = "t"\nentrypoint = "main.py"\nmodel_path = "local/m"\ndataset = "d"\n'
        "[secrets]\nrequired = []\n"
    )
    refused = osmosis("eval", "run", "configs/eval/t.toml", "--dataset-file", "d.jsonl")
    assert refused.code == 1
    assert told in refused.stderr


@pytest.mark.parametrize(
    ("name", "rows", "note"),
    [
        ("d.jsonl", [ROW] * 3, "it has 3 rows; 4 are the fewest"),
        ("d.ndjson", [ROW] * 4, "its name must end in .jsonl, .csv, .parquet"),
        ("d.jsonl", [ROW] * 4 + [ROW | {"id": 1}], "its rows do not all have the same columns"),
    ],
)
def test_what_the_platform_would_not_take_is_told_and_no_failure(
    name: str, rows: list[dict[str, Any]], note: str
) -> None:
    written(name, *rows)
    said = osmosis("dataset", "validate", name, "--plain")
    assert said.code == 0
    assert said.stdout.splitlines()[-2:] == ["An upload to the platform would be refused:", f"  {note}"]
    assert osmosis("dataset", "validate", name, "--json").document["data"]["upload_notes"] == [note]


def test_columns_in_another_order_are_the_same_columns() -> None:
    written("d.jsonl", *[ROW] * 4, dict(reversed(ROW.items())))
    assert "refused" not in osmosis("dataset", "validate", "d.jsonl").stdout


def test_a_file_that_is_not_there_is_not_found() -> None:
    said = osmosis("dataset", "validate", "d.jsonl", "--json")
    assert (said.code, said.stdout, said.error["error"]["code"]) == (1, "", "NOT_FOUND")
    assert osmosis("dataset", "validate").code == 2
