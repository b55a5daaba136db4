from __future__ import annotations

from typing import Any

from osmosis_runner.totals import Totals, totals_of


def call(source: str | None = "provider", cost: float | None = None, **usage: int) -> dict[str, Any]:
    return {"usage": usage or None, "usage_source": source, **({} if cost is None else {"cost_usd": cost})}


def test_the_totals_are_those_that_the_bridge_would_have_told() -> None:
    calls = [
        call(prompt_tokens=10, completion_tokens=3, total_tokens=13, cached_tokens=4, cost=0.5),
        call(prompt_tokens=20, completion_tokens=5, cost=0.25),
        call(total_tokens=100),
        call("estimated", prompt_tokens=1000),
        call("missing"),
        call(None),
    ]
    assert totals_of(calls) == Totals(
        calls=6,
        tokens=138,
        max_context_tokens=100,
        prompt_tokens=30,
        completion_tokens=8,
        cached_tokens=4,
        calls_without_usage=1,
        cost_usd=0.75,
    )


def test_what_nobody_told_is_unknown() -> None:
    assert totals_of([]) == Totals()
    assert totals_of([call("missing")]).tokens is None
