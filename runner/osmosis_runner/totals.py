"""What the calls of one rollout used: as the bridge says when it is closed, or from its ledger when it cannot. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec


class Totals(msgspec.Struct, frozen=True, gc=False):
    """What the calls of one rollout used; None is unknown."""

    calls: int = 0
    tokens: int | None = None
    max_context_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    calls_without_usage: int = 0
    cost_usd: float | None = None


def totals_of(calls: Sequence[Mapping[str, Any]]) -> Totals:
    """The totals of a rollout whose bridge is gone, from the records that it left."""
    usages: list[Mapping[str, Any]] = [
        call["usage"] for call in calls if call.get("usage_source") == "provider" and call.get("usage")
    ]
    summed = {name: _sum(usage.get(name) for usage in usages) for name in _SUMMED}
    costs = [cost for call in calls if isinstance(cost := call.get("cost_usd"), float | int)]
    return Totals(
        calls=len(calls),
        tokens=_sum(map(_total, usages)),
        max_context_tokens=max((max(_total(usage), _context(usage)) for usage in usages), default=None),
        calls_without_usage=sum(call.get("usage_source") == "missing" for call in calls),
        cost_usd=sum(costs) if costs else None,
        **summed,
    )


_SUMMED = ("prompt_tokens", "completion_tokens", "cached_tokens")


def _total(usage: Mapping[str, Any]) -> int:
    total = usage.get("total_tokens")
    return total if isinstance(total, int) else _context(usage)


def _context(usage: Mapping[str, Any]) -> int:
    return (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
