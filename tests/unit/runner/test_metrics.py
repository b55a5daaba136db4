from __future__ import annotations

import json

import pytest

from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.metrics import Invocation, RunIdentity, index_line, metrics_payload, past_invocations

IDENTITY = RunIdentity("f" * 32, "my-run", "sums", "/d/sums.jsonl", "openai/m", "math")
FIRST = Invocation("2026-01-01T00:00:00Z", 1000, 20, 1.0, "interrupted")
SECOND = Invocation("2026-01-02T00:00:00Z", 500, 5, 0.5)


def test_the_first_start_and_the_active_time_are_kept_over_invocations() -> None:
    payload = metrics_payload(IDENTITY, "running", [FIRST, SECOND], {"passed": 1}, None)
    run = payload["eval_run"]
    assert isinstance(run, dict)
    assert run["started_at"] == "2026-01-01T00:00:00Z"
    assert run["duration_ms"] == 1500
    assert "completed_at" not in run
    assert run["dataset_file"] == "/d/sums.jsonl"
    assert payload["summary"] == {"passed": 1}
    done = metrics_payload(IDENTITY, "finished", [FIRST], {}, "2026-01-03T00:00:00Z")["eval_run"]
    assert isinstance(done, dict)
    assert done["completed_at"] == "2026-01-03T00:00:00Z"


def test_invocations_read_back_with_their_thresholds() -> None:
    payload = json.loads(json.dumps(metrics_payload(IDENTITY, "running", [FIRST, SECOND], {}, None)))
    assert past_invocations(payload) == [FIRST, SECOND]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"eval_run": 1},
        {"eval_run": {"invocations": [{"started_at": 3}]}},
        {"eval_run": {"invocations": {}}},
    ],
)
def test_a_file_of_another_shape_has_no_invocations(value) -> None:
    assert past_invocations(value) == []


def test_an_index_line_has_the_contracts_fields_without_nulls() -> None:
    record = JournalRecord(
        row_index=1, run_index=0, rollout_id="a", status="failed", duration_ms=5, tokens=0, error_type="timeout",
        error_message="boom", error_traceback="long", attempt=2, started_at="x", trajectory_filename="trajectory.json",
        max_context_tokens=3, calls=1, prompt_tokens=1, completion_tokens=2, cached_tokens=0, cost_usd=0.5,
    )  # fmt: skip
    line = index_line(record, resumed=True)
    assert line.endswith(b"\n")
    assert list(json.loads(line)) == sorted(
        [
            "row_index", "run_index", "rollout_id", "status", "duration_ms", "tokens", "error_type", "error_message",
            "trajectory_filename", "max_context_tokens", "calls", "prompt_tokens", "completion_tokens",
            "cached_tokens", "cost_usd", "resumed",
        ]
    )  # fmt: skip
    assert "resumed" not in json.loads(index_line(record, resumed=False))
