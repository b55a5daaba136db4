from __future__ import annotations

import itertools
import math
import random
import statistics as standard

import pytest

from osmosis_runner.statistics import (
    curve,
    effective_scored,
    listed_ks,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    pass_rate_interval,
    percentile,
    suggested_context_window,
    wilson,
)


@pytest.mark.parametrize(
    ("passed", "scored", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (1, 1, 0.2065, 1.0),
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_wilson_agrees_with_published_values(passed: int, scored: int, low: float, high: float) -> None:
    found = wilson(passed, scored)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_nothing_scored_has_no_interval() -> None:
    assert wilson(0, 0) is None
    assert pass_rate_interval({}) is None
    assert pass_rate_interval({(0, 0): 5}) is None


def brute(attempts: int, passed: int, k: int, combine) -> float:
    draws = list(itertools.combinations([True] * passed + [False] * (attempts - passed), k))
    return sum(combine(draw) for draw in draws) / len(draws)


@pytest.mark.parametrize("attempts", range(1, 8))
def test_pass_at_k_and_pass_hat_k_are_the_share_of_all_draws(attempts: int) -> None:
    for passed, k in itertools.product(range(attempts + 1), range(1, attempts + 1)):
        assert pass_at_k(attempts, passed, k) == pytest.approx(brute(attempts, passed, k, any))
        assert pass_hat_k(attempts, passed, k) == pytest.approx(brute(attempts, passed, k, all))


def test_k_beyond_the_attempts_is_not_defined_and_not_listed() -> None:
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(2, 0, 4)
    assert [point.k for point in curve({(2, 0): 5}, pass_at_k)] == [1, 2]


def test_every_k_is_listed_up_to_128_and_then_powers_of_two() -> None:
    assert listed_ks(5) == [1, 2, 3, 4, 5]
    assert listed_ks(300) == [*range(1, 129), 256, 300]
    assert listed_ks(0) == []


def test_a_curve_is_the_mean_over_rows_with_enough_attempts() -> None:
    points = curve({(4, 2): 3, (4, 0): 1, (2, 2): 1}, pass_at_k)
    assert [(point.k, point.rows) for point in points] == [(1, 5), (2, 5), (3, 4), (4, 4)]
    assert points[0].value == pytest.approx((3 * 0.5 + 0 + 1) / 5)
    assert points[3].value == pytest.approx(3 / 4)
    assert all(point.interval is not None for point in points)
    assert curve({}, pass_at_k) == []


def test_one_row_has_no_interval_and_equal_rewards_tell_nothing_of_others() -> None:
    assert [point.interval for point in curve({(3, 1): 1}, pass_at_k)] == [None] * 3
    assert mean_interval([0.5]) is None
    assert mean_interval([]) is None
    assert mean_interval([0.5, 0.5, 0.5]) is None


@pytest.mark.parametrize(("rows", "low"), [(2, 0.342), (5, 0.566), (30, 0.886), (1000, 0.996)])
def test_rows_that_all_agree_leave_room_for_one_that_does_not(rows: int, low: float) -> None:
    for at_k in (pass_at_k, pass_hat_k):
        for point in curve({(3, 3): rows - 1, (4, 4): 1}, at_k)[:3]:
            assert (point.value, point.method) == (1.0, "wilson")
            assert point.interval is not None
            assert (round(point.interval.low, 3), point.interval.high) == (low, 1.0)
        [first, *_] = curve({(3, 0): rows}, at_k)
        assert first.interval is not None
        assert (first.interval.low, round(first.interval.high, 3)) == (0.0, round(1 - low, 3))


def test_an_interval_of_rows_that_agree_covers_the_truth_as_often_as_it_says() -> None:
    for rows in (2, 10, 50):
        [first, *_] = curve({(2, 2): rows}, pass_at_k)
        assert first.interval is not None
        # Were the truth just below the interval, all rows would agree less often than once in twenty.
        assert first.interval.low**rows < 0.12
    [half, last] = curve({(2, 1): 10}, pass_at_k)
    assert half.interval == wilson(5, 10)
    assert last.interval == wilson(10, 10)
    assert {point.method for point in curve({(2, 1): 10, (2, 0): 10}, pass_at_k)} == {"bootstrap"}


def test_the_same_input_gives_the_same_interval() -> None:
    tally = {(4, 1): 7, (4, 3): 9, (4, 0): 4}
    assert curve(tally, pass_at_k) == curve(dict(reversed(tally.items())), pass_at_k)
    values = [float(value % 7) for value in range(50)]
    assert mean_interval(values) == mean_interval(reversed(values))


@pytest.mark.parametrize("rows", [40, 3_000])
def test_the_bootstrap_agrees_with_the_textbook_one(rows: int) -> None:
    source = random.Random(5)
    values = [float(source.random() < 0.3) + float(source.random() < 0.2) for _ in range(rows)]
    found = mean_interval(values)
    plain = sorted(standard.fmean(source.choices(values, k=rows)) for _ in range(1_000))
    spread = standard.pstdev(values) / math.sqrt(rows)
    assert found is not None
    assert found.low == pytest.approx(plain[25], abs=0.5 * spread)
    assert found.high == pytest.approx(plain[974], abs=0.5 * spread)


def test_very_many_distinct_values_take_the_normal_limit() -> None:
    values = [float(value) for value in range(20_000)]
    found = mean_interval(values)
    mean, error = 9999.5, standard.stdev(values) / math.sqrt(20_000)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), rel=1e-4)


