from __future__ import annotations

import json
import random

import pytest

from osmosis_runner.journal import JournalRecord
from osmosis_runner.report import Report
from osmosis_runner.spend import Spend
from osmosis_runner.statistics import wilson


def record(row: int, run: int = 0, status: str = "success", **fields: object) -> JournalRecord:
    base: dict[str, object] = {
        "row_index": row, "run_index": run, "rollout_id": f"r{row}x{run}", "status": status, "duration_ms": 10,
    }  # fmt: skip
    return JournalRecord(**(base | fields))  # type: ignore[arg-type]


def report_of(rows: int, runs: int, records: list[JournalRecord], threshold: float = 1.0) -> Report:
    report = Report(rows, runs, threshold)
    for entry in records:
        report.add(entry)
    return report


def test_an_empty_run_has_nulls_and_no_zeros_for_what_is_unknown() -> None:
    summary = Report(3, 2, 1.0).summary()
    for name in (
        "pass_rate", "pass_rate_interval", "tokens_used", "tokens_spent", "cost_usd", "prompt_tokens", "calls",
        "max_context_tokens", "suggested_context_window", "duration_ms", "ttft_ms",
    ):  # fmt: skip
        assert summary[name] is None, name
    assert summary["total_items"] == summary["pending"] == 6
    assert summary["total_samples"] == 0
    assert "reward_stats" not in summary
    assert "pass_at_k" not in summary


def test_skipped_is_not_failed_and_failed_counts_as_not_passed() -> None:
    report = report_of(
        5, 1,
        [
            record(0, reward=1.0), record(1, reward=0.5), record(2, status="failed", error_type="timeout"),
            record(3, status="skipped", reward=1.0), record(4, reward=None),
        ],
    )  # fmt: skip
    summary = report.summary()
    assert (summary["total_samples"], summary["completed_samples"], summary["graded"]) == (5, 4, 2)
    assert (summary["passed"], summary["failed"], summary["skipped"], summary["pending"]) == (1, 1, 1, 0)
    assert summary["pass_rate"] == 0.25
    interval = wilson(1, 4)
    assert interval is not None
    assert summary["pass_rate_interval"] == {
        "low": interval.low, "high": interval.high, "level": 0.95, "method": "wilson",
    }  # fmt: skip
    assert summary["error_types"] == {"timeout": 1}
    assert list(report.items_with("failed")) == [(2, 0)]
    assert list(report.items_with("skipped")) == [(3, 0)]
    assert list(report.items_with("success")) == [(0, 0), (1, 0), (4, 0)]


def test_the_threshold_decides_what_passes() -> None:
    records = [record(row, reward=row / 4) for row in range(5)]
    assert report_of(5, 1, records, 0.5).live().passed == 3
    assert report_of(5, 1, records, 0.0).live().passed == 5


def test_a_later_record_replaces_the_earlier_one_but_its_cost_stays() -> None:
    report = report_of(
        1, 1,
        [
            record(0, status="failed", tokens=100, cost_usd=0.5, error_type="timeout", max_context_tokens=90),
            record(0, status="cancelled", tokens=7),
            record(0, reward=1.0, tokens=30, max_context_tokens=20),
        ],
    )  # fmt: skip
    report.add_spend(Spend(attempts=1, tokens=3))
    summary = report.summary()
    assert (summary["tokens_used"], summary["tokens_spent"], summary["attempts_spent"]) == (30, 140, 4)
    assert (summary["cost_usd"], summary["cost_spent_usd"]) == (None, 0.5)
    assert (summary["failed"], summary["passed"], summary["total_samples"]) == (0, 1, 1)
    assert summary["error_types"] == {}
    assert summary["max_context_tokens"] == {"max": 20, "p50": 20, "p95": 20, "p99": 20}


def test_live_figures_agree_with_the_summary() -> None:
    report = report_of(
        4,
        1,
        [
            record(0, reward=1.0, tokens=5, cost_usd=0.25),
            record(1, status="failed"),
            record(2, status="skipped"),
        ],
    )
    live, summary = report.live(), report.summary()
    assert (live.total, live.done, live.succeeded, live.failed, live.skipped, live.passed) == (
        4,
        3,
        1,
        1,
        1,
        1,
    )
    assert live.pass_rate == summary["pass_rate"] == 0.5
    assert live.tokens_used == summary["tokens_used"] == 5
    assert live.cost_usd == summary["cost_usd"] == 0.25
    assert summary["samples_without_usage"] == 2


