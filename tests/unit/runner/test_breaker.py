from __future__ import annotations

from osmosis_runner.breaker import SUSPICIOUS, Breaker


def test_the_provider_is_suspected_after_enough_failures_in_a_row() -> None:
    breaker: Breaker[int] = Breaker()
    assert [breaker.provider_failed(number) for number in range(SUSPICIOUS)] == [False] * 4 + [True]


def test_what_is_released_is_no_longer_held_and_the_count_begins_anew() -> None:
    breaker: Breaker[int] = Breaker(threshold=2)
    breaker.provider_failed(1)
    assert breaker.release() == [1]
    assert breaker.held == []
    assert not breaker.provider_failed(2)
    assert breaker.provider_failed(3)
