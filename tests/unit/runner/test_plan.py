from __future__ import annotations

from itertools import islice

from osmosis_runner.plan import PlanCounts, WorkItem, count_items, pending_items
from osmosis_runner.standing import Standing, runs_again

PENDING, SUCCESS, FAILED, SKIPPED, THWARTED = Standing
USUALLY = runs_again(failed=False, skipped=False)


def test_items_come_in_order_of_row_then_run() -> None:
    assert list(pending_items(bytes(4), 2, USUALLY)) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_recorded_items_are_left_out_unless_their_standing_is_asked_for() -> None:
    stand = bytearray([SUCCESS, FAILED, SKIPPED, PENDING, THWARTED, SUCCESS])
    assert list(pending_items(stand, 2, USUALLY)) == [WorkItem(1, 1), (2, 0)]
    assert list(pending_items(stand, 2, runs_again(failed=True, skipped=False))) == [(0, 1), (1, 1), (2, 0)]
    assert list(pending_items(stand, 2, runs_again(failed=False, skipped=True))) == [(1, 0), (1, 1), (2, 0)]
    both = list(pending_items(stand, 2, runs_again(failed=True, skipped=True)))
    assert both == [(0, 1), (1, 0), (1, 1), (2, 0)]


def test_planning_is_lazy() -> None:
    assert list(islice(pending_items(bytes(10_000_000), 8, USUALLY), 2)) == [(0, 0), (0, 1)]


def test_the_counts_agree_with_the_items() -> None:
    stand = bytearray([SUCCESS, PENDING, PENDING, PENDING, PENDING, FAILED])
    again = runs_again(failed=True, skipped=False)
    counts = count_items(stand, again)
    assert counts == PlanCounts(total=6, pending=5, recorded=1, retried=1)
    assert counts.pending == len(list(pending_items(stand, 2, again)))
