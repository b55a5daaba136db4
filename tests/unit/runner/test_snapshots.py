from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from osmosis_runner.errors import StorageError
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.rundir import RunDir
from osmosis_runner.snapshots import IndexWriter


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def record(row: int, run: int = 0, status: str = "success", **fields: object) -> JournalRecord:
    base: dict[str, object] = {
        "row_index": row, "run_index": run, "rollout_id": f"r{row}x{run}", "status": status, "duration_ms": 10,
    }  # fmt: skip
    return JournalRecord(**(base | fields))  # type: ignore[arg-type]


def items(path: Path) -> list[tuple[int, int, str]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line["row_index"], line["run_index"], line["rollout_id"]) for line in lines]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


def test_lines_are_appended_as_they_come_and_sorted_at_the_end(run: RunDir) -> None:
    writer = IndexWriter(run, 3, 2)
    writer.add(record(2, 1))
    writer.add(record(0, 0, rollout_id="old"))
    writer.flush()
    assert items(run.index) == items(run.summary) == [(2, 1, "r2x1"), (0, 0, "old")]
    writer.add(record(0, 0, rollout_id="new"))
    writer.add(record(1, 0, status="cancelled"))
    writer.add(record(0, 1), resumed=True)
    writer.finish()
    assert items(run.index) == [(0, 0, "new"), (0, 1, "r0x1"), (2, 1, "r2x1")]
    assert run.index.read_bytes() == run.summary.read_bytes()
    assert json.loads(run.index.read_text().splitlines()[1])["resumed"] is True
    assert stat.S_IMODE(run.index.stat().st_mode) == stat.S_IMODE(run.summary.stat().st_mode) == 0o600
    assert names_in(run.path) == ["index.jsonl", "summary.jsonl"]


def test_what_was_there_stays_until_the_first_flush(run: RunDir) -> None:
    run.index.write_text("before\n")
    writer = IndexWriter(run, 1, 1)
    assert run.index.read_text() == "before\n"
    writer.add(record(0))
    writer.flush()
    assert items(run.index) == [(0, 0, "r0x0")]
    writer.close()
    writer.close()
    assert items(run.index) == [(0, 0, "r0x0")]
    assert names_in(run.path) == ["index.jsonl", "summary.jsonl"]


def test_a_run_without_records_ends_with_empty_files(run: RunDir) -> None:
    IndexWriter(run, 2, 2).finish()
    assert run.index.read_bytes() == run.summary.read_bytes() == b""


def test_many_lines_are_flushed_on_their_own(run: RunDir) -> None:
    writer = IndexWriter(run, 5_000, 1)
    for row in range(5_000):
        writer.add(record(4_999 - row))
    assert run.index.stat().st_size > 0
    writer.finish()
    assert [item[0] for item in items(run.index)] == list(range(5_000))


def test_a_write_that_failed_halfway_is_made_again(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = IndexWriter(run, 3, 1)
    writer.add(record(0))
    writer.flush()
    writer.add(record(1))
    real, steps = os.pwrite, iter([5, 0])

    def full(descriptor: int, content: memoryview, offset: int) -> int:
        count = next(steps)
        if not count:
            raise OSError(28, "No space left on device")
        return real(descriptor, content[:count], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StorageError, match=r"safe in events\.jsonl"):
            writer.flush()
    writer.add(record(2))
    writer.flush()
    assert [item[0] for item in items(run.index)] == [item[0] for item in items(run.summary)] == [0, 1, 2]
    writer.close()


def test_a_failed_sorting_leaves_the_appended_lines(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = IndexWriter(run, 2, 1)
    writer.add(record(1))
    writer.add(record(0))
    writer.flush()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(StorageError):
            writer.finish()
    assert [item[0] for item in items(run.index)] == [1, 0]
    assert names_in(run.path) == ["index.jsonl", "summary.jsonl"]


def test_a_folder_that_is_gone_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        IndexWriter(RunDir(tmp_path / "no"), 1, 1)
