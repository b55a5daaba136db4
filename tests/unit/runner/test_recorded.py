from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.errors import JournalCorrupt
from osmosis_runner.journal import Journal
from osmosis_runner.recorded import Recorded, read_recorded
from runner_fakes import ended


def after(*steps: tuple[int, str]) -> Recorded:
    recorded = Recorded()
    for row, status in steps:
        recorded.add(ended(row, status).record)
    return recorded


def test_the_last_final_record_of_an_item_counts() -> None:
    recorded = after((0, "failed"), (1, "success"), (0, "cancelled"), (0, "success"), (2, "skipped"))
    assert recorded.statuses == {(0, 0): "success", (1, 0): "success", (2, 0): "skipped"}
    assert list(recorded.unscored) == [(2, 0)]


def test_every_attempt_is_counted() -> None:
    recorded = after((0, "success"), (1, "cancelled"), (2, "failed"), (2, "cancelled"), (2, "failed"))
    assert [recorded.attempts_at((row, 0)) for row in range(4)] == [1, 1, 3, 0]


def test_what_ended_at_the_first_attempt_takes_no_room_among_attempts() -> None:
    assert after(*((row, "success") for row in range(100))).attempts == {}


def test_a_journal_is_read_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert read_recorded(path).statuses == {}
    with Journal.open(path) as journal:
        journal.append([ended(0).record, ended(1, "failed").record])
    assert len(read_recorded(path).statuses) == 2
    path.write_text("garbage\n" + path.read_text())
    with pytest.raises(JournalCorrupt):
        read_recorded(path)
