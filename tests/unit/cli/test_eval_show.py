"""`osmosis eval show` over stored runs."""

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
