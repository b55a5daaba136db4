from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from osmosis_runner.errors import JournalCorrupt, StorageError
from osmosis_runner.journal import Journal, JournalRecord, read_records, repair_command
from osmosis_runner.journal_record import encode_record
from replayed import replay


def record(row: int, run: int = 0, **fields: object) -> JournalRecord:
    base: dict[str, object] = {
        "row_index": row, "run_index": run, "rollout_id": f"r{row}x{run}", "status": "success", "duration_ms": 1,
    }  # fmt: skip
    return JournalRecord(**(base | fields))  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my-run" / "events.jsonl"


@pytest.fixture(autouse=True)
def folder(path: Path) -> None:
    path.parent.mkdir()


def test_what_was_appended_is_replayed(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append([record(0), record(1)])
        journal.append([])
    with Journal.open(path) as journal:
        journal.append([record(0, status="failed")])
    replayed = replay(path)
    assert replayed.statuses() == {(0, 0): "failed", (1, 0): "success"}
    assert replayed.lines == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_append_is_one_fsync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), real(descriptor))[1])
    with Journal.open(path) as journal:
        journal.append([record(row) for row in range(100)])
        assert len(synced) == 1


def test_a_repair_is_typed_by_name_where_the_run_lies_in_its_usual_place() -> None:
    assert repair_command(Path("/ws/.osmosis/evals/r")) == "osmosis eval repair r"
    assert repair_command(Path("/else where/r")) == "osmosis eval repair '/else where/r'"


def test_a_missing_journal_is_empty(path: Path) -> None:
    assert replay(path).lines == 0
    assert list(read_records(path)) == []


@pytest.mark.parametrize(
    "tail", [b'{"row_index":1,"ru', b"\0" * 4096, b'{"row_index":1,"ru\0\0\0', b"x" * 3_000_000]
)
def test_a_torn_tail_is_dropped_and_cut_away(path: Path, tail: bytes) -> None:
    with Journal.open(path) as journal:
        journal.append([record(0)])
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert replay(path).dropped_tail == len(tail)
    assert path.read_bytes() == whole + tail
    with Journal.open(path) as journal:
        assert journal.dropped_tail == len(tail)
        journal.append([record(1)])
    assert path.read_bytes() == whole + encode_record(record(1))


def test_a_journal_of_one_torn_line_is_empty(path: Path) -> None:
    path.write_bytes(b'{"row')
    assert replay(path).lines == 0
    Journal.open(path).close()
    assert path.read_bytes() == b""


@pytest.mark.parametrize("garbage", [b"garbage\n", b"\n", b"\0\0\0\n", b"{}\n", b'"x"\n'])
def test_a_damaged_line_in_the_middle_names_file_line_and_remedy(path: Path, garbage: bytes) -> None:
    content = encode_record(record(0)) + garbage + encode_record(record(1))
    path.write_bytes(content)
    with pytest.raises(JournalCorrupt) as caught:
        list(read_records(path))
    assert str(caught.value).startswith(f"{path}:2: ")
    assert f"`osmosis eval repair {path.parent}` to keep every good line" in str(caught.value)
    assert caught.value.line == 2
    assert caught.value.code == "CONFLICT"
    assert path.read_bytes() == content


def test_a_record_that_cannot_be_written_whole_is_taken_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal.open(path) as journal:
        journal.append([record(0)])
        before = path.read_bytes()
        real, calls = os.write, iter([7, 0])

        def full(descriptor: int, content: memoryview) -> int:
            count = next(calls)
            if not count:
                raise OSError(28, "No space left on device")
            return real(descriptor, content[:count])

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(
                StorageError, match="No space left on device; results already recorded are safe"
            ):
                journal.append([record(1)])
        assert path.read_bytes() == before
        journal.append([record(2)])
    assert set(replay(path).latest) == {(0, 0), (2, 0)}


def test_a_failed_fsync_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal.open(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
            with pytest.raises(StorageError):
                journal.append([record(0)])
        assert path.read_bytes() == b""


def test_nothing_is_appended_behind_a_line_that_could_not_be_taken_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(5, "Input/output error")

    real = os.write
    with Journal.open(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda descriptor, content: real(descriptor, content[:9]))
            patch.setattr(os, "fsync", refuse)
            patch.setattr(os, "ftruncate", refuse)
            with pytest.raises(StorageError):
                journal.append([record(0)])
        with pytest.raises(StorageError, match="could not be undone"):
            journal.append([record(1)])
    assert set(replay(path).latest) <= {(0, 0)}


def test_a_full_disk_at_any_byte_loses_no_recorded_result(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [record(0), record(1)], [record(2), record(3)]
    size = sum(len(encode_record(entry)) for entry in second)
    real = os.write
    for room in range(size):
        path.unlink(missing_ok=True)
        with Journal.open(path) as journal:
            journal.append(first)
            left = room

            def limited(descriptor: int, content: memoryview) -> int:
                nonlocal left
                if not left:
                    raise OSError(28, "No space left on device")
                count = real(descriptor, content[:left])
                left -= count
                return count

            with monkeypatch.context() as patch:
                patch.setattr(os, "write", limited)
                with pytest.raises(StorageError):
                    journal.append(second)
        assert set(replay(path).latest) == {(0, 0), (1, 0)}


def test_many_threads_write_whole_lines(path: Path) -> None:
    with Journal.open(path) as journal, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: journal.append([record(row, run) for run in range(3)]), range(50)))
    assert len(replay(path).latest) == 150


def test_a_link_in_place_of_the_journal_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        Journal.open(path)


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nothing was started"):
        Journal.open(tmp_path / "no" / "events.jsonl")


def test_closing_twice_is_fine_and_appending_afterwards_is_an_error(path: Path) -> None:
    journal = Journal.open(path)
    journal.close()
    journal.close()
    with pytest.raises(StorageError):
        journal.append([record(0)])


WRITER = """
import sys
from pathlib import Path
from osmosis_runner.journal import Journal, JournalRecord
with Journal.open(Path(sys.argv[1])) as journal:
    for row in range(10**6):
        journal.append([JournalRecord(row_index=row, run_index=0, rollout_id="r", status="success", duration_ms=1)])
        print(row, flush=True)
"""


def test_every_result_told_before_a_kill_is_in_the_journal(path: Path) -> None:
    for _ in range(5):
        path.unlink(missing_ok=True)
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            told = [int(writer.stdout.readline()) for _ in range(20)]
            writer.send_signal(signal.SIGKILL)
            told += [int(line) for line in writer.stdout.read().splitlines()]
        recorded = replay(path).latest
        assert {(row, 0) for row in told} <= set(recorded)
        assert len(recorded) <= len(told) + 1


@pytest.mark.parametrize("gone", ["removed", "moved", "replaced"])
def test_what_is_written_to_a_file_that_nobody_will_find_is_not_recorded(
    path: Path, tmp_path: Path, gone: str
) -> None:
    with Journal.open(path) as journal:
        journal.append([record(0)])
        if gone == "removed":
            path.unlink()
        else:
            path.rename(tmp_path / "elsewhere")
        if gone == "replaced":
            path.write_bytes(b"")
        with pytest.raises(StorageError, match="moved or removed while the run wrote to it"):
            journal.append([record(1)])
        if gone == "moved":
            (tmp_path / "elsewhere").rename(path)
            journal.append([record(2)])
            assert set(replay(path).latest) == {(0, 0), (2, 0)}
