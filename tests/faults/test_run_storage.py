"""A disk that is full, a folder that goes away: the run stops with the path in its words, and nothing told is lost."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mock_provider import MockProvider
from osmosis_runner.errors import StorageError
from osmosis_runner.orphans import marked
from rollouts_under_test import Watcher, Workspace, json_lines, make_workspace, row

ROWS = 60


@pytest.fixture
def provider() -> Iterator[MockProvider]:
    with MockProvider() as running:
        yield running


@pytest.fixture
def workspace(tmp_path: Path, provider: MockProvider) -> Workspace:
    return make_workspace(tmp_path, provider.url, [row(prompt="SLEEP:0.05")] * ROWS, batch_size=4)


def eventually(holds: Callable[[], Any], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


def mark(workspace: Workspace) -> str:
    return json.loads((workspace.run_dir() / "manifest.json").read_text())["local_run_id"]


def bridge_of(workspace: Workspace) -> int:
    pids = marked(mark(workspace))
    return next(pid for pid in pids if b"osmosis_bridge" in Path(f"/proc/{pid}/cmdline").read_bytes())


def let_grow(pid: int, path: Path, more: int) -> None:
    """From now on no file of this process may grow beyond what `path` has and so many bytes more."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (path.stat().st_size + more, hard))


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, complaint = process.communicate(timeout=30)
    assert process.returncode == 0, complaint
    assert "Traceback" not in complaint
    return json.loads(said)


def finish(workspace: Workspace, before: list[dict[str, Any]]) -> None:
    """A resume keeps what was recorded and runs the rest, once each."""
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", ROWS, 0)
    records = workspace.records()
    assert records[: len(before)] == before
    finals = Counter(record["row_index"] for record in records if record["status"] != "cancelled")
    assert finals == Counter(range(ROWS))
    assert marked(mark(workspace)) == []


def test_a_journal_that_cannot_grow_stops_the_run_and_keeps_what_it_holds(workspace: Workspace) -> None:
    process = workspace.start()
    events = workspace.run_dir() / "events.jsonl"
    eventually(lambda: len(workspace.records()) >= 8)
    let_grow(process.pid, events, 1_000)
    outcome = ended(process)
    assert outcome["ended"] == "halted"
    assert f"cannot write {events}: File too large; results already recorded are safe" in outcome["reason"]
    assert events.read_bytes().endswith(b"\n")
    assert outcome["told"] == len([r for r in workspace.records() if r["status"] != "cancelled"])
    finish(workspace, workspace.records())


def test_a_journal_that_cannot_grow_for_a_moment_is_waited_for(workspace: Workspace) -> None:
    process = workspace.start()
    events = workspace.run_dir() / "events.jsonl"
    eventually(lambda: len(workspace.records()) >= 8)
    let_grow(process.pid, events, 100)
    eventually(lambda: "nothing new starts for up to" in (workspace.run_dir() / "logs.txt").read_text())
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert ended(process)["ended"] == "complete"
    finals = Counter(record["row_index"] for record in workspace.records())
    assert finals == Counter(range(ROWS)), "each once"


def test_a_ledger_that_cannot_grow_stops_the_run_and_fails_no_item(workspace: Workspace) -> None:
    process = workspace.start()
    calls = workspace.run_dir() / "calls.jsonl"
    eventually(lambda: len(workspace.records()) >= 8)
    let_grow(bridge_of(workspace), calls, 1_500)
    outcome = ended(process)
    assert outcome["ended"] == "halted"
    assert f"the ledger '{calls}' cannot be written: File too large; " in outcome["reason"]
    assert "results already recorded are safe" in outcome["reason"]
    assert {record["status"] for record in workspace.records()} <= {"success", "cancelled"}
    assert all(call["status"] == "ok" for call in json_lines(calls))
    finish(workspace, workspace.records())


def test_a_ledger_that_cannot_grow_for_a_moment_fails_no_item(workspace: Workspace) -> None:
    process = workspace.start()
    calls = workspace.run_dir() / "calls.jsonl"
    eventually(lambda: len(workspace.records()) >= 8)
    bridge = bridge_of(workspace)
    let_grow(bridge, calls, 100)
    time.sleep(0.2)
    _, hard = resource.prlimit(bridge, resource.RLIMIT_FSIZE)
    resource.prlimit(bridge, resource.RLIMIT_FSIZE, (hard, hard))
    assert ended(process)["ended"] == "complete"
    assert {record["status"] for record in workspace.records()} <= {"success", "cancelled"}
    told = [call for call in json_lines(calls) if call.get("error_code") == "ledger_unavailable"]
    assert {call["status"] for call in told if "usage" in call} == {"upstream_error"}, (
        "paid, and recorded later"
    )
    assert workspace.run().ended == "already_complete"
    finals = Counter(record["row_index"] for record in workspace.records() if record["status"] == "success")
    assert finals == Counter(range(ROWS))


def test_a_run_whose_directory_goes_away_stops_and_goes_on_when_it_is_back(workspace: Workspace) -> None:
    process = workspace.start()
    eventually(lambda: len(workspace.records()) >= 8)
    away = workspace.run_dir().with_name("away")
    workspace.run_dir().rename(away)
    outcome = ended(process)
    assert outcome["ended"] == "halted"
    assert str(workspace.run_dir()) in outcome["reason"]
    shutil.rmtree(workspace.run_dir(), ignore_errors=True)
    away.rename(workspace.run_dir())
    finish(workspace, workspace.records())


def test_a_removed_directory_is_named(workspace: Workspace) -> None:
    class Remover(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            if len(self.items) == 5:
                shutil.rmtree(workspace.run_dir(), ignore_errors=True)

    outcome = workspace.run(Remover())
    assert outcome.ended == "halted"
    assert str(workspace.run_dir()) in (outcome.reason or "")
    assert outcome.pending > 0


@pytest.mark.parametrize(("number", "words"), [(errno.EROFS, "Read-only"), (errno.ENOSPC, "No space left")])
def test_an_output_folder_that_cannot_be_written_is_named_before_anything_is_spent(
    workspace: Workspace, provider: MockProvider, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    output, real = workspace.run_dir().parent, os.open

    def refusing(path: Any, flags: int, *more: Any, **options: Any) -> int:
        if str(path).startswith(str(output)) and flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(StorageError, match=f"cannot write {output}.*{words}.*nothing was started"):
        workspace.run()
    assert provider.bodies == []
    assert not workspace.run_dir().exists()


def test_an_output_folder_that_is_a_file_is_named(workspace: Workspace, provider: MockProvider) -> None:
    output = workspace.root / "results"
    output.write_text("not a folder")
    with pytest.raises(StorageError, match=f"{output}.*Not a directory"):
        workspace.run(output_root=output)
    assert provider.bodies == []
