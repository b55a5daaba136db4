from __future__ import annotations

from typing import Any

from osmosis_runner.trajectory_usage import call_metrics, context_tokens, figures_of

CALL: dict[str, Any] = {
    "call_id": "c1", "status": "ok", "usage_source": "provider", "ttft_ms": 3.5, "duration_ms": 9, "cost_usd": 0.25,
    "served_model": "m-1", "system_fingerprint": "fp", "model": "m",
    "usage": {
        "prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 16, "cached_tokens": 2, "reasoning_tokens": 1,
    },
}  # fmt: skip


def test_a_calls_record_becomes_step_metrics() -> None:
    assert call_metrics(CALL) == {
        "prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 2, "cost_usd": 0.25,
        "extra": {
            "ttft_ms": 3.5, "duration_ms": 9, "call_id": "c1", "context_tokens": 16, "reasoning_tokens": 1,
            "served_model": "m-1", "system_fingerprint": "fp",
        },
    }  # fmt: skip


def test_estimates_and_missing_usage_give_no_tokens() -> None:
    estimated = CALL | {"usage_source": "estimated"}
    assert "prompt_tokens" not in call_metrics(estimated)
    assert context_tokens(estimated) is None
    assert figures_of([estimated, {"usage_source": "missing"}]) == (
        {"total_cost_usd": 0.25},
        {"calls": 2, "calls_without_usage": 2},
    )
    assert call_metrics({}) == {}


def test_usage_in_the_providers_own_shape_is_read() -> None:
    found = call_metrics({"usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}})
    assert found == {"prompt_tokens": 3, "cached_tokens": 2, "extra": {"context_tokens": 3}}


def test_values_that_are_no_counts_are_unknown() -> None:
    for value in ("10", True, -1, 1.5, None):
        assert call_metrics({"usage": {"prompt_tokens": value}}) == {}


def test_the_context_is_the_sum_or_a_larger_total() -> None:
    assert context_tokens({"usage": {"prompt_tokens": 10, "completion_tokens": 4}}) == 14
    assert context_tokens({"usage": {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 5}}) == 14
    assert context_tokens({"usage": {"total_tokens": 20}}) == 20


def test_figures_are_sums_over_calls_and_the_largest_context() -> None:
    second = {"usage": {"prompt_tokens": 100, "completion_tokens": 1}, "usage_source": "provider"}
    assert figures_of([CALL, second]) == (
        {
            "total_prompt_tokens": 110,
            "total_completion_tokens": 5,
            "total_cached_tokens": 2,
            "total_cost_usd": 0.25,
        },
        {"calls": 2, "max_context_tokens": 101},
    )
    assert figures_of([]) == ({}, {"calls": 0})
