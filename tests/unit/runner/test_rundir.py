from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from osmosis_runner.errors import RunDirError, RunExists, StorageError
from osmosis_runner.row_store import Row
from osmosis_runner.rundir import Manifest, RunDir, archive_run, create_run, find_run, read_manifest

MANIFEST = Manifest(
    "f" * 32, "my-run", "2026-01-01T00:00:00Z", {"n": 2, "env": {"A": "1"}}, {"git_dirty": True}
)
ROWS = [Row(0, 4, [{"role": "user", "content": "q"}], "1", None), Row(1, 5, [], None, {"a": 1})]
PROGRESS = {"total_runs": 4, "sampled_rows": 2, "total_dataset_rows": 9}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def create(output: Path, manifest: Manifest = MANIFEST) -> RunDir:
    return create_run(output, manifest, ROWS, PROGRESS)


def test_a_run_appears_whole(tmp_path: Path) -> None:
    run = create(tmp_path / "new" / "evals")
    assert run.path == tmp_path / "new" / "evals" / "my-run"
    assert names_in(run.path) == [
        "artifacts", "events.jsonl", "manifest.json", "progress.json", "rollout_trials", "rows.jsonl", "trajectories",
    ]  # fmt: skip
    assert names_in(run.path.parent) == ["my-run"]
    assert json.loads(run.progress.read_text()) == PROGRESS
    assert run.events.read_bytes() == b""
    assert [json.loads(line) for line in run.rows.read_text().splitlines()] == [
        {"row_index": 0, "prompt": "q", "label": "1"},
        {"row_index": 1, "prompt": '{"a":1}'},
    ]
    for path in run.path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_the_manifest_reads_back(tmp_path: Path) -> None:
    run = create(tmp_path)
    assert read_manifest(run) == MANIFEST
    written = json.loads(run.manifest.read_text())
    assert next(iter(written)) == "schema_version"
    assert written["schema_version"] == 1


def test_a_name_that_is_taken_is_refused_and_untouched(tmp_path: Path) -> None:
    run = create(tmp_path)
    before = run.manifest.read_bytes()
    with pytest.raises(RunExists, match="--fresh"):
        create(tmp_path)
    assert run.manifest.read_bytes() == before


@pytest.mark.parametrize("step", ["fsync", "rename", "mkdir"])
def test_a_failure_while_making_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, refuse)
        with pytest.raises(StorageError, match="nothing was created"):
            create(tmp_path)
    assert names_in(tmp_path) == []


def test_rows_that_fail_while_they_are_written_leave_nothing(tmp_path: Path) -> None:
    def rows():
        yield ROWS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_run(tmp_path, MANIFEST, rows(), PROGRESS)
    assert names_in(tmp_path) == []


def test_what_a_killed_maker_left_is_swept_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".my-run.making-dead").mkdir()
    (tmp_path / ".my-run.making-dead" / "manifest.json").write_text("{")
    (tmp_path / ".other.making-dead").mkdir()
    create(tmp_path)
    assert names_in(tmp_path) == [".other.making-dead", "my-run"]


def test_a_link_or_a_file_in_place_of_a_run_is_refused(tmp_path: Path) -> None:
    assert find_run(tmp_path, "my-run") is None
    (tmp_path / "real").mkdir()
    (tmp_path / "my-run").symlink_to(tmp_path / "real")
    with pytest.raises(RunDirError, match="symbolic link"):
        find_run(tmp_path, "my-run")
    with pytest.raises(RunDirError, match="symbolic link"):
        create(tmp_path)
    (tmp_path / "my-run").unlink()
    (tmp_path / "my-run").symlink_to(tmp_path / "nothing")
    with pytest.raises(RunDirError, match="symbolic link"):
        find_run(tmp_path, "my-run")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirError, match="not a directory"):
        find_run(tmp_path, "file")
    assert find_run(tmp_path, "real") == RunDir(tmp_path / "real")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "has no manifest.json"),
        (b"", "damaged"),
        (b"[]", "damaged"),
        (b"\xff", "damaged"),
        (b'{"schema_version": 1}', "damaged"),
        (b'{"schema_version": 2}', "has schema 2, this release reads 1"),
    ],
)
def test_a_manifest_that_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, says: str) -> None:
    run = create(tmp_path)
    run.manifest.unlink() if content is None else run.manifest.write_bytes(content)
    with pytest.raises(RunDirError) as caught:
        read_manifest(run)
    assert says in str(caught.value)


def test_an_archive_keeps_everything_and_never_overwrites(tmp_path: Path) -> None:
    now = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    names = []
    for number in range(3):
        run = create(tmp_path)
        run.logs.write_text(str(number))
        names.append(archive_run(run, now).name)
        assert find_run(tmp_path, "my-run") is None
    stamp = "my-run.archive-20260304T050607Z"
    assert names == [stamp, f"{stamp}-2", f"{stamp}-3"]
    assert [(tmp_path / name / "logs.txt").read_text() for name in names] == ["0", "1", "2"]


def test_paths_are_those_of_the_contract(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "r")
    assert run.trajectory(3, 1) == tmp_path / "r" / "trajectories" / "row_3_run_1.json"
    assert run.artifacts(3, 1) == tmp_path / "r" / "artifacts" / "row_3_run_1"
    assert run.trial("abc") == tmp_path / "r" / "rollout_trials" / "abc"
    names = [run.index, run.summary, run.metrics, run.calls, run.logs, run.events, run.rows]
    assert [path.name for path in names] == [
        "index.jsonl", "summary.jsonl", "metrics.json", "calls.jsonl", "logs.txt", "events.jsonl", "rows.jsonl",
    ]  # fmt: skip
