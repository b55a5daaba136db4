from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.errors import JournalCorrupt
from osmosis_runner.journal import Journal, JournalRecord
from osmosis_runner.journal_record import bounded_record, decode_record, encode_record
from osmosis_runner.repair import repair
from replayed import replay

known = st.none() | st.integers(0, 2**53)
finite = st.none() | st.floats(allow_nan=False, allow_infinity=False)
records = st.builds(
    JournalRecord,
    row_index=st.integers(0, 5),
    run_index=st.integers(0, 2),
    rollout_id=st.text("abc0-", min_size=1, max_size=5).filter(lambda name: name[0] != "-"),
    status=st.sampled_from(["success", "failed", "skipped", "cancelled"]),
    duration_ms=st.integers(0, 10**6),
    reward=finite,
    tokens=known,
    error_type=st.none() | st.text(max_size=150),
    error_message=st.none() | st.text(st.characters(), max_size=50),
    error_traceback=st.none() | st.text(st.characters(), max_size=50),
    cost_usd=finite,
)


def fresh(factory: Any) -> Path:
    path: Path = factory.getbasetemp() / "events.jsonl"
    path.unlink(missing_ok=True)
    return path


@given(records)
def test_any_record_is_written_and_read_back(record: JournalRecord) -> None:
    bounded = bounded_record(record)
    line = encode_record(bounded)
    assert line.count(b"\n") == 1
    assert decode_record(line.rstrip(b"\n")) == bounded
    assert bounded_record(bounded) == bounded


@given(st.lists(records, max_size=8), st.data())
def test_a_journal_cut_at_any_byte_keeps_every_whole_line(
    tmp_path_factory: Any, entries: list[JournalRecord], data: st.DataObject
) -> None:
    path = fresh(tmp_path_factory)
    lines = [encode_record(bounded_record(entry)) for entry in entries]
    content = b"".join(lines)
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut] + b"\0" * data.draw(st.integers(0, 3)))
    whole = content[:cut].count(b"\n")
    assert replay(path).lines == whole
    Journal.open(path).close()
    assert path.read_bytes() == b"".join(lines[:whole])


@given(
    st.lists(
        records.map(lambda entry: encode_record(bounded_record(entry)))
        | st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"") + b"\n"),
        max_size=8,
    )
)
def test_a_repaired_journal_opens_with_every_good_line(tmp_path_factory: Any, lines: list[bytes]) -> None:
    path = fresh(tmp_path_factory)
    path.write_bytes(b"".join(lines))
    try:
        before = replay(path).lines
    except JournalCorrupt:
        before = None
    done = repair(path)
    if done.backup is not None:
        done.backup.unlink()
    assert (before is None) == bool(done.dropped)
    assert replay(path).lines == done.kept == len(lines) - len(done.dropped)
