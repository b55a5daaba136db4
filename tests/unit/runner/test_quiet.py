from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from osmosis_runner.quiet import Quiet, longest_running


def test_it_is_said_after_a_while_and_then_each_time_it_lasted_twice_as_long() -> None:
    quiet = Quiet(10.0)
    said = [now for now in range(100) if quiet.due(3, float(now))]
    assert said == [10, 20, 40, 80]


def test_whatever_ends_begins_it_anew() -> None:
    quiet = Quiet(10.0)
    assert not quiet.due(0, 0.0)
    assert not quiet.due(1, 9.0)
    assert not quiet.due(1, 18.0)
    assert quiet.due(1, 19.0)
    assert not quiet.due(2, 100.0)
    assert not quiet.due(2, 109.0)
    assert quiet.due(2, 110.0)


def rollout(row: int, run: int, began: float) -> Any:
    return cast("Any", SimpleNamespace(item=(row, run), began=began))


def test_the_longest_are_named_first() -> None:
    three = [rollout(7, 1, 60.0), rollout(3, 0, 5.0), rollout(9, 0, 99.0)]
    assert longest_running(three, 100.0) == "row 3 (95 s), row 7 run 1 (40 s), row 9 (1 s)"
    many = [rollout(row, 0, float(row)) for row in range(8)]
    assert longest_running(many, 10.0).endswith("row 4 (6 s) and 3 more")
