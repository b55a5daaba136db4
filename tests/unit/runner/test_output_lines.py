from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.output_lines import LineCutter, clean


def cut(chunks: list[bytes], limit: int = 8192) -> list[str]:
    cutter = LineCutter(limit)
    return [line for chunk in chunks for line in cutter.feed(chunk)] + cutter.finish()


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6))
def test_lines_do_not_depend_on_how_output_is_split(output: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(output), *(min(place, len(output)) for place in cuts)})
    chunks = [output[a:b] for a, b in itertools.pairwise(places)]
    assert cut(chunks, 40) == cut([output], 40)


def test_a_long_line_is_cut_and_says_by_how_much() -> None:
    assert cut([b"x" * 30, b"y" * 20 + b"\nnext\n"], 10) == [
        "xxxxxxxxxx … [cut: 40 more bytes of this line]",
        "next",
    ]


def test_a_line_without_an_end_is_the_last_one() -> None:
    assert cut([b"a\n\nb"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"plain", "plain"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07text", "text"),
        (b"carriage\r", "carriage"),
        (b"half \xff", "half \\xff"),
        (b"bell \x07 nul \x00x", "bell \\x07 nul \\x00x"),
        ("naïve \U0001f4a5".encode(), "naïve \U0001f4a5"),
        (b"tab\tstays", "tab\tstays"),
    ],
)
def test_a_line_is_made_fit_for_a_log(line: bytes, text: str) -> None:
    assert clean(line) == text