def test_a_bootstrap_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    source = random.Random(11)
    covered = 0
    for _ in range(60):
        tally: dict[tuple[int, int], int] = {}
        for _ in range(60):
            kind = (4, sum(source.random() < 0.4 for _ in range(4)))
            tally[kind] = tally.get(kind, 0) + 1
        interval = curve(tally, pass_at_k)[0].interval
        assert interval is not None
        covered += interval.low <= 0.4 <= interval.high
    assert 51 <= covered <= 60


def test_attempts_that_are_alike_within_rows_are_worth_one_each() -> None:
    assert effective_scored({(50, 50): 10, (50, 0): 10}) == pytest.approx(19, abs=1)
    assert effective_scored({(1, 1): 30, (1, 0): 70}) == 100
    assert effective_scored({(4, 2): 100}) == 400
    assert effective_scored({(4, 4): 5}) == 5
    assert effective_scored({(50, 25): 1}) == 1


def test_two_rows_of_fifty_attempts_tell_less_than_fifty_rows_of_two() -> None:
    few = pass_rate_interval({(50, 50): 1, (50, 0): 1})
    many = pass_rate_interval({(2, 2): 20, (2, 0): 20, (2, 1): 10})
    assert few is not None
    assert many is not None
    assert few.high - few.low > 2 * (many.high - many.low)


def test_one_attempt_a_row_gives_the_plain_wilson_interval() -> None:
    assert pass_rate_interval({(1, 1): 5, (1, 0): 5}) == wilson(5, 10)
    assert pass_rate_interval({(1, 1): 10}) == wilson(10, 10)


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.0, 1), (0.5, 50), (0.95, 95), (0.951, 96), (0.99, 99), (1.0, 100)]
)
def test_a_percentile_is_the_nearest_rank(share: float, wanted: int) -> None:
    assert percentile(range(1, 101), share) == wanted


def test_percentiles_of_few_values_are_values_that_occurred() -> None:
    assert percentile([], 0.5) is None
    assert percentile([7], 0.99) == 7
    assert percentile([1, 9], 0.5) == 1
    assert percentile([1, 9], 0.51) == 9


@pytest.mark.parametrize(
    ("largest", "window"),
    [
        (None, None),
        (0, 1024),
        (975, 1024),
        (976, 1536),
        (1536, 2048),
        (2000, 3072),
        (30_000, 32_768),
        (190_000, 262_144),
    ],
)
def test_the_suggested_window_holds_the_largest_context_and_some_more(
    largest: int | None, window: int | None
) -> None:
    assert suggested_context_window(largest) == window


def test_many_kinds_of_rows_take_bounded_time() -> None:
    tally = {(100, passed): 1 + passed % 3 for passed in range(101)}
    assert len(curve(tally, pass_hat_k)) == 100
