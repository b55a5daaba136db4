from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.errors import JournalCorrupt
from osmosis_runner.journal import Journal
from osmosis_runner.journal_index import JournalIndex
from osmosis_runner.journal_record import JournalRecord
from replayed import fold

places = st.tuples(st.integers(0, 3), st.integers(0, 2))
attempts = st.lists(
    st.tuples(
        places,
        st.sampled_from(["success", "failed", "skipped", "cancelled"]),
        st.none() | st.sampled_from([0.0, 0.5, 1.0]),
    ),
    max_size=12,
)


def records_of(told: list[tuple[tuple[int, int], Any, float | None]]) -> list[JournalRecord]:
    return [
        JournalRecord(
            row_index=place[0], run_index=place[1], rollout_id=f"r{number}", status=status, duration_ms=number,
            reward=reward,
        )
        for number, (place, status, reward) in enumerate(told)
    ]  # fmt: skip


def written(path: Path, records: list[JournalRecord]) -> Path:
    path.unlink(missing_ok=True)
    with Journal.open(path) as journal:
        journal.append(records)
    return path


@given(attempts, st.sampled_from([None, "success", "failed", "skipped"]), st.none() | st.just(0.75))
def test_it_tells_what_a_journal_kept_whole_would(
    tmp_path_factory: pytest.TempPathFactory, told: Any, status: Any, below: float | None
) -> None:
    records = records_of(told)
    latest = fold(records).latest
    with JournalIndex(written(tmp_path_factory.getbasetemp() / "events.jsonl", records)) as index:
        assert len(index) == len(latest)
        assert index.items() == sorted(latest)
        assert list(index.records(index.items())) == [latest[item] for item in sorted(latest)]
        fits = [
            item
            for item in sorted(latest)
            if (status is None or latest[item].status == status)
            and (below is None or (latest[item].reward is not None and (latest[item].reward or 0) < below))
        ]
        assert index.items(status, below) == fits
        assert sum(index.counts().values()) == len(latest)
        ends = (max(part) + 1 for part in zip(*latest, strict=True)) if latest else (0, 0)
        assert index.extent == tuple(ends)


def test_a_missing_journal_is_an_empty_one_and_a_torn_tail_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with JournalIndex(path) as index:
        assert (len(index), index.items(), index.record((0, 0))) == (0, [], None)
    written(path, records_of([((0, 0), "success", 1.0), ((1, 0), "success", 1.0)]))
    path.write_bytes(path.read_bytes()[:-5])
    with JournalIndex(path) as index:
        assert index.items() == [(0, 0)]


def test_a_damaged_line_names_its_place_and_the_repair(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"garbage\n")
    with pytest.raises(JournalCorrupt, match=r"events\.jsonl:1: .*osmosis eval repair"):
        JournalIndex(path)


def test_a_line_that_changed_meanwhile_is_not_taken_for_the_record(tmp_path: Path) -> None:
    path = written(tmp_path / "events.jsonl", records_of([((0, 0), "success", 1.0)]))
    with JournalIndex(path) as index:
        path.write_bytes(path.read_bytes().replace(b'"row_index":0', b'"row_index":7'))
        with pytest.raises(JournalCorrupt, match="changed while it was read"):
            index.record((0, 0))
