from __future__ import annotations

import json
import math

import pytest

from osmosis_runner.journal_record import (
    KIND_LIMIT,
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    BadRecord,
    JournalRecord,
    bounded_record,
    decode_record,
    encode_record,
)


def record(**fields: object) -> JournalRecord:
    base: dict[str, object] = {
        "row_index": 0, "run_index": 1, "rollout_id": "a1", "status": "success", "duration_ms": 5,
    }  # fmt: skip
    return JournalRecord(**(base | fields))  # type: ignore[arg-type]


def test_a_line_is_canonical_and_leaves_unknown_values_out() -> None:
    assert encode_record(record(reward=1.0, tokens=0)) == (
        b'{"duration_ms":5,"reward":1.0,"rollout_id":"a1","row_index":0,"run_index":1,"status":"success","tokens":0}\n'
    )


def test_a_line_reads_back_as_the_same_record() -> None:
    full = record(
        status="failed", source_row_index=7, reward=0.5, tokens=3, error_type="agent_error", error_phase="agent",
        error_message="é\u2028😀", error_traceback="a\nb", attempt=3, started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:01Z", max_context_tokens=2, calls=1, prompt_tokens=1, completion_tokens=1,
        cached_tokens=0, cost_usd=0.25, ttft_ms=1.5, trajectory_filename="trajectory.json",
    )  # fmt: skip
    assert decode_record(encode_record(full).rstrip()) == full


def test_unknown_keys_are_ignored() -> None:
    line = json.loads(encode_record(record())) | {"later": [1]}
    assert decode_record(json.dumps(line).encode()) == record()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "blank"),
        (b"  \0\0", "blank"),
        (b"nonsense", "invalid JSON"),
        (b"[1]", "not a record"),
        (b'{"row_index":0}', "not a record"),
        (b'{"row_index":0,"run_index":0,"rollout_id":"a","status":"won","duration_ms":1}', "not a record"),
        (
            b'{"row_index":"0","run_index":0,"rollout_id":"a","status":"failed","duration_ms":1}',
            "not a record",
        ),
        (
            b'{"row_index":0,"run_index":0,"rollout_id":"../x","status":"failed","duration_ms":1}',
            "folder's name",
        ),
        (b'{"row_index":0,"run_index":0,"rollout_id":"","status":"failed","duration_ms":1}', "folder's name"),
        (b'{"row_index":-1,"run_index":0,"rollout_id":"a","status":"failed","duration_ms":1}', "negative"),
        (
            b'{"row_index":0,"run_index":0,"rollout_id":"\xff","status":"failed","duration_ms":1}',
            "invalid JSON",
        ),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, says: str) -> None:
    with pytest.raises(BadRecord) as caught:
        decode_record(line)
    assert says in str(caught.value)


@pytest.mark.parametrize("field", ["reward", "cost_usd", "ttft_ms"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_number_that_json_lacks_is_written(field: str, value: float) -> None:
    with pytest.raises(BadRecord, match=field):
        encode_record(record(**{field: value}))


def test_texts_are_cut_and_always_writable() -> None:
    bounded = bounded_record(
        record(
            error_type="t" * 500, error_message="a\n  b\t" + "x" * 5_000, error_traceback="y" * 9_000 + "end"
        )
    )
    assert len(bounded.error_type or "") == KIND_LIMIT
    assert len(bounded.error_message or "") == MESSAGE_LIMIT
    assert (bounded.error_message or "").startswith("a b x")
    assert len(bounded.error_traceback or "") == TRACEBACK_LIMIT
    assert (bounded.error_traceback or "").endswith("end")
    odd = bounded_record(record(error_message="cut \ud83d emoji", error_traceback="\ud83d"))
    assert odd.error_message == "cut \\ud83d emoji"
    encode_record(odd)


def test_the_item_is_row_and_run() -> None:
    assert record(row_index=3, run_index=4).item == (3, 4)
