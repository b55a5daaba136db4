"""Ledger records to the figures of a trajectory. Estimates never enter; unknown stays absent. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osmosis_runner.jsontext import JsonObject, JsonValue

_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_KEPT = ("ttft_ms", "duration_ms", "call_id", "served_model", "system_fingerprint")


def call_metrics(call: Mapping[str, JsonValue]) -> JsonObject:
    """Return what one call's record says for its step; usage also in the shape providers send it."""
    usage = _usage(call)
    found: JsonObject = {name: value for name in _TOKENS if (value := _whole(usage.get(name))) is not None}
    details = usage.get("prompt_tokens_details")
    cached = _whole(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    if cached is not None:
        found.setdefault("cached_tokens", cached)
    cost = _number(call.get("cost_usd"))
    if cost is not None:
        found["cost_usd"] = cost
    extra: JsonObject = {name: call[name] for name in _KEPT if name in call}
    if (context := context_tokens(call)) is not None:
        extra["context_tokens"] = context
    if (reasoning := _whole(usage.get("reasoning_tokens"))) is not None:
        extra["reasoning_tokens"] = reasoning
    if extra:
        found["extra"] = extra
    return found


def context_tokens(call: Mapping[str, JsonValue]) -> int | None:
    """Return the context one call needed: prompt + completion, or the provider's total where that is larger."""
    usage = _usage(call)
    parts = [_whole(usage.get("prompt_tokens")), _whole(usage.get("completion_tokens"))]
    known = [part for part in parts if part is not None]
    total = _whole(usage.get("total_tokens"))
    candidates = ([sum(known)] if known else []) + ([total] if total is not None else [])
    return max(candidates, default=None)


def figures_of(calls: Sequence[Mapping[str, JsonValue]]) -> tuple[JsonObject, JsonObject]:
    """Return `final_metrics` over all calls of a rollout, and its `extra`."""
    figures: JsonObject = {}
    for name in _TOKENS:
        known = [value for call in calls if (value := _whole(_usage(call).get(name))) is not None]
        if known:
            figures[f"total_{name}"] = sum(known)
    costs = [cost for call in calls if (cost := _number(call.get("cost_usd"))) is not None]
    if costs:
        figures["total_cost_usd"] = sum(costs)
    extra: JsonObject = {"calls": len(calls)}
    contexts = [context for call in calls if (context := context_tokens(call)) is not None]
    if contexts:
        extra["max_context_tokens"] = max(contexts)
    missing = sum(not _usage(call) for call in calls)
    if missing:
        extra["calls_without_usage"] = missing
    return figures, extra


def _usage(call: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    usage = call.get("usage")
    if call.get("usage_source", "provider") != "provider" or not isinstance(usage, Mapping):
        return {}
    return usage


def _whole(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
