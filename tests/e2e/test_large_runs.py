"""Runs of many rows: what they hold is read once, a piece at a time, and what need not be read is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

from mock_provider import MockProvider
from osmosis_cli.stored import current_summary, read_run
from osmosis_runner.journal import Journal, JournalRecord
from osmosis_runner.journal_index import JournalIndex
from osmosis_runner.preparation import prepare
from osmosis_runner.recorded import read_recorded
from osmosis_runner.rundir import Manifest, RunDir, create_run
from osmosis_runner.standing import Standing
from rollouts_under_test import Watcher, Workspace, make_workspace, row

MB = 1024 * 1024


def record(number: int, **fields: Any) -> JournalRecord:
    usual: dict[str, Any] = {
        "row_index": number,
        "run_index": 0,
        "rollout_id": f"{number:032x}",
        "status": "success",
        "duration_ms": 100,
        "reward": float(number % 2),
        "tokens": 13,
    }
    return JournalRecord(**{**usual, **fields})


def begun(workspace: Workspace, records: list[JournalRecord]) -> RunDir:
    """The directory of a run that has recorded this much."""
    ready = prepare(workspace.options())
    ready.lock.release()
    manifest = Manifest("1" * 32, "r", "2026-01-01T00:00:00Z", ready.checked.inputs)
    progress = {"total_runs": ready.counts.total, "sampled_rows": ready.counts.total}
    run = create_run(ready.checked.output, manifest, ready.checked.rows.rows, progress)
    with Journal.open(run.events) as journal:
        journal.append(records)
    return run


def test_a_long_journal_is_read_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    count = 20_000
    error = {"status": "failed", "error_type": "agent_error", "error_message": "x" * 400}
    with Journal.open(path) as journal:
        journal.append([record(number, **(error if number % 2 else {})) for number in range(count)])
    assert path.stat().st_size > 5 * MB
    tracemalloc.start()
    try:
        Journal.open(path).close()
        recorded = read_recorded(path, count, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert recorded.counts()[Standing.FAILED] == count // 2
    assert peak < 2 * MB


def test_a_resume_of_thousands_runs_what_is_left_and_nothing_else(tmp_path: Path) -> None:
    count, left = 5_000, 3
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row()] * count, batch_size=left)
        begun(workspace, [record(number) for number in range(count - left)])
        watcher = Watcher()
        outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.dispatched, outcome.resumed) == ("complete", left, count - left)
    assert watcher.first is not None
    assert (watcher.first.done, watcher.first.total) == (count - left, count)
    index = workspace.index()
    assert [line["row_index"] for line in index] == list(range(count))
    assert [line.get("resumed", False) for line in index] == [True] * (count - left) + [False] * left
    assert workspace.metrics()["summary"]["tokens_used"] == 13 * count


def test_the_figures_of_a_run_that_was_killed_are_counted_in_one_pass(tmp_path: Path) -> None:
    count = 20_000
    workspace = make_workspace(tmp_path, "http://127.0.0.1:9/v1", [row()] * count)
    run = begun(workspace, [record(number) for number in range(count)])
    tracemalloc.start()
    try:
        with JournalIndex(run.events) as journal:
            _, peak = tracemalloc.get_traced_memory()
            summary = current_summary(read_run(run.path), journal)
            assert journal.counts()["success"] == count
    finally:
        tracemalloc.stop()
    assert peak < 200 * count
    assert (summary["completed_samples"], summary["passed"], summary["tokens_used"]) == (
        count,
        count // 2,
        13 * count,
    )


def test_a_run_is_shown_without_a_look_into_its_trajectories(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, "http://127.0.0.1:9/v1", [row()] * 20)
    run = begun(workspace, [record(number, trajectory_filename="trajectory.json") for number in range(20)])
    for number in range(20):
        # Whoever opened one of these would wait for ever.
        os.mkfifo(run.trajectory(number, 0))
    for command in (("show", "r"), ("list",)):
        done = subprocess.run(
            [sys.executable, "-m", "osmosis_cli", "--json", "eval", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)
