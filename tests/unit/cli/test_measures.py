"""Metrics in words."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_cli.measures import measure_rows, number
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.report import Report

SUMMARY: dict[str, Any] = {
    "completed_samples": 16,
    "passed": 14,
    "pass_rate": 0.875,
    "pass_threshold": 1.0,
    "reward_stats": {"mean": 0.9, "median": 1.0, "min": 0.0, "max": 1.0},
    "tokens_used": 12345,
}


def test_the_number_at_a_path_is_found_and_anything_else_is_unknown() -> None:
    source = {"a": {"b": 2, "c": True, "d": "3"}}
    assert number(source, "a", "b") == 2
    assert number(source, "a", "c") is number(source, "a", "d") is number(source, "x", "y") is None
    assert number(None, "a") is None


def test_known_figures_are_told_and_unknown_ones_are_left_out() -> None:
    assert measure_rows(SUMMARY) == [
        ("Pass Rate", "87.5% (14/16 scored, threshold 1)"),
        ("Reward", "mean 0.9, median 1, min 0, max 1"),
        ("Tokens Used", "12,345"),
    ]


@pytest.mark.parametrize("scored", [0, None])
def test_a_rate_over_nothing_is_not_told_as_zero(scored: int | None) -> None:
    rows = dict(measure_rows(SUMMARY | {"completed_samples": scored, "pass_rate": 0.0}))
    assert rows["Pass Rate"] == "no item scored yet"
    skipped = dict(measure_rows(SUMMARY | {"completed_samples": scored, "skipped": 3}))
    assert skipped["Pass Rate"] == "no item scored (3 skipped)"


def test_items_that_nobody_graded_are_told() -> None:
    report = Report(4, 1, 1.0)
    for row, reward in enumerate((None, None, 1.0)):
        report.add(
            JournalRecord(
                row_index=row, run_index=0, rollout_id="r", status="success", duration_ms=1, reward=reward
            )
        )
    told = dict(measure_rows(report.summary()))["Reward"]
    assert told == "mean 1, median 1, min 1, max 1; 2 items ended without a reward"


def test_failures_are_told_by_what_broke() -> None:
    report = Report(5, 1, 1.0)
    for row, (kind, phase) in enumerate(
        [("agent_error", "agent"), ("agent_error", "grader"), ("agent_error", "grader"), ("timeout", "agent")]
    ):
        report.add(
            JournalRecord(
                row_index=row, run_index=0, rollout_id="r", status="failed", duration_ms=1, error_type=kind,
                error_phase=phase,  # pyright: ignore[reportArgumentType]
            )
        )  # fmt: skip
    summary = report.summary()
    assert summary["error_types"] == {"agent_error": 3, "timeout": 1}
    assert dict(measure_rows(summary))["Failures"] == "grader failed 2, agent failed 1, agent timed out 1"


def test_a_rate_over_failures_alone_is_not_told_as_measured() -> None:
    report = Report(4, 2, 1.0)
    for item in range(8):
        fields: dict[str, Any] = {"row_index": item // 2, "run_index": item % 2, "rollout_id": f"r{item}"}
        report.add(JournalRecord(**fields, status="failed", duration_ms=1, error_type="agent_error"))
    rows = dict(measure_rows(report.summary()))
    assert rows["Pass Rate"] == "no item passed (8 scored, all failed)"
    assert not {"pass@k", "pass^k", "Row Consistency"} & rows.keys()
    assert rows["Failures"] == "agent_error 8"
    assert dict(measure_rows({"error_types": {"timeout": 2}}))["Failures"] == "timeout 2"
    report.add(
        JournalRecord(row_index=0, run_index=0, rollout_id="r", status="success", duration_ms=1, reward=0)
    )
    assert "0.0% (0/8 scored" in dict(measure_rows(report.summary()))["Pass Rate"]


def test_unknown_usage_is_told_as_unknown() -> None:
    rows = dict(measure_rows(SUMMARY | {"tokens_used": None, "samples_without_usage": 16}))
    assert rows["Tokens Used"] == "unknown: no usage was sent"


def test_no_calls_are_told_apart_from_unknown_usage() -> None:
    rows = dict(measure_rows(SUMMARY | {"tokens_used": None, "samples_without_usage": 16, "calls": 0}))
    assert rows["Tokens Used"] == "none: no call was answered"


def report_of(attempts: int) -> dict[str, Any]:
    """What the runner's own report says of four rows with so many attempts each; the first two rows pass."""
    report = Report(4, attempts, 1.0)
    for row in range(4):
        for run in range(attempts):
            report.add(
                JournalRecord(
                    row_index=row,
                    run_index=run,
                    rollout_id=f"{row:016x}{run:016x}",
                    status="success" if row < 3 else "failed",
                    duration_ms=1500,
                    reward=None if row == 3 else float(row < 2),
                    tokens=1000,
                    prompt_tokens=900,
                    completion_tokens=100,
                    max_context_tokens=600,
                    ttft_ms=250.0,
                    cost_usd=0.01,
                    error_type="timeout" if row == 3 else None,
                )
            )
    return report.summary()


def test_everything_that_the_report_knows_is_told() -> None:
    rows = dict(measure_rows(report_of(2)))
    assert rows["Pass Rate"].startswith("50.0% (4/8 scored, threshold 1); 95% interval ")
    assert rows["Reward"] == "mean 0.6667, median 1, min 0, max 1"
    assert rows["pass@k"].startswith("pass@1 50.0% (")
    assert rows["pass^k"].startswith("pass^2 50.0%")
    assert rows["Row Consistency"] == "2 always pass, 0 sometimes, 2 never"
    assert rows["Failures"] == "timeout 2"
    assert rows["Tokens Used"] == "8,000 (prompt 7,200, completion 800)"
    assert rows["Max Context Tokens"] == "600 (p50 600, p95 600, p99 600); suggested context window 1,024"
    assert (
        rows["Time per Item"]
        == "p50 1.50s, p95 1.50s, max 1.50s; to the first token p50 0.25s, p95 0.25s, max 0.25s"
    )
    assert rows["Cost"] == "$0.0800"


def test_many_attempts_are_told_at_powers_of_two_and_the_last() -> None:
    told = dict(measure_rows(report_of(11)))["pass@k"]
    assert [part.split()[0] for part in told.split(" · ")] == [
        "pass@1",
        "pass@2",
        "pass@4",
        "pass@8",
        "pass@11",
    ]


def test_what_superseded_attempts_spent_is_told_beside_what_counts() -> None:
    spent = {"tokens_spent": 20000, "cost_usd": 0.5, "cost_spent_usd": 2.0, "samples_without_usage": 1}
    rows = dict(measure_rows(SUMMARY | spent))
    assert rows["Tokens Used"] == "12,345; 1 item without usage; 20,000 spent over all attempts"
    assert rows["Cost"] == "$0.5000; $2.00 spent over all attempts"


def test_retries_of_the_provider_are_told_when_there_were_any() -> None:
    assert "Provider Retries" not in dict(measure_rows(SUMMARY | {"provider_retries": 0, "retry_wait_ms": 0}))
    told = dict(measure_rows(SUMMARY | {"provider_retries": 1200, "retry_wait_ms": 75_000}))
    assert told["Provider Retries"] == "1,200 (waited 1m 15s in all)"
    assert dict(measure_rows(SUMMARY | {"provider_retries": 1}))["Provider Retries"] == "1"
