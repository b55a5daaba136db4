from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from osmosis_runner.bookkeeping import Bookkeeping, read_summary
from osmosis_runner.preparation import Prepared, prepare
from osmosis_runner.projection import Projector
from osmosis_runner.redaction import run_redactor
from osmosis_runner.rundir import Manifest, RunDir
from rollouts_under_test import Watcher, Workspace, json_lines, make_workspace, row
from runner_fakes import ended


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path, "http://127.0.0.1:9/v1", [row(str(number)) for number in range(4)])


def with_books(
    workspace: Workspace, check: Callable[[Bookkeeping], Awaitable[None]], **changes: Any
) -> Prepared:
    prepared = prepare(workspace.options(**changes))

    async def main() -> None:
        manifest = prepared.manifest or Manifest(
            "a" * 32, "r", "2026-01-01T00:00:00Z", prepared.checked.inputs
        )
        books = Bookkeeping(
            prepared,
            manifest,
            Watcher(),
            lambda run: Projector(run, "m", run_redactor({}, []), lambda text: None),
        )
        try:
            async with asyncio.timeout(9), asyncio.TaskGroup() as group:
                recording = group.create_task(books.recorder.run())
                await check(books)
                recording.cancel()
        finally:
            books.close()

    try:
        asyncio.run(main())
    finally:
        prepared.lock.release()
    return prepared


async def finish(books: Bookkeeping, how: str = "complete") -> None:
    await books.recorder.on_disk_thread(books.finish, how)


def test_a_new_run_shows_itself_as_running(workspace: Workspace) -> None:
    async def check(books: Bookkeeping) -> None:
        assert workspace.metrics()["eval_run"]["status"] == "running"
        progress = json.loads(books.run.progress.read_text())
        assert progress == {"total_runs": 4, "sampled_rows": 4, "total_dataset_rows": 4}
        assert len(json_lines(books.run.rows)) == 4

    with_books(workspace, check)


def test_a_finished_run_has_sorted_snapshots_and_all_figures(workspace: Workspace) -> None:
    async def check(books: Bookkeeping) -> None:
        for place in (3, 1, 0, 2):
            await books.recorder.keep(ended(place, reward=1.0, tokens=13))
        await finish(books)

    with_books(workspace, check)
    assert [line["row_index"] for line in workspace.index()] == [0, 1, 2, 3]
    metrics = workspace.metrics()
    assert metrics["eval_run"]["status"] == "finished"
    assert "completed_at" in metrics["eval_run"]
    assert metrics["summary"]["tokens_used"] == 52
    assert read_summary(RunDir(workspace.run_dir())) == metrics["summary"]


def test_a_resumed_run_counts_what_was_there_and_keeps_its_invocations(workspace: Workspace) -> None:
    async def first(books: Bookkeeping) -> None:
        await books.recorder.keep(ended(0, reward=1.0, tokens=13))
        await books.recorder.keep(ended(1, "cancelled", tokens=7))
        await finish(books, "interrupted")

    async def second(books: Bookkeeping) -> None:
        assert books.recorder.progress().done == 1
        assert books.recorder.tallies.resumed == 1
        (books.run.calls).write_text('{"rollout_id":"killed","usage":{"total_tokens":100}}\n')
        await books.recorder.keep(ended(1, reward=0.0, tokens=13))
        await finish(books, "halted")

    async def third(books: Bookkeeping) -> None:
        await finish(books, "halted")

    with_books(workspace, first)
    started = workspace.metrics()["eval_run"]["started_at"]
    with_books(workspace, second)
    with_books(workspace, third)
    metrics = workspace.metrics()
    assert metrics["eval_run"]["status"] == "incomplete"
    assert metrics["eval_run"]["started_at"] == started
    assert [i["ended"] for i in metrics["eval_run"]["invocations"]] == ["interrupted", "halted", "halted"]
    assert (metrics["summary"]["tokens_used"], metrics["summary"]["tokens_spent"]) == (26, 133)
    assert [line.get("resumed") for line in workspace.index()] == [True, True]


def test_undoing_leaves_the_output_as_it_was(workspace: Workspace) -> None:
    async def check(books: Bookkeeping) -> None:
        assert workspace.run_dir().exists()
        books.undo()
        assert not workspace.run_dir().exists()

    with_books(workspace, check)


def test_undoing_a_fresh_start_brings_the_old_run_back(workspace: Workspace) -> None:
    async def first(books: Bookkeeping) -> None:
        await books.recorder.keep(ended(0))
        await finish(books)

    async def fresh(books: Bookkeeping) -> None:
        assert workspace.records() == []
        books.undo()

    with_books(workspace, first)
    with_books(workspace, fresh, fresh=True)
    assert len(workspace.records()) == 1
    assert [path.name for path in workspace.run_dir().parent.iterdir() if path.name != ".locks"] == ["r"]


def test_undoing_a_resume_leaves_what_was_there(workspace: Workspace) -> None:
    async def first(books: Bookkeeping) -> None:
        await books.recorder.keep(ended(0))

    async def again(books: Bookkeeping) -> None:
        books.undo()

    with_books(workspace, first)
    with_books(workspace, again)
    assert len(workspace.records()) == 1


def test_figures_that_are_missing_or_damaged_are_none(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert read_summary(run) == {}
    run.metrics.write_text("{")
    assert read_summary(run) == {}
