"""The figures of a run: intervals, pass@k, pass^k, percentiles. Pure; the same input gives the same output.

Unknown is None, never zero: a statistic without enough values is absent. Rows are what is sampled: attempts at one row
resemble each other, so every interval treats the row as the unit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Literal, TypeVar

import msgspec

LEVEL = 0.95
Z = 1.959963984540054
"""Two-sided normal quantile of `LEVEL`."""

RESAMPLES = 1_000
FEWEST_RESAMPLES = 200
RESAMPLING_WORK = 2_000_000
"""Terms that all resamples of one bootstrap may add up, so that its cost does not grow with the run."""

LARGEST_LISTED_K = 128

Tally = Mapping[tuple[int, int], int]
"""How many rows had (attempts that were scored, attempts that passed)."""

_Number = TypeVar("_Number", int, float)


class Interval(msgspec.Struct, frozen=True):
    """A two-sided confidence interval."""

    low: float
    high: float


class Estimate(msgspec.Struct, frozen=True):
    """A statistic at k attempts with its interval over rows (None under two rows)."""

    k: int
    value: float
    rows: int
    """Rows that had at least k attempts."""
    interval: Interval | None
    method: Literal["bootstrap", "wilson"] = "bootstrap"


def wilson(passed: float, scored: float, z: float = Z) -> Interval | None:
    """Return the Wilson score interval of `passed` of `scored`; None when nothing was scored."""
    if scored <= 0:
        return None
    share = passed / scored
    spread = z * math.sqrt(share * (1 - share) / scored + z * z / (4 * scored * scored))
    middle = share + z * z / (2 * scored)
    scale = 1 + z * z / scored
    low = 0.0 if passed <= 0 else max(0.0, (middle - spread) / scale)
    high = 1.0 if passed >= scored else min(1.0, (middle + spread) / scale)
    return Interval(low, high)


def effective_scored(tally: Tally) -> float:
    """Return the number of independent attempts that the scored ones are worth.

    Scored attempts over the design effect of clustering by row: between the number of rows (attempts of a row all
    alike) and the number of attempts. Where all attempts passed or none did, nothing tells how alike they are, and
    the number of rows is returned.
    """
    rows = sum(count for (attempts, _), count in tally.items() if attempts)
    scored = sum(attempts * count for (attempts, _), count in tally.items())
    passed = sum(passes * count for (_, passes), count in tally.items())
    if rows == scored:
        return float(scored)
    share = passed / scored
    if rows < 2 or passed in {0, scored}:
        return float(rows)
    between = sum((passes - attempts * share) ** 2 * count for (attempts, passes), count in tally.items())
    clustered = between / scored**2 * rows / (rows - 1)
    independent = share * (1 - share) / scored
    return min(float(scored), max(1.0, scored * independent / clustered)) if clustered else float(scored)


def pass_rate_interval(tally: Tally) -> Interval | None:
    """Return the Wilson interval of the share of passes, with the effective number of attempts."""
    scored = sum(attempts * count for (attempts, _), count in tally.items())
    if not scored:
        return None
    passed = sum(passes * count for (_, passes), count in tally.items())
    worth = effective_scored(tally)
    return wilson(passed / scored * worth if passed < scored else worth, worth)


def pass_at_k(attempts: int, passed: int, k: int) -> float:
    """Unbiased chance that one of k drawn attempts passes: 1 - C(n-c, k) / C(n, k), for k <= n."""
    _check_k(attempts, passed, k)
    return 1.0 - math.comb(attempts - passed, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, passed: int, k: int) -> float:
    """Unbiased chance that all of k drawn attempts pass: C(c, k) / C(n, k), for k <= n."""
    _check_k(attempts, passed, k)
    return math.comb(passed, k) / math.comb(attempts, k)


def listed_ks(attempts: int) -> list[int]:
    """Return every k up to `attempts` (beyond 128: powers of two and `attempts` itself)."""
    ks = set(range(1, min(attempts, LARGEST_LISTED_K) + 1))
    ks.update(2**power for power in range(attempts.bit_length()))
    return sorted(k for k in ks | {attempts} if 0 < k <= attempts)


def curve(
    tally: Tally, at_k: Callable[[int, int, int], float], seed: int = 0, *, intervals: bool = True
) -> list[Estimate]:
    """Return `at_k` (`pass_at_k` or `pass_hat_k`) for every listed k: the mean over rows with at least k attempts.

    Its interval is a bootstrap over rows; where all of them agree, the Wilson interval of as many rows.
    """
    kinds = sorted((kind, count) for kind, count in tally.items() if kind[0] and count)
    if not kinds:
        return []
    ks = listed_ks(max(attempts for (attempts, _), _ in kinds))
    terms = {
        k: [(place, at_k(*kind, k)) for place, (kind, _) in enumerate(kinds) if kind[0] >= k] for k in ks
    }
    counts = [count for _, count in kinds]
    work = sum(map(len, terms.values()))
    samples = _resample(counts, work, seed) if intervals and sum(counts) > 1 else []
    return [_estimate(k, terms[k], counts, samples) for k in ks]


def mean_interval(values: Iterable[float], seed: int = 0) -> Interval | None:
    """Bootstrap interval of the mean of `values` (one per row); None under two values, or where all are equal.

    Equal values tell nothing of how far others may lie, since a reward has no bounds.

    With more distinct values than the bootstrap may resample, its limit is used: the normal interval of the mean.
    """
    counted = Counter(values)
    total = sum(counted.values())
    if total < 2:
        return None
    kinds = sorted(counted.items())
    if len(kinds) == 1:
        return None
    if len(kinds) * FEWEST_RESAMPLES > RESAMPLING_WORK:
        return _normal_interval(kinds, total)
    terms = [(place, value) for place, (value, _) in enumerate(kinds)]
    samples = _resample([count for _, count in kinds], len(kinds), seed)
    return _percentile_interval(terms, samples)


def percentile(ordered: Sequence[_Number], share: float) -> _Number | None:
    """Nearest-rank percentile of ascending values, `share` in 0..1: always a value that occurred; None for none."""
    if not ordered:
        return None
    # Rounded, so that 0.95 * 100 is the 95th value and not, by a last binary digit, the 96th.
    return ordered[max(0, math.ceil(round(share * len(ordered), 9)) - 1)]


def suggested_context_window(largest: int | None) -> int | None:
    """Smallest usual training window (2^i or 3 * 2^i, from 1,024) that holds `largest` tokens and 5 % more."""
    if largest is None:
        return None
    needed = math.ceil(largest * 1.05)
    window = 1_024
    while window < needed:
        # 1024 -> 1536 -> 2048 -> 3072 -> ...
        window = window * 3 // 2 if window & (window - 1) == 0 else window * 4 // 3
    return window


def _check_k(attempts: int, passed: int, k: int) -> None:
    if not (0 < k <= attempts and 0 <= passed <= attempts):
        raise ValueError(f"not defined for k={k} with {passed} of {attempts} attempts passed")


def _estimate(
    k: int, terms: list[tuple[int, float]], counts: list[int], samples: list[list[int]]
) -> Estimate:
    rows = sum(counts[place] for place, _ in terms)
    value = math.fsum(counts[place] * part for place, part in terms) / rows
    if rows < 2 or not samples:
        return Estimate(k, value, rows, None)
    if all(part == terms[0][1] for _, part in terms):
        # Rows that all agree would be drawn the same each time, as if nothing else could happen. A share of at most
        # one varies no more than yes and no with the same mean do, so the interval of those covers it.
        return Estimate(k, value, rows, wilson(value * rows, rows), "wilson")
    return Estimate(k, value, rows, _percentile_interval(terms, samples))


def _percentile_interval(terms: list[tuple[int, float]], samples: list[list[int]]) -> Interval | None:
    means: list[float] = []
    for counts in samples:
        rows = sum(counts[place] for place, _ in terms)
        # A resample without one row that counts says nothing about the statistic.
        if rows:
            means.append(math.fsum(counts[place] * part for place, part in terms) / rows)
    if not means:
        return None
    means.sort()
    edge = (1 - LEVEL) / 2
    return Interval(
        means[math.floor(edge * len(means))], means[min(len(means), math.ceil((1 - edge) * len(means))) - 1]
    )


def _normal_interval(kinds: list[tuple[float, int]], total: int) -> Interval:
    mean = math.fsum(value * count for value, count in kinds) / total
    squares = math.fsum((value - mean) ** 2 * count for value, count in kinds)
    margin = Z * math.sqrt(squares / (total - 1) / total)
    return Interval(mean - margin, mean + margin)


def _resample(counts: list[int], work: int, seed: int) -> list[list[int]]:
    """Draw rows with replacement, as counts per kind of row: a multinomial draw for each resample."""
    random = Random(seed)  # noqa: S311 - statistics, not secrets
    times = max(FEWEST_RESAMPLES, min(RESAMPLES, RESAMPLING_WORK // max(1, work)))
    return [_multinomial(random, counts) for _ in range(times)]


def _multinomial(random: Random, counts: list[int]) -> list[int]:
    remaining = mass = sum(counts)
    drawn: list[int] = []
    for count in counts[:-1]:
        part = _binomial(random, remaining, count / mass) if mass else 0
        drawn.append(part)
        remaining -= part
        mass -= count
    drawn.append(remaining)
    return drawn


def _binomial(random: Random, trials: int, chance: float) -> int:
    """Draw the number of successes; exact below 30 expected ones, beyond it the rounded normal draw."""
    if chance > 0.5:
        return trials - _binomial(random, trials, 1 - chance)
    if trials <= 0 or chance <= 0:
        return 0
    expected = trials * chance
    if expected >= 30:
        drawn = round(random.gauss(expected, math.sqrt(expected * (1 - chance))))
        return min(trials, max(0, drawn))
    return _binomial_by_gaps(random, trials, chance)


def _binomial_by_gaps(random: Random, trials: int, chance: float) -> int:
    """Jump from success to success: the gaps are geometric, so the time is that of the successes only."""
    scale = math.log1p(-chance)
    place = successes = 0
    while True:
        place += int(math.log(1.0 - random.random()) / scale) + 1
        if place > trials:
            return successes
        successes += 1
