"""`osmosis eval show` over stored runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.lock import Owner, RunLock
from osmosis_runner.rundir import RunDir
from osmosis_runner.trajectory import Attempt, build_trajectory
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
        "row 1 run 0: failed, 100 tokens, max context 60, 1.5s: timeout: 450 s | Question 1? Think.", "1m 01s",
    ):  # fmt: skip
        assert part in said.stdout
    shown = osmosis("eval", "show", str(run.path), "--json").document["data"]
    assert (shown["recorded"], shown["pending"], shown["status"]) == (2, 2, "incomplete")
    assert [item["status"] for item in shown["items"]] == ["success", "failed"]
    assert shown["inputs"]["model_path"] == "local/tiny"


def test_after_a_torn_last_line_items_and_figures_agree_and_the_remedy_is_named(runs: Path) -> None:
    every = [record(row) for row in range(4)]
    run = stored(runs, "quick", *every)
    ended(run, "finished", *every)
    run.events.write_bytes(run.events.read_bytes()[:-30])
    said = osmosis("eval", "show", "quick", "--plain").stdout
    assert "Status: damaged" in said
    assert "Work Items: 3/4 complete · 3 ok · 0 failed" in said
    assert "100.0% (3/3 scored, threshold 1)" in said
    assert "Repair the journal: osmosis eval repair quick" in said.splitlines()
    shown = osmosis("eval", "show", "quick", "--json").document["data"]
    assert (shown["recorded"], shown["pending"], shown["metrics"]["total_samples"]) == (3, 1, 3)
    assert "is torn" in shown["damage"]
    repaired = osmosis("eval", "repair", "quick", "--json").document["resource"]
    assert (repaired["kept"], repaired["dropped_lines"]) == (3, [4])
    healed = osmosis("eval", "show", "quick", "--json").document["data"]
    assert (healed["damage"], healed["recorded"], healed["metrics"]["total_samples"]) == (None, 3, 3)
    assert healed["status"] == "incomplete"
    assert "quick\tincomplete\tquick\tlocal/tiny\t3/4\t" in osmosis("eval", "list", "--plain").stdout


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


def kept(run: RunDir, one: JournalRecord, *messages: dict[str, Any]) -> None:
    """Keep a trajectory of one item."""
    built = build_trajectory(messages, Attempt(one.rollout_id, one.row_index, one.run_index), "1")
    run.trajectory(*one.item).write_text(json.dumps(built))


def test_an_item_is_shown_in_full_from_its_own_file_alone(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = record(1, reward=0.0)
    run = stored(runs, "quick", record(0), wrong)
    kept(
        run, wrong, {"role": "user", "content": "Question 1?"}, {"role": "assistant", "content": "It is 41."}
    )
    kept(run, record(0), {"role": "user", "content": "Question 0?"})
    read: list[str] = []
    whole = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        read.append(path.name)
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    said = osmosis("eval", "show", "quick", "--row", "1")
    assert said.code == 0
    assert [name for name in read if name.startswith("row_")] == ["row_1_run_0.json"]
    for part in (
        "Run quick, row 1, run 0",
        "1. user\n  Question 1?\n2. agent\n  It is 41.\n",
        "row_1_run_0.json",
    ):
        assert part in said.stdout
    shown = osmosis("eval", "show", "quick", "--row", "1", "--run", "0", "--json").document["data"]
    assert shown["item"]["reward"] == 0
    assert [step["message"] for step in shown["trajectory"]["steps"]] == ["Question 1?", "It is 41."]
    assert shown["files"]["Trajectory File"] == str(run.trajectory(1, 0))


def test_an_item_without_a_trajectory_tells_its_error_and_its_prompt(runs: Path) -> None:
    stored(runs, "quick", FAILED)
    said = osmosis("eval", "show", "quick", "--row", "1", "--plain").stdout.splitlines()
    assert {"Error: timeout: 450 s", "Prompt: Question 1? Think.", "Trajectory: none was kept"} <= set(said)
    assert osmosis("eval", "show", "quick", "--row", "1", "--json").document["data"]["trajectory"] is None


@pytest.mark.parametrize("place", [("--row", "9"), ("--row", "1", "--run", "3")])
def test_an_item_that_is_not_recorded_is_not_found(runs: Path, place: tuple[str, ...]) -> None:
    stored(runs, "quick", record(0), record(1))
    said = osmosis("eval", "show", "quick", *place, "--json")
    assert (said.code, said.error["error"]["code"]) == (1, "NOT_FOUND")
    assert "2 items of rows 0 to 1 are recorded." in said.error["error"]["details"]["fix"]


def test_items_may_be_chosen_by_failure_and_by_reward(runs: Path) -> None:
    stored(runs, "quick", record(0), FAILED, record(2, reward=0.4), record(3, reward=0.5))
    for flags, rows in (
        (("--failed",), [1]),
        (("--reward-below", "0.5"), [2]),
        (("--reward-below", "1", "--status", "success"), [2, 3]),
    ):
        items = osmosis("eval", "show", "quick", *flags, "--json").document["data"]["items"]
        assert [item["row_index"] for item in items] == rows
    assert (
        "Items (reward below 0.5):"
        in osmosis("eval", "show", "quick", "--reward-below", "0.5", "--plain").stdout
    )


def test_the_worst_item_listed_is_the_one_to_look_at_next(runs: Path) -> None:
    stored(runs, "quick", record(0), record(2, reward=0.4), FAILED)
    steps = osmosis("eval", "show", "quick", "--plain").stdout.splitlines()[-1]
    assert steps == "View an item: osmosis eval show quick --row 1"
    below = osmosis(
        "eval", "show", "quick", "--reward-below", "1", "-o", str(runs), "--plain"
    ).stdout.splitlines()[-1]
    assert below == f"View an item: osmosis eval show quick --row 2 --output {runs}"


@pytest.mark.parametrize(
    "flags",
    [("--run", "0"), ("--row", "0", "--failed"), ("--failed", "--status", "skipped"), ("--row", "-1")],
)
def test_flags_that_contradict_each_other_are_usage_errors(runs: Path, flags: tuple[str, ...]) -> None:
    stored(runs, "quick", record(0))
    assert osmosis("eval", "show", "quick", *flags).code == 2
