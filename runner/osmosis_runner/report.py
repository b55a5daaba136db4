"""Finished records to figures, one at a time: constant cost per record, about a hundred bytes per item.

Knows nothing of files. A record of an item replaces the item's earlier one; what both spent stays in the sums.
"""

from __future__ import annotations

import statistics
from array import array
from collections import Counter
from collections.abc import Iterator

import msgspec

from osmosis_runner.journal_record import ErrorPhase, JournalRecord, Status
from osmosis_runner.jsontext import JsonObject, JsonValue
from osmosis_runner.metrics import (
    Invocation,
    RunIdentity,
    RunStatus,
    index_line,
    metrics_payload,
    past_invocations,
)
from osmosis_runner.plan import WorkItem
from osmosis_runner.report_columns import FloatColumn, IntColumn
from osmosis_runner.spend import Spend
from osmosis_runner.statistics import (
    LEVEL,
    Estimate,
    Interval,
    curve,
    effective_scored,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    pass_rate_interval,
    percentile,
    suggested_context_window,
)

_CODES: dict[str, int] = {"success": 1, "failed": 2, "skipped": 3}
_SUCCESS, _FAILED, _SKIPPED = 1, 2, 3
_NO_ERROR = 0
_Failure = tuple[ErrorPhase | None, str]
"""Phase and type of an error."""
__all__ = [
    "Invocation",
    "Live",
    "Report",
    "RunIdentity",
    "RunStatus",
    "index_line",
    "metrics_payload",
    "past_invocations",
]

_COUNTED = ("tokens", "prompt_tokens", "completion_tokens", "cached_tokens", "calls")


class Live(msgspec.Struct, frozen=True):
    """The figures that change with every record, each known in constant time."""

    total: int
    done: int
    succeeded: int
    failed: int
    skipped: int
    passed: int
    pass_rate: float | None
    """passed / (done - skipped); None while nothing is scored."""
    tokens_used: int | None
    """Over the selected attempts: the last record of each item."""
    tokens_spent: int | None
    """Over all attempts, superseded and cancelled ones included."""
    cost_usd: float | None
    cost_spent_usd: float | None
    max_context_tokens: int | None


