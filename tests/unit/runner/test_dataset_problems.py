from __future__ import annotations

import pytest

from osmosis_runner.dataset_problems import SHOWN, Place, Problems, Unreadable, bounded, shown
from osmosis_runner.errors import KEPT_ISSUES, DatasetError


def test_the_first_thousand_problems_are_kept_and_all_are_counted_by_kind() -> None:
    problems = Problems("d.jsonl")
    problems.raise_any()
    for line in range(1, KEPT_ISSUES + 101):
        problems.add(Place(line, line - 1), "label", "found", "fix")
    with pytest.raises(DatasetError) as caught:
        problems.raise_any()
    assert len(caught.value.issues) == KEPT_ISSUES
    assert problems.total == caught.value.details["total"] == KEPT_ISSUES + 100
    assert str(caught.value).splitlines() == [
        "d.jsonl: 1,100 problems",
        "  - 1,100 rows (0, 1, 2, 3, 4, ... from line 1), label: found; fix",
    ]


def test_a_raised_problem_keeps_its_own_line_and_else_takes_the_rows() -> None:
    problems = Problems("d.csv")
    problems.add_unreadable(Place(7, 3), Unreadable("a", "b", "c", line=5))
    problems.add_unreadable(Place(7, 3), Unreadable("a", "b"))
    with pytest.raises(DatasetError) as caught:
        problems.raise_any()
    assert [(issue.line, issue.row, issue.column) for issue in caught.value.issues] == [
        (5, 3, "c"),
        (7, 3, None),
    ]


def test_quoted_values_are_short_and_on_one_line() -> None:
    for text in (shown("x" * 500), shown("a\nb\u2028\ud83d"), shown({"k": "v" * 500}), bounded("a\nb" * 500)):
        assert len(text) <= SHOWN
        assert text.isprintable()
    assert shown("café") == "'café'"
