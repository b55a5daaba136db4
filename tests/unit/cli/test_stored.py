"""Run directories, read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from osmosis_cli.stored import (
    current_summary,
    folders_of,
    item_line,
    prompts_of,
    read_run,
    trajectory_of,
)
from osmosis_runner.errors import RunDirError
from osmosis_runner.journal_index import JournalIndex
from osmosis_runner.lock import Owner, RunLock
from osmosis_runner.rundir import RunDir
from stored_runs import ended, record, stored

FAILED = record(
    1, status="failed", reward=None, error_type="timeout", error_phase="agent", error_message="450 s"
)


def summarised(run: RunDir) -> Mapping[str, object]:
    with JournalIndex(run.events) as journal:
        return current_summary(read_run(run.path), journal)


def test_a_run_that_ended_says_how(tmp_path: Path) -> None:
    run = stored(tmp_path, "one", record(0))
    ended(run, "finished", record(0))
    assert read_run(run.path).status == "finished"
    ended(run, "incomplete", record(0))
    assert read_run(run.path).status == "incomplete"


def test_a_run_that_says_it_is_running_is_killed_unless_somebody_holds_it(tmp_path: Path) -> None:
    run = stored(tmp_path, "one", record(0))
    ended(run, "running", record(0))
    assert read_run(run.path).status == "killed"
    with RunLock.acquire(tmp_path, "one", Owner(os.getpid(), "here", "2026-01-02T03:04:05Z")):
        held = read_run(run.path)
    assert held.status == "running"
    assert held.owner is not None
    assert held.owner.pid == os.getpid()


def test_a_damaged_manifest_is_told_and_not_raised(tmp_path: Path) -> None:
    run = stored(tmp_path, "one")
    run.manifest.write_text("{")
    read = read_run(run.path)
    assert read.status == "damaged"
    assert "manifest.json" in read.damage
    assert read.text("model_path") == ""


def test_snapshots_that_cannot_be_read_count_as_absent(tmp_path: Path) -> None:
    run = stored(tmp_path, "one")
    run.metrics.write_text("[1")
    run.progress.write_bytes(b"\xff")
    read = read_run(run.path)
    assert (dict(read.metrics), read.total_items, read.status) == ({}, 0, "killed")


def test_figures_of_a_killed_run_are_counted_anew_from_the_journal(tmp_path: Path) -> None:
    run = stored(tmp_path, "one", record(0), FAILED, record(2, status="cancelled", reward=None))
    ended(run, "running", record(0))
    summary = summarised(run)
    assert (summary["completed_samples"], summary["passed"], summary["tokens_spent"]) == (2, 1, 300)


def test_figures_of_a_run_that_ended_are_those_it_left(tmp_path: Path) -> None:
    run = stored(tmp_path, "one", record(0), FAILED)
    ended(run, "finished", record(0, tokens=7), FAILED)
    assert summarised(run)["tokens_used"] == 107


def test_figures_of_another_number_of_items_are_counted_anew(tmp_path: Path) -> None:
    run = stored(tmp_path, "one", record(0), record(1))
    for left in ([record(0)], [record(0), record(1), record(2)], [record(0), FAILED]):
        ended(run, "finished", *left)
        summary = summarised(run)
        assert (summary["completed_samples"], summary["failed"], summary["tokens_used"]) == (2, 0, 200)


def test_items_beyond_any_run_are_told_and_not_counted(tmp_path: Path) -> None:
    run = stored(tmp_path, "one", record(0), record(10**12))
    with pytest.raises(RunDirError, match=r"row 1000000000000 run 0, which is no item"):
        summarised(run)


def test_a_torn_last_line_is_damage_with_a_remedy_unless_the_run_goes_on(tmp_path: Path) -> None:
    run = stored(tmp_path / ".osmosis" / "evals", "one", record(0))
    ended(run, "finished", record(0), record(1))
    with run.events.open("ab") as file:
        file.write(b'{"row_index":1,"ru')
    read = read_run(run.path)
    assert (read.status, read.torn) == ("damaged", True)
    assert "`osmosis eval repair one` mends the journal" in read.damage
    assert summarised(run)["total_samples"] == 1
    with RunLock.acquire(run.path.parent, "one", Owner(1, "here", "now")):
        assert (read_run(run.path).status, read_run(run.path).damage) == ("running", "")


def test_an_item_is_one_line() -> None:
    assert (
        item_line(record(0), "Why?")
        == "row 0 run 0: success, reward 1, 100 tokens, max context 60, 1.5s | Why?"
    )
    bare = record(2, reward=None, tokens=None, max_context_tokens=None, status="skipped")
    assert item_line(bare) == "row 2 run 0: skipped, 1.5s"
    assert item_line(record(2, reward=None)).startswith("row 2 run 0: success, no reward, 100 tokens")
    assert item_line(FAILED).endswith("1.5s: agent timed out: 450 s")


def test_prompts_are_shown_from_their_beginning(tmp_path: Path) -> None:
    run = stored(tmp_path, "one")
    with run.rows.open("a") as file:
        file.write('not json\n{"row_index": 9, "prompt": "' + "x" * 100 + '"}\n')
    prompts = prompts_of(read_run(run.path), {1, 9})
    assert prompts == {1: "Question 1? Think.", 9: "x" * 59 + "…"}
    run.rows.unlink()
    assert prompts_of(read_run(run.path), {1}) == {}


def test_a_trajectory_of_another_rollout_is_not_taken_for_the_item(tmp_path: Path) -> None:
    one = record(1)
    run = stored(tmp_path, "one", one)
    read = read_run(run.path)
    assert trajectory_of(read, one) == (None, {})
    kept = run.trajectory(1, 0)
    kept.write_text(json.dumps({"session_id": "another"}))
    assert trajectory_of(read, one) == (None, {})
    trial = run.trial(one.rollout_id)
    trial.mkdir()
    (trial / "trajectory.json").write_text(json.dumps({"session_id": one.rollout_id}))
    assert trajectory_of(read, one) == (trial / "trajectory.json", {"session_id": one.rollout_id})
    kept.write_text("[" * 100_000)
    assert trajectory_of(read, one)[0] == trial / "trajectory.json"


def test_folders_are_named_when_they_hold_files(tmp_path: Path) -> None:
    one = record(1)
    run = stored(tmp_path, "one", one)
    run.artifacts(1, 0).mkdir()
    run.trial(one.rollout_id).mkdir()
    assert folders_of(read_run(run.path), one) == ()
    (run.artifacts(1, 0) / "plot.png").touch()
    assert folders_of(read_run(run.path), one) == (("Artifacts", run.artifacts(1, 0)),)
