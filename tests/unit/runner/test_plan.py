from __future__ import annotations

from itertools import islice

from osmosis_runner.journal import Status
from osmosis_runner.plan import PlanCounts, WorkItem, count_items, pending_items


def test_items_come_in_order_of_row_then_run() -> None:
    assert list(pending_items(2, 2, {})) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_recorded_items_are_left_out_unless_their_status_is_to_be_retried() -> None:
    recorded: dict[tuple[int, int], Status] = {(0, 0): "success", (0, 1): "failed", (1, 0): "skipped"}
    assert list(pending_items(2, 2, recorded)) == [WorkItem(1, 1)]
    assert list(pending_items(2, 2, recorded, frozenset({"failed"}))) == [(0, 1), (1, 1)]
    assert list(pending_items(2, 2, recorded, frozenset({"skipped"}))) == [(1, 0), (1, 1)]
    both = list(pending_items(2, 2, recorded, frozenset({"failed", "skipped"})))
    assert both == [(0, 1), (1, 0), (1, 1)]


def test_planning_is_lazy() -> None:
    assert list(islice(pending_items(10**12, 8, {}), 2)) == [(0, 0), (0, 1)]


def test_the_counts_agree_with_the_items() -> None:
    recorded: dict[tuple[int, int], Status] = {(0, 0): "success", (2, 1): "failed", (9, 9): "success"}
    retry: frozenset[Status] = frozenset({"failed"})
    counts = count_items(3, 2, recorded, retry)
    assert counts == PlanCounts(total=6, pending=5, recorded=1, retried=1)
    assert counts.pending == len(list(pending_items(3, 2, recorded, retry)))
