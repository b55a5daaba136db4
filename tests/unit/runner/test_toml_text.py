from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.errors import ConfigIssue
from osmosis_runner.toml_text import MOST_MISTAKES, read_toml


def said(text: str) -> list[str]:
    return [str(issue) for issue in read_toml(text).issues]


def test_a_text_in_order_is_its_table() -> None:
    read = read_toml("\ufeff[a]\r\nb = 1\r\n")
    assert read.table == {"a": {"b": 1}}
    assert (read.issues, read.lines.of("a.b")) == ((), 2)


def test_mistakes_that_keep_to_their_line_are_all_told_and_the_rest_is_read() -> None:
    read = read_toml('[a]\nb "x"\nc = main.py\nd = "open\ne = 5\n')
    assert read.table == {"a": {"e": 5}}
    assert [str(issue) for issue in read.issues] == [
        "invalid TOML: Expected '=' after a key in a key/value pair at column 3 (line 2)",
        'invalid TOML: Invalid value at column 5; text stands in double quotes: c = "main.py" (line 3)',
        "invalid TOML: Illegal character '\\n' at column 10; the text on this line is not closed (line 4)",
    ]


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("[a\nb = 1\nc = \n", "Expected ']' at the end of a table declaration at column 3 (line 1)"),
        ("b = [1,\nc = 2\nd = x\n", "Invalid value at column 1 (line 2)"),
        ('b = """\nc = x\n', "is not closed"),
        ("b = [1,\n", "a list, a table or a text is not closed"),
        ("b = " + "[" * 5_000, "is nested too deeply"),
    ],
)
def test_after_a_mistake_that_may_reach_further_nothing_is_guessed(text: str, issue: str) -> None:
    read = read_toml(text)
    assert read.table is None
    assert len(read.issues) == 1
    assert issue in str(read.issues[0])


def test_a_key_given_twice_names_both_lines() -> None:
    assert said("a = 1\na = 2\n") == ["a: stands twice, first in line 1; keep one (line 2)"]


def test_mistakes_are_bounded() -> None:
    assert len(said("a\n" * 100)) == MOST_MISTAKES


def test_problems_are_told_in_order_and_none_follows_from_a_line_that_was_left_out() -> None:
    read = read_toml('n = 0\nrollout x\nm = "\n')
    missing = [ConfigIssue("experiment.rollout", "missing; it is required"), ConfigIssue("n", "must be 1", 1)]
    told = read.all_issues(missing)
    assert [issue.line for issue in told] == [1, 2, 3]
    assert read_toml("n = 0").all_issues(missing) == missing


@given(st.text(alphabet="ab=[]{}\"'\n 1#.", max_size=40))
def test_a_text_is_in_order_exactly_when_the_parser_says_so(text: str) -> None:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assert read_toml(text).issues
    else:
        assert (read_toml(text).table, read_toml(text).issues) == (table, ())