class Report:
    """All figures of one run of `rows` x `runs` items."""

    def __init__(self, rows: int, runs: int, pass_threshold: float) -> None:
        items = rows * runs
        self._rows = rows
        self._runs = runs
        self._threshold = pass_threshold
        self._codes = bytearray(items)
        self._errors = array("H", [_NO_ERROR]) * items
        self._error_names: dict[_Failure, int] = {}
        self._rewards = FloatColumn(items)
        self._costs = FloatColumn(items)
        self._ttft = FloatColumn(items)
        self._durations = IntColumn(items)
        self._contexts = IntColumn(items)
        self._counted = {name: IntColumn(items) for name in _COUNTED}
        self._scored_of_row = array("L", [0]) * rows
        self._passed_of_row = array("L", [0]) * rows
        self._tally: Counter[tuple[int, int]] = Counter({(0, 0): rows})
        self._status_counts = [items, 0, 0, 0]
        self._passed = 0
        self._largest_context: int | None = None
        self._spent = Spend()
        self._retries = 0
        self._retry_wait_ms = 0

    def add(self, record: JournalRecord) -> None:
        """Count one record; a cancelled one only adds to what was spent.

        Raises `ValueError` for an item that the run does not have.
        """
        if record.row_index >= self._rows or record.run_index >= self._runs:
            raise ValueError(f"row {record.row_index} run {record.run_index} is no item of this run")
        self._spent = self._spent.plus(record)
        self._retries += record.provider_retries or 0
        self._retry_wait_ms += record.retry_wait_ms or 0
        if record.status == "cancelled":
            return
        slot = record.row_index * self._runs + record.run_index
        self._count_status(slot, record)
        self._errors[slot] = self._error_code(record)
        self._rewards.put(slot, None if record.status == "skipped" else record.reward)
        self._costs.put(slot, record.cost_usd)
        self._ttft.put(slot, record.ttft_ms)
        self._durations.put(slot, record.duration_ms)
        self._contexts.put(slot, record.max_context_tokens)
        for name, column in self._counted.items():
            column.put(slot, getattr(record, name))
        if record.max_context_tokens is not None:
            self._largest_context = max(self._largest_context or 0, record.max_context_tokens)

    @property
    def spent(self) -> Spend:
        """What all attempts spent so far."""
        return self._spent

    def add_spend(self, spend: Spend) -> None:
        """Add what no record tells: attempts killed with the runner, calls that ended after their rollout."""
        self._spent = self._spent.plus(spend)

    def live(self) -> Live:
        """Return the running figures in constant time."""
        _, succeeded, failed, skipped = self._status_counts
        scored = succeeded + failed
        return Live(
            total=self._rows * self._runs,
            done=scored + skipped,
            succeeded=succeeded,
            failed=failed,
            skipped=skipped,
            passed=self._passed,
            pass_rate=self._passed / scored if scored else None,
            tokens_used=self._counted["tokens"].total,
            tokens_spent=self._spent.tokens,
            cost_usd=self._costs.running_total,
            cost_spent_usd=self._spent.cost_usd,
            max_context_tokens=self._largest_context,
        )

    def items_with(self, status: Status) -> Iterator[WorkItem]:
        """Yield the items whose last record has `status`, in order."""
        code = _CODES[status]
        slot = self._codes.find(code)
        while slot >= 0:
            yield WorkItem(*divmod(slot, self._runs))
            slot = self._codes.find(code, slot + 1)

    def summary(self, *, full: bool = True) -> JsonObject:
        """Return `metrics.summary`; without `full` only what does not take a pass over all items."""
        found = self._counts_summary()
        found.update(self._attempts_summary(full=full))
        found.update(self._totals_summary(full=full))
        if full:
            found.update(self._distributions())
        return found

    def _count_status(self, slot: int, record: JournalRecord) -> None:
        row, before, now = record.row_index, self._codes[slot], _CODES[record.status]
        passed_before = self._passes(before, slot)
        passed_now = now == _SUCCESS and record.reward is not None and record.reward >= self._threshold
        self._status_counts[before] -= 1
        self._status_counts[now] += 1
        self._passed += passed_now - passed_before
        self._tally[self._scored_of_row[row], self._passed_of_row[row]] -= 1
        self._scored_of_row[row] += (now in {_SUCCESS, _FAILED}) - (before in {_SUCCESS, _FAILED})
        self._passed_of_row[row] += passed_now - passed_before
        self._tally[self._scored_of_row[row], self._passed_of_row[row]] += 1
        self._codes[slot] = now

    def _passes(self, code: int, slot: int) -> bool:
        # An unknown reward is NaN, which is not at or above anything.
        return code == _SUCCESS and self._rewards.at(slot) >= self._threshold

    def _error_code(self, record: JournalRecord) -> int:
        if record.error_type is None:
            return _NO_ERROR
        kind = (record.error_phase, record.error_type)
        # Far more kinds than a person reads are counted as one, so that the table stays small.
        if kind not in self._error_names and len(self._error_names) >= 999:
            kind = (None, "other")
        return self._error_names.setdefault(kind, len(self._error_names) + 1)

    def _counts_summary(self) -> JsonObject:
        pending, succeeded, failed, skipped = self._status_counts
        scored = succeeded + failed
        tally = self._scored_tally()
        return {
            "total_items": self._rows * self._runs,
            "total_samples": scored + skipped,
            "pending": pending,
            "completed_samples": scored,
            "graded": self._rewards.known,
            "passed": self._passed,
            "failed": failed,
            "skipped": skipped,
            "pass_rate": self._passed / scored if scored else None,
            "pass_rate_interval": _interval(pass_rate_interval(tally), method="wilson"),
            "pass_threshold": self._threshold,
            "effective_samples": effective_scored(tally) if scored else None,
        }

    def _scored_tally(self) -> dict[tuple[int, int], int]:
        return {kind: count for kind, count in self._tally.items() if kind[0] and count}

    def _attempts_summary(self, *, full: bool) -> JsonObject:
        tally = self._scored_tally()
        if self._runs < 2 or not tally:
            return {"n_runs": self._runs}
        return {
            "n_runs": self._runs,
            "pass_at_k": [_estimate(point) for point in curve(tally, pass_at_k, intervals=full)],
            "pass_hat_k": [_estimate(point) for point in curve(tally, pass_hat_k, intervals=full)],
            "row_consistency": {
                "all_passed": sum(count for (scored, passed), count in tally.items() if passed == scored),
                "some_passed": sum(count for (scored, passed), count in tally.items() if 0 < passed < scored),
                "none_passed": sum(count for (_, passed), count in tally.items() if not passed),
            },
        }

    def _totals_summary(self, *, full: bool) -> JsonObject:
        _, succeeded, failed, skipped = self._status_counts
        counted = {name: column.total for name, column in self._counted.items()}
        return {
            "tokens_used": counted["tokens"],
            "tokens_spent": self._spent.tokens,
            "attempts_spent": self._spent.attempts,
            "samples_without_usage": succeeded + failed + skipped - self._counted["tokens"].known,
            "prompt_tokens": counted["prompt_tokens"],
            "completion_tokens": counted["completion_tokens"],
            "cached_tokens": counted["cached_tokens"],
            "calls": counted["calls"],
            "cost_usd": self._costs.total if full else self._costs.running_total,
            "cost_spent_usd": self._spent.cost_usd,
            "provider_retries": self._retries,
            "retry_wait_ms": self._retry_wait_ms,
        }

    def _distributions(self) -> JsonObject:
        contexts = self._contexts.ordered()
        found: JsonObject = {
            "max_context_tokens": _shares(contexts, (0.5, 0.95, 0.99)),
            "suggested_context_window": suggested_context_window(contexts[-1] if contexts else None),
            "duration_ms": _shares(self._durations.ordered(), (0.5, 0.9, 0.95, 0.99)),
            "ttft_ms": _shares(self._ttft.ordered(), (0.5, 0.9, 0.95, 0.99)),
            **self._error_counts(),
        }
        rewards = self._rewards.ordered()
        if rewards:
            found["reward_stats"] = self._reward_stats(rewards)
        return found

    def _reward_stats(self, rewards: list[float]) -> JsonObject:
        shares = {f"p{share}": percentile(rewards, share / 100) for share in (5, 25, 75, 95)}
        return {
            "mean": statistics.fmean(rewards),
            "median": statistics.median(rewards),
            "std": statistics.pstdev(rewards) if len(rewards) > 1 else 0.0,
            "min": rewards[0],
            "max": rewards[-1],
            **shares,
            "mean_interval": _interval(mean_interval(self._rewards.by_row(self._runs)), method="bootstrap"),
        }

    def _error_counts(self) -> JsonObject:
        kinds = {code: kind for kind, code in self._error_names.items()}
        counts = Counter(kinds[code] for code in self._errors if code != _NO_ERROR)
        types = Counter[str]()
        for (_, name), count in counts.items():
            types[name] += count
        listed: list[JsonValue] = [
            {"error_phase": phase, "error_type": name, "count": count}
            for (phase, name), count in counts.most_common()
        ]
        return {"error_types": dict(types.most_common()), "failures": listed}


def _interval(interval: Interval | None, method: str) -> JsonValue:
    if interval is None:
        return None
    return {"low": interval.low, "high": interval.high, "level": LEVEL, "method": method}


def _estimate(point: Estimate) -> JsonObject:
    found: JsonObject = {"k": point.k, "value": point.value, "rows": point.rows}
    if point.interval is not None:
        found |= {"low": point.interval.low, "high": point.interval.high, "method": point.method}
    return found


def _shares(ordered: list[int] | list[float], shares: tuple[float, ...]) -> JsonValue:
    if not ordered:
        return None
    found: JsonObject = {"max": ordered[-1]}
    found.update({f"p{round(share * 100)}": percentile(ordered, share) for share in shares})
    return found
