from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.errors import JournalCorrupt, RunNotFound
from osmosis_runner.journal import JournalRecord
from osmosis_runner.journal_record import encode_record
from osmosis_runner.repair import Repair, repair
from replayed import replay


def line(row: int) -> bytes:
    return encode_record(
        JournalRecord(row_index=row, run_index=0, rollout_id=f"r{row}", status="success", duration_ms=1)
    )


def test_every_good_line_is_kept_and_the_damaged_file_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    damaged = line(0) + b"garbage\n" + line(1) + b"\0\0\n" + line(2) + b'{"torn'
    path.write_bytes(damaged)
    with pytest.raises(JournalCorrupt):
        replay(path)
    done = repair(path)
    assert done == Repair(3, (2, 4, 6), tmp_path / "events.jsonl.damaged-1")
    assert (tmp_path / "events.jsonl.damaged-1").read_bytes() == damaged
    assert path.read_bytes() == line(0) + line(1) + line(2)
    assert set(replay(path).latest) == {(0, 0), (1, 0), (2, 0)}


def test_a_second_repair_keeps_the_first_backup(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for number in (1, 2):
        path.write_bytes(b"bad%d\n" % number + line(0))
        assert repair(path).backup == tmp_path / f"events.jsonl.damaged-{number}"
    assert (tmp_path / "events.jsonl.damaged-1").read_bytes().startswith(b"bad1")


def test_a_journal_in_order_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(line(0))
    before = path.stat()
    assert repair(path) == Repair(1, (), None)
    assert path.stat().st_ino == before.st_ino
    assert list(tmp_path.iterdir()) == [path]


def test_a_torn_last_line_is_left_out_and_a_whole_one_gets_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for tail, kept, dropped in ((b'{"torn', 1, (2,)), (b"\0\0", 1, (2,)), (line(1).rstrip(b"\n"), 2, ())):
        path.write_bytes(line(0) + tail)
        done = repair(path)
        assert (done.kept, done.dropped) == (kept, dropped)
        assert done.backup is not None
        assert done.backup.read_bytes() == line(0) + tail
        assert path.read_bytes() == line(0) + line(1) * (kept - 1)
    assert repair(path) == Repair(2, (), None)


def test_a_run_without_a_journal_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        repair(tmp_path / "events.jsonl")
