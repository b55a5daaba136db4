from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.errors import JournalCorrupt
from osmosis_runner.journal import Journal
from osmosis_runner.recorded import Recorded, last_records, read_recorded
from osmosis_runner.standing import Standing
from runner_fakes import ended


def after(*steps: tuple[int, str], rows: int = 4) -> Recorded:
    recorded = Recorded(rows, 1)
    for row, status in steps:
        recorded.add(ended(row, status, reward=1.0).record)
    return recorded


def test_the_last_final_record_of_an_item_counts() -> None:
    recorded = after((0, "failed"), (1, "success"), (0, "cancelled"), (0, "success"), (2, "skipped"))
    assert list(recorded.standings) == [
        Standing.SUCCESS,
        Standing.SUCCESS,
        Standing.SKIPPED,
        Standing.PENDING,
    ]
    assert recorded.items(Standing.SKIPPED, Standing.FAILED) == [(2, 0)]
    assert recorded.items(Standing.SUCCESS, most=1) == [(0, 0)]
    assert recorded.counts()[Standing.SUCCESS] == 2


def test_every_attempt_is_counted() -> None:
    recorded = after((0, "success"), (1, "cancelled"), (2, "failed"), (2, "cancelled"), (2, "failed"))
    assert [recorded.attempts_at((row, 0)) for row in range(4)] == [1, 1, 3, 0]


def test_an_item_takes_a_byte() -> None:
    recorded = after(*((row, "success") for row in range(100)), rows=100)
    assert len(recorded.standings) == 100
    assert recorded._attempts == {}


def test_a_journal_is_read_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert read_recorded(path, 2, 1).standings == bytes(2)
    with Journal.open(path) as journal:
        journal.append([ended(0, reward=0.0).record, ended(1, "failed").record])
    assert read_recorded(path, 2, 1).standings == bytes([Standing.SUCCESS, Standing.FAILED])
    path.write_text("garbage\n" + path.read_text())
    with pytest.raises(JournalCorrupt):
        read_recorded(path, 2, 1)


@pytest.mark.parametrize(("rows", "runs"), [(1, 1), (1, 2)])
def test_a_record_of_an_item_that_the_run_does_not_have_names_its_line(
    tmp_path: Path, rows: int, runs: int
) -> None:
    path = tmp_path / "events.jsonl"
    with Journal.open(path) as journal:
        journal.append([ended(0).record, ended(1).record])
    with pytest.raises(JournalCorrupt, match=r"events\.jsonl:2: row 1 run 0 is no item of this run"):
        read_recorded(path, rows, runs)


def test_the_last_records_of_items_are_read_again_from_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Journal.open(path) as journal:
        journal.append([ended(1, "failed", tokens=1).record, ended(0, "failed").record])
        journal.append([ended(1, "failed", tokens=2).record, ended(1, "cancelled").record, ended(2).record])
    found = last_records(path, [(0, 0), (1, 0)])
    assert [(record.row_index, record.tokens) for record in found] == [(0, None), (1, 2)]
    assert last_records(tmp_path / "missing", []) == []
