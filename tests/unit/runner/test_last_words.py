from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.last_words import QUOTED, place_within, quoted, telling


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        (["one", "KeyError: 'x'"], "KeyError: 'x'"),
        (["    | BaseException: x", "    +------------------------------------"], "BaseException: x"),
        (["KeyError: 'x'", "[row 3 run 0] ----"], "KeyError: 'x'"),
        (["----"], ""),
        ([], ""),
    ],
)
def test_the_last_line_that_says_something_is_found(lines: list[str], last: str) -> None:
    assert telling(lines) == last


TRACE = [
    "Traceback (most recent call last):",
    '  File "/r/main.py", line 3, in <module>',
    '  File "/r/tools/search.py", line 12, in load',
    '  File "/usr/lib/python3.11/json/decoder.py", line 355, in decode',
    "ValueError: x",
]


def test_the_place_is_the_innermost_line_of_the_folders_own() -> None:
    assert place_within(TRACE, Path("/r")) == "tools/search.py:12"
    assert place_within(TRACE[:2], Path("/r")) == "main.py:3"


def test_a_relative_name_is_of_the_folder_and_an_environment_in_it_is_not_the_authors() -> None:
    inside = '  File "/r/.venv/lib/python3.12/site-packages/x.py", line 9, in f'
    assert place_within(['  File "main.py", line 7', "    def x(:", inside], Path("/r")) == "main.py:7"


def test_output_without_a_traceback_has_no_place() -> None:
    assert place_within(["no module named x", '  File "/elsewhere/x.py", line 1'], Path("/r")) is None


def test_as_many_lines_are_quoted_as_fit_a_message() -> None:
    assert quoted([str(n) for n in range(40)]).split() == [str(n) for n in range(40 - QUOTED, 40)]
    assert quoted(["  a"]) == "\n      a"
