from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from osmosis_runner.dataset_file import Line
from osmosis_runner.dataset_problems import Place, Problems, Unreadable
from osmosis_runner.dataset_sources import Wanted, header_problems, judge_csv, judge_jsonl
from osmosis_runner.errors import DatasetError
from osmosis_runner.selection import Selection


class Collected:
    def __init__(self) -> None:
        self.rows: list[tuple[Place, dict[str, object]]] = []
        self.texts: list[str] = []

    def judge(self, place: Place, columns: Mapping[str, object], text_of: Callable[[str], str]) -> None:
        self.rows.append((place, dict(columns)))
        self.texts += [text_of(column) for column in columns]


def lines(text: str) -> list[Line]:
    found: list[Line] = []
    offset = 0
    for number, piece in enumerate(text.encode().splitlines(keepends=True), start=1):
        found.append(Line(number, offset, piece))
        offset += len(piece)
    return found


def test_only_wanted_jsonl_rows_are_judged_and_all_are_counted() -> None:
    judge, problems = Collected(), Problems("d")
    text = '{"a": 1.0}\n\n  \nnot json\n{"a": 3}\n'
    assert judge_jsonl(lines(text), Wanted(Selection.of([0, 2])), judge, problems) == 3
    assert judge.rows == [(Place(1, 0), {"a": 1.0}), (Place(5, 2), {"a": 3})]
    assert judge.texts == ["1.0", "3"]
    assert problems.total == 0


def test_problems_of_jsonl_lines_are_gathered() -> None:
    judge, problems = Collected(), Problems("d")
    assert judge_jsonl(lines('{"a":1}\n3\n{"b":\n'), Wanted(None), judge, problems) == 3
    assert problems.total == 2


@pytest.mark.parametrize(("text", "found"), [('[{"a":1},\n', "JSON list"), ("\n{\n", "several lines")])
def test_a_file_that_is_wrong_as_a_whole_is_told_once(text: str, found: str) -> None:
    with pytest.raises(Unreadable) as caught:
        judge_jsonl(lines(text), Wanted(None), Collected(), Problems("d"))
    assert found in caught.value.found


def test_csv_rows_have_their_columns_and_places() -> None:
    judge, problems = Collected(), Problems("d")
    text = 'user_prompt,label\n"a\nb",1\nc,2\n'
    assert judge_csv(lines(text), Wanted(None), judge, problems) == 2
    assert judge.rows == [
        (Place(2, 0), {"user_prompt": "a\nb", "label": "1"}),
        (Place(4, 1), {"user_prompt": "c", "label": "2"}),
    ]


@pytest.mark.parametrize(
    ("line", "found", "column"),
    [
        ("only", "1 cell where the header has 3", "user_prompt"),
        ("q,1", "2 cells where the header has 3", "label"),
        ("q,1,x,y,z", "5 cells where the header has 3", "id"),
    ],
)
def test_short_and_long_csv_rows_are_refused_with_their_line(line: str, found: str, column: str) -> None:
    judge, problems = Collected(), Problems("d")
    judge_csv(lines(f"user_prompt,label,id\nq,1,x\n{line}\nq,2,y\n"), Wanted(None), judge, problems)
    with pytest.raises(DatasetError) as caught:
        problems.raise_any()
    [issue] = caught.value.issues
    assert (issue.line, issue.row, issue.column) == (3, 1, column)
    assert issue.found == found
    assert len(judge.rows) == 2


def test_an_empty_csv_file_needs_a_header() -> None:
    with pytest.raises(Unreadable, match="the file is empty"):
        judge_csv([], Wanted(None), Collected(), Problems("d"))


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("user_prompt,label,label", "stands twice"),
        ("user_prompt, label", "the column is called ' label'"),
        ("User_Prompt,label", "the column is called 'User_Prompt'"),
        ("user_prompt;label", "divided by a semicolon"),
        ("user_prompt\tlabel", "divided by a tab"),
        ("user_prompt|label", "divided by a bar"),
        ("2 x 2,4", "names no known column"),
        ("user_prompt,answer", "there is no 'ground_truth'"),
        ("label,question", "there is no 'user_prompt'"),
        ('"never closed,4', "never closed"),
    ],
)
def test_a_wrong_header_is_told_before_any_row(header: str, found: str) -> None:
    judge, problems = Collected(), Problems("d")
    with pytest.raises((DatasetError, Unreadable), match=found):
        judge_csv(lines(f"{header}\na,1\n"), Wanted(None), judge, problems)
    assert judge.rows == []


@pytest.mark.parametrize(
    "header",
    [["metadata"], ["user_prompt", "label"], ["messages", "ground_truth"], ["user_prompt", "label", "", ""]],
)
def test_a_good_header_has_no_problem(header: list[str]) -> None:
    assert header_problems(header) == []


def test_wanted_offsets_follow_the_selection() -> None:
    wanted = Wanted(Selection.of([1, 2, 5]))
    assert [offset for offset in range(8) if wanted.has(offset)] == [1, 2, 5]
    assert Wanted(None).has(10**9)
    assert not Wanted(Selection(())).has(0)
