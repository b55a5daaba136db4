"""`osmosis eval list`, `show` and `repair` over stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.lock import Owner, RunLock
from osmosis_typed import osmosis
from stored_runs import ended, record, stored

FAILED = record(1, status="failed", reward=None, error_type="timeout", error_message="450 s")


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("rollouts", "configs/eval"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".env").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".osmosis" / "evals"


def test_runs_are_listed_the_newest_first(runs: Path) -> None:
    old = stored(runs, "old", record(0), created="2026-01-01T00:00:00Z")
    ended(old, "finished", record(0), FAILED)
    stored(runs, "new", created="2026-02-01T00:00:00Z")
    (runs / "broken").mkdir()
    (runs / "broken" / "manifest.json").write_text("{")
    said = osmosis("eval", "list", "--json")
    assert said.code == 0
    assert [(item["name"], item["status"]) for item in said.document["items"]] == [
        ("new", "killed"),
        ("old", "finished"),
        ("broken", "damaged"),
    ]
    assert said.document["items"][1]["summary"]["pass_rate"] == 0.5
    plain = osmosis("eval", "list", "--plain").stdout.splitlines()
    assert plain[1].split("\t") == [
        "old",
        "finished",
        "quick",
        "local/tiny",
        "2/4",
        "50.0%",
        "2026-01-01T00:00:00Z",
    ]
    assert "old" in osmosis("eval", "list").stdout


def test_no_runs_is_said_and_is_no_error(runs: Path) -> None:
    said = osmosis("eval", "list")
    assert (said.code, said.stdout) == (0, f"There are no runs in {runs}.\n")


def test_runs_of_another_folder_are_listed_from_anywhere(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(runs / "other", "there")
    monkeypatch.chdir("/")
    assert osmosis("eval", "list", "-o", str(runs / "other"), "--plain").stdout.startswith("there\t")


def test_a_run_is_shown_with_its_figures_and_items(runs: Path) -> None:
    run = stored(runs, "quick", record(0), FAILED)
    ended(run, "incomplete", record(0), FAILED)
    said = osmosis("eval", "show", "quick")
    assert said.code == 0
    for part in (
        "Run quick", "incomplete", "local/tiny", "2/4 complete · 1 ok · 1 failed", "50.0% (1/2 scored, threshold 1)",
        "row 1 run 0: failed, 100 tokens, max context 60, 1.5s: timeout, 450 s | Question 1? Think.", "1m 01s",
    ):  # fmt: skip
        assert part in said.stdout
    shown = osmosis("eval", "show", str(run.path), "--json").document["data"]
    assert (shown["recorded"], shown["pending"], shown["status"]) == (2, 2, "incomplete")
    assert [item["status"] for item in shown["items"]] == ["success", "failed"]
    assert shown["inputs"]["model_path"] == "local/tiny"


def test_items_may_be_chosen_by_status_and_cut(runs: Path) -> None:
    stored(
        runs, "quick", *(record(row) for row in range(30)), record(30, status="failed", reward=None), rows=31
    )
    shown = osmosis("eval", "show", "quick", "--status", "failed", "--json").document["data"]
    assert [item["row_index"] for item in shown["items"]] == [30]
    cut = osmosis("eval", "show", "quick", "--plain")
    assert "  and 11 more (--limit 0 lists all)" in cut.stdout.splitlines()
    assert len(osmosis("eval", "show", "quick", "--limit", "0", "--json").document["data"]["items"]) == 31


def test_a_run_in_progress_says_who_runs_it(runs: Path) -> None:
    stored(runs, "quick", record(0))
    with RunLock.acquire(runs, "quick", Owner(4242, "here", "2026-01-02T03:04:05Z")):
        said = osmosis("eval", "show", "quick", "--plain")
    assert "Status: running by process 4242 on here since 2026-01-02T03:04:05Z" in said.stdout.splitlines()


def test_a_run_that_does_not_exist_is_not_found(runs: Path) -> None:
    stored(runs, "quick")
    said = osmosis("eval", "show", "quik", "--json")
    assert (said.code, said.error["error"]["code"]) == (1, "NOT_FOUND")
    assert said.error["error"]["details"]["fix"] == "Did you mean 'quick'?"


def test_a_damaged_journal_is_told_and_can_be_repaired(runs: Path) -> None:
    run = stored(runs, "quick", record(0))
    with run.events.open("ab") as file:
        file.write(b"garbage\n")
    with run.events.open("ab") as file:
        file.write(
            b'{"row_index":2,"run_index":0,"rollout_id":"'
            + b"b" * 32
            + b'","status":"success","duration_ms":1}\n'
        )
    told = osmosis("eval", "show", "quick", "--json")
    assert told.code == 1
    assert "osmosis eval repair quick" in told.error["error"]["message"]
    said = osmosis("eval", "repair", "quick", "--json")
    assert said.code == 0
    assert said.document["status"] == "repaired"
    assert said.document["resource"]["dropped_lines"] == [2]
    assert Path(said.document["resource"]["backup"]).read_bytes().count(b"\n") == 3
    assert osmosis("eval", "show", "quick").code == 0
    again = osmosis("eval", "repair", "quick", "--plain")
    assert again.stdout == "The journal of 'quick' is whole; nothing was changed.\n"


def test_a_run_in_progress_is_not_repaired(runs: Path) -> None:
    stored(runs, "quick")
    with RunLock.acquire(runs, "quick", Owner(4242, "here", "2026-01-02T03:04:05Z")):
        said = osmosis("eval", "repair", "quick", "--json")
    assert (said.code, said.error["error"]["code"]) == (1, "CONFLICT")
    assert "4242" in said.error["error"]["message"]
