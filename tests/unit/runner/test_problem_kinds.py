from __future__ import annotations

from osmosis_runner.errors import DatasetIssue
from osmosis_runner.problem_kinds import MOST_KINDS, ROWS_TOLD, ProblemKinds


def issue(row: int | None, found: str = "there is none", column: str | None = "label") -> DatasetIssue:
    return DatasetIssue(found, "write one", None if row is None else row + 2, row, column)


def texts(*issues: DatasetIssue) -> list[str]:
    return [str(kind) for kind in ProblemKinds.of(issues).listed]


def test_what_many_rows_have_wrong_is_said_once_with_the_first_of_them() -> None:
    assert texts(*(issue(row) for row in range(1200))) == [
        "1,200 rows (0, 1, 2, 3, 4, ... from line 2), label: there is none; write one"
    ]
    assert texts(issue(3), issue(7)) == ["2 rows (3, 7 from line 5), label: there is none; write one"]
    assert texts(issue(3)) == ["line 5, row 3, label: there is none; write one"]


def test_problems_that_differ_in_the_value_they_quote_are_alike() -> None:
    assert texts(
        issue(0, "a list where a string belongs: ['a']"), issue(1, "a list where a string belongs: []")
    ) == ["2 rows (0, 1 from line 2), label: a list where a string belongs: ['a'] (row 0); write one"]
    assert len(texts(issue(0, "'a' is \"it's\" but 3 is 4"), issue(1, "'bc' is 'd' but 1,000 is 2.5"))) == 1
    assert len(texts(issue(0, column="messages[0]"), issue(1, column="messages[12]"))) == 1


def test_other_words_or_another_column_are_another_kind() -> None:
    assert len(texts(issue(0), issue(1, column="user_prompt"), issue(2, "it is empty"))) == 3


def test_problems_of_the_whole_file_stand_alone() -> None:
    assert texts(issue(None, column=None)) == ["there is none; write one"]


def test_kinds_without_end_are_bounded_and_counted() -> None:
    kinds = ProblemKinds.of(issue(row, column="x" * (row + 1)) for row in range(MOST_KINDS + 5))
    assert (len(kinds.listed), kinds.others, kinds.total) == (MOST_KINDS, 5, MOST_KINDS + 5)


def test_programs_get_count_and_first_rows() -> None:
    [kind] = ProblemKinds.of(issue(row) for row in range(ROWS_TOLD + 1)).listed
    assert kind.to_json() == {
        "found": "there is none", "fix": "write one", "count": 6, "column": "label", "rows": [0, 1, 2, 3, 4],
    }  # fmt: skip
