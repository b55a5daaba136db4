from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis_runner.journal import JournalRecord
from osmosis_runner.report import Report
from replayed import fold

ROWS, RUNS = 4, 3
records = st.lists(
    st.builds(
        JournalRecord,
        row_index=st.integers(0, ROWS - 1),
        run_index=st.integers(0, RUNS - 1),
        rollout_id=st.just("r"),
        status=st.sampled_from(["success", "failed", "skipped", "cancelled"]),
        duration_ms=st.integers(0, 1000),
        reward=st.none() | st.sampled_from([0.0, 0.5, 1.0]),
        tokens=st.none() | st.integers(0, 1000),
        cost_usd=st.none() | st.sampled_from([0.25, 0.5]),
        max_context_tokens=st.none() | st.integers(0, 1000),
        error_type=st.none() | st.sampled_from(["timeout", "agent_error"]),
    ),
    max_size=40,
)


@settings(max_examples=30)
@given(records)
def test_feeding_every_attempt_equals_feeding_the_last_ones(attempts: list[JournalRecord]) -> None:
    replayed = fold(attempts)
    every, last = Report(ROWS, RUNS, 1.0), Report(ROWS, RUNS, 1.0)
    for record in attempts:
        every.add(record)
    for record in replayed.latest.values():
        last.add(record)
    spent = {"tokens_spent", "attempts_spent", "cost_spent_usd"}
    first, second = every.summary(), last.summary()
    assert {name: first[name] for name in first.keys() - spent} == {
        name: second[name] for name in second.keys() - spent
    }
    assert first["tokens_spent"] == replayed.spent.tokens
    assert first["attempts_spent"] == len(attempts)
    json.dumps(first, allow_nan=False)


@settings(max_examples=30)
@given(records)
def test_the_counts_always_add_up(attempts: list[JournalRecord]) -> None:
    report = Report(ROWS, RUNS, 1.0)
    for record in attempts:
        report.add(record)
    live, summary = report.live(), report.summary()
    latest = fold(attempts).latest.values()
    assert live.done == live.succeeded + live.failed + live.skipped == len(latest)
    assert summary["pending"] == ROWS * RUNS - live.done
    wanted = [record for record in latest if record.status == "success" and (record.reward or 0) >= 1.0]
    assert live.passed == len(wanted)
    for status in ("success", "failed", "skipped"):
        items = [item for item, record in fold(attempts).latest.items() if record.status == status]
        assert list(report.items_with(status)) == sorted(items)
    rate, interval = summary["pass_rate"], summary["pass_rate_interval"]
    if rate is not None:
        assert isinstance(interval, dict)
        low, high = interval["low"], interval["high"]
        assert isinstance(rate, float)
        assert isinstance(low, float)
        assert isinstance(high, float)
        assert 0 <= low <= rate + 1e-9
        assert rate - 1e-9 <= high <= 1
