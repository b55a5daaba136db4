"""The figures of metrics.json as labels and words; what is not there is not shown.

It reads the `summary` object by name and computes nothing. It knows no file and no terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from osmosis_cli.figures import UNKNOWN, amount, counted, duration, money, percent, value
from osmosis_runner.failure_words import failure_words

Row = tuple[str, str]

ALL_K = 8
"""Up to this many attempts every k is shown, beyond it the powers of two and the last."""


def number(source: object, *path: str) -> float | None:
    """The number at `path` inside nested objects; None where there is none."""
    for name in path:
        if not isinstance(source, Mapping):
            return None
        source = cast("Mapping[str, object]", source).get(name)
    return source if isinstance(source, int | float) and not isinstance(source, bool) else None


def measure_rows(summary: Mapping[str, object]) -> list[Row]:
    """Pass rate, reward, pass@k, tokens, context, latency and cost of a run, as far as they are known."""
    estimates = [
        ("pass@k", _at_k(summary, "pass_at_k", "pass@")),
        ("pass^k", _at_k(summary, "pass_hat_k", "pass^")),
        ("Row Consistency", _consistency(summary)),
    ]
    found = [
        ("Pass Rate", _pass_rate(summary)),
        ("Reward", _reward(summary)),
        *(() if none_succeeded(summary) else estimates),
        ("Failures", _failures(summary)),
        ("Provider Retries", _retries(summary)),
        ("Tokens Used", _tokens(summary)),
        ("Max Context Tokens", _context(summary)),
        ("Time per Item", _latency(summary)),
        ("Cost", _cost(summary)),
    ]
    return [(label, text) for label, text in found if text]


def none_succeeded(summary: Mapping[str, object]) -> bool:
    """Whether items have ended and every one failed: then no rate was measured, only that nothing works."""
    scored, failed = number(summary, "completed_samples"), number(summary, "failed")
    return bool(scored) and failed is not None and failed >= (scored or 0) and not number(summary, "passed")


def _pass_rate(summary: Mapping[str, object]) -> str:
    scored = number(summary, "completed_samples")
    if not scored:
        skipped = number(summary, "skipped")
        return "no item scored" + (f" ({amount(skipped)} skipped)" if skipped else " yet")
    if none_succeeded(summary):
        return f"no item passed ({amount(scored)} scored, all failed)"
    threshold = value(number(summary, "pass_threshold"))
    rate, passed = percent(number(summary, "pass_rate")), amount(number(summary, "passed"))
    between = _between(summary.get("pass_rate_interval"))
    interval = f"; 95% interval {between}" if between else ""
    return f"{rate} ({passed}/{amount(scored)} scored, threshold {threshold}){interval}"


def _between(interval: object) -> str:
    low, high = number(interval, "low"), number(interval, "high")
    return "" if low is None or high is None else f"{percent(low)} to {percent(high)}"


def _reward(summary: Mapping[str, object]) -> str:
    stats = _listed(summary.get("reward_stats"), ("mean", "median", "min", "max"), value)
    scored, failed, graded = (number(summary, name) for name in ("completed_samples", "failed", "graded"))
    # A failed item may carry a reward; those that ended well and carry none are at least so many.
    missing = int((scored or 0) - (failed or 0) - graded) if graded is not None else 0
    told = f"{counted(missing, 'item')} ended without a reward" if missing > 0 else ""
    return "; ".join(part for part in (stats, told) if part)


def _listed(source: object, names: Sequence[str], words: Callable[[float | None], str]) -> str:
    known = [(name, number(source, name)) for name in names]
    return ", ".join(f"{name} {words(found)}" for name, found in known if found is not None)


def _at_k(summary: Mapping[str, object], name: str, sign: str) -> str:
    points = summary.get(name)
    if not isinstance(points, Sequence) or isinstance(points, str):
        return ""
    listed = [(number(point, "k"), point) for point in cast("Sequence[object]", points)]
    # pass^1 is pass@1, and that is the pass rate.
    first = 1 if sign == "pass@" else 2
    known = [(int(k), point) for k, point in listed if k is not None and k >= first]
    last = known[-1][0] if known else 0
    shown = [(k, point) for k, point in known if last <= ALL_K or k == last or k & (k - 1) == 0]
    return " · ".join(f"{sign}{k} {_estimate(point)}" for k, point in shown)


def _estimate(point: object) -> str:
    between = _between(point)
    return percent(number(point, "value")) + (f" ({between})" if between else "")


def _consistency(summary: Mapping[str, object]) -> str:
    names = (("always pass", "all_passed"), ("sometimes", "some_passed"), ("never", "none_passed"))
    known = [(word, number(summary, "row_consistency", name)) for word, name in names]
    return ", ".join(f"{amount(found)} {word}" for word, found in known if found is not None)


def _failures(summary: Mapping[str, object]) -> str:
    """Failed items by what broke; of a run recorded before that was counted, by the kind of error."""
    listed, kinds = summary.get("failures"), summary.get("error_types")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        entries = cast("Sequence[object]", listed)
        return ", ".join(f"{_failure(entry)} {amount(number(entry, 'count'))}" for entry in entries)
    if not isinstance(kinds, Mapping):
        return ""
    named = cast("Mapping[str, object]", kinds)
    return ", ".join(f"{name} {amount(number(named, name))}" for name in named)


def _failure(entry: object) -> str:
    told: Mapping[str, object] = cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {}
    kind, phase = told.get("error_type"), told.get("error_phase")
    return failure_words(kind if isinstance(kind, str) else None, phase if isinstance(phase, str) else None)


def _retries(summary: Mapping[str, object]) -> str:
    count, waited = number(summary, "provider_retries"), number(summary, "retry_wait_ms")
    if not count:
        return ""
    return amount(count) + (f" (waited {duration(waited / 1000)} in all)" if waited else "")


def _tokens(summary: Mapping[str, object]) -> str:
    used, spent = number(summary, "tokens_used"), number(summary, "tokens_spent")
    if used is None:
        if not number(summary, "samples_without_usage"):
            return ""
        return "none: no call was answered" if number(summary, "calls") == 0 else "unknown: no usage was sent"
    parts = [("prompt", "prompt_tokens"), ("completion", "completion_tokens"), ("cached", "cached_tokens")]
    known = [(word, number(summary, name)) for word, name in parts]
    split = ", ".join(f"{word} {amount(found)}" for word, found in known if found is not None)
    text = amount(used) + (f" ({split})" if split else "")
    if missing := number(summary, "samples_without_usage"):
        text += f"; {counted(int(missing), 'item')} without usage"
    return text + (
        f"; {amount(spent)} spent over all attempts" if spent is not None and spent != used else ""
    )


def _context(summary: Mapping[str, object]) -> str:
    contexts = summary.get("max_context_tokens")
    largest = number(contexts, "max")
    if largest is None:
        return ""
    spread = _listed(contexts, ("p50", "p95", "p99"), amount)
    window = number(summary, "suggested_context_window")
    text = amount(largest) + (f" ({spread})" if spread else "")
    return text + (f"; suggested context window {amount(window)}" if window is not None else "")


def _latency(summary: Mapping[str, object]) -> str:
    names = ("p50", "p95", "max")
    whole = _listed(summary.get("duration_ms"), names, _seconds)
    first = _listed(summary.get("ttft_ms"), names, _seconds)
    return whole + (f"; to the first token {first}" if first else "")


def _seconds(milliseconds: float | None) -> str:
    return UNKNOWN if milliseconds is None else f"{milliseconds / 1000:,.2f}s"


def _cost(summary: Mapping[str, object]) -> str:
    used, spent = number(summary, "cost_usd"), number(summary, "cost_spent_usd")
    if used is None and spent is None:
        return ""
    return money(used) + (f"; {money(spent)} spent over all attempts" if spent not in (None, used) else "")