def test_attempts_give_every_k_and_the_consistency_of_rows() -> None:
    rewards = {0: [1, 1, 1], 1: [1, 0, 0], 2: [0, 0, 0]}
    records = [
        record(row, run, reward=float(r)) for row, runs in rewards.items() for run, r in enumerate(runs)
    ]
    summary = report_of(3, 3, records).summary()
    at = {point["k"]: point["value"] for point in summary["pass_at_k"]}  # type: ignore[union-attr,index]
    hat = {point["k"]: point["value"] for point in summary["pass_hat_k"]}  # type: ignore[union-attr,index]
    assert at == pytest.approx({1: 4 / 9, 2: (1 + 2 / 3 + 0) / 3, 3: 2 / 3})
    assert hat == pytest.approx({1: 4 / 9, 2: 1 / 3, 3: 1 / 3})
    assert summary["row_consistency"] == {"all_passed": 1, "some_passed": 1, "none_passed": 1}
    assert summary["n_runs"] == 3
    assert all({"low", "high", "rows"} <= set(point) for point in summary["pass_at_k"])  # type: ignore[union-attr,arg-type]


def test_skipped_and_pending_attempts_are_left_out_of_pass_at_k() -> None:
    summary = report_of(
        2, 4, [record(0, 0, reward=1.0), record(0, 1, status="skipped"), record(1, 0, reward=0.0)]
    ).summary()
    assert [(point["k"], point["value"], point["rows"]) for point in summary["pass_at_k"]] == [(1, 0.5, 2)]  # type: ignore[union-attr,index]


def test_reward_statistics_are_those_of_the_rewards() -> None:
    summary = report_of(
        5, 1, [record(row, reward=value) for row, value in enumerate([0.0, 1.0, 0.5, 1.0, 0.25])]
    ).summary()
    stats = summary["reward_stats"]
    assert isinstance(stats, dict)
    assert (stats["mean"], stats["median"], stats["min"], stats["max"]) == (0.55, 0.5, 0.0, 1.0)
    assert stats["std"] == pytest.approx(0.4)
    assert (stats["p5"], stats["p25"], stats["p75"], stats["p95"]) == (0.0, 0.25, 1.0, 1.0)
    assert stats["mean_interval"]["method"] == "bootstrap"  # type: ignore[index,call-overload]
    one = report_of(1, 1, [record(0, reward=0.5)]).summary()["reward_stats"]
    assert isinstance(one, dict)
    assert one["std"] == 0.0
    assert one["mean_interval"] is None


def test_percentiles_and_the_window_come_from_the_selected_attempts() -> None:
    records = [
        record(row, max_context_tokens=row + 1, duration_ms=row, ttft_ms=float(row)) for row in range(100)
    ]
    summary = report_of(100, 1, records).summary()
    assert summary["max_context_tokens"] == {"max": 100, "p50": 50, "p95": 95, "p99": 99}
    assert summary["suggested_context_window"] == 1024
    assert summary["duration_ms"] == {"max": 99, "p50": 49, "p90": 89, "p95": 94, "p99": 98}
    assert summary["ttft_ms"] == {"max": 99.0, "p50": 49.0, "p90": 89.0, "p95": 94.0, "p99": 98.0}


def test_the_order_of_records_does_not_matter() -> None:
    source = random.Random(3)
    records = [
        record(row, run, "failed" if source.random() < 0.2 else "success", reward=source.choice([0.0, 0.5, 1.0]),
               tokens=source.randrange(100), cost_usd=source.random(), max_context_tokens=source.randrange(100))
        for row in range(20) for run in range(3)
    ]  # fmt: skip
    first = report_of(20, 3, records).summary()
    shuffled = source.sample(records, len(records))
    second = report_of(20, 3, shuffled).summary()
    assert {**first, "cost_spent_usd": None} == {**second, "cost_spent_usd": None}
    assert first["cost_spent_usd"] == pytest.approx(second["cost_spent_usd"])


def test_the_light_summary_says_the_same_without_a_pass_over_the_items() -> None:
    report = report_of(4, 2, [record(row, run, reward=float(run)) for row in range(4) for run in range(2)])
    full, light = report.summary(), report.summary(full=False)
    assert set(light) < set(full)
    for name, value in light.items():
        if name not in {"pass_at_k", "pass_hat_k"}:
            assert full[name] == value


def test_a_summary_is_json_and_an_item_of_another_run_an_error() -> None:
    json.dumps(report_of(1, 1, [record(0, reward=1.0)]).summary(), allow_nan=False)
    for row, run in ((1, 0), (0, 1)):
        with pytest.raises(ValueError, match="no item of this run"):
            report_of(1, 1, [record(row, run)])


def test_endless_kinds_of_errors_are_counted_as_other() -> None:
    report = report_of(
        1_500, 1, [record(row, status="failed", error_type=f"kind{row}") for row in range(1_500)]
    )
    counts = report.summary()["error_types"]
    assert isinstance(counts, dict)
    assert len(counts) == 1_000
    assert counts["other"] == 501
    assert next(iter(counts)) == "other"
