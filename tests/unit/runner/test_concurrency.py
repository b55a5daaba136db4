from __future__ import annotations

import pytest

from osmosis_runner.concurrency import places, told


@pytest.mark.parametrize(
    ("asked", "capacity", "number"),
    [(None, None, 1), (None, 32, 32), (32, None, 32), (32, 4, 4), (4, 32, 4), (None, 0, 1), (1, None, 1)],
)
def test_it_is_what_is_asked_for_within_what_the_server_takes(
    asked: int | None, capacity: int | None, number: int
) -> None:
    assert places(asked, capacity) == number


def test_fewer_than_asked_for_and_one_at_a_time_are_explained() -> None:
    assert told(9, 4, None) == told(9, 4, 32) == "running 9 work items, up to 4 in flight"
    assert "32 asked for, the rollout server takes 4" in told(9, 32, 4)
    assert "--max-in-flight" in told(9, None, None)
    assert told(9, None, 8) == "running 9 work items, up to 8 in flight"
    assert told(1, None, None) == "running 1 work items, up to 1 in flight"
