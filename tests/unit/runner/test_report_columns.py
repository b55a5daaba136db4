from __future__ import annotations

import math

import pytest

from osmosis_runner.report_columns import FloatColumn, IntColumn


def test_a_replaced_value_leaves_the_sum() -> None:
    column = IntColumn(3)
    assert column.total is None
    column.put(0, 5)
    column.put(1, 0)
    column.put(0, 2)
    assert (column.total, column.known, column.ordered()) == (2, 2, [0, 2])
    column.put(0, None)
    assert (column.total, column.known) == (0, 1)
    column.put(1, None)
    assert column.total is None


def test_floats_know_unknown_from_zero() -> None:
    column = FloatColumn(4)
    assert column.total is None
    assert column.running_total is None
    column.put(1, 0.0)
    column.put(2, 0.1)
    column.put(3, 0.2)
    column.put(3, math.nan)
    assert column.total == 0.1
    assert column.running_total == pytest.approx(0.1)
    assert column.ordered() == [0.0, 0.1]
    assert math.isnan(column.at(0))
    assert column.at(1) == 0.0


def test_rows_have_the_mean_of_their_known_values() -> None:
    column = FloatColumn(6)
    for slot, value in enumerate([1.0, None, None, None, 2.0, 4.0]):
        column.put(slot, value)
    assert list(column.by_row(2)) == [1.0, 3.0]
    assert list(column.by_row(3)) == [1.0, 3.0]
