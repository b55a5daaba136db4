"""Lines that fit a screen and an encoding."""

from __future__ import annotations

import pytest

from osmosis_cli.spelling import spelled, wrapped


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("utf-8", "→ 1/2 · é — ⚠"),
        (None, "→ 1/2 · é — ⚠"),
        ("ascii", "-> 1/2 - \\xe9 - !"),
        ("latin-1", "-> 1/2 · é - !"),
    ],
)
def test_signs_are_spelled_as_the_encoding_can(encoding: str | None, told: str) -> None:
    assert spelled("→ 1/2 · é — ⚠", encoding) == told


def test_half_a_character_is_escaped_in_any_encoding() -> None:
    assert spelled("\ud800", "utf-8") == "\\ud800"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_lines_break_between_words_only(width: int) -> None:
    text = "row 4 run 0: success, reward 0, 260 tokens, max context 138 | What is 15 plus 27? " * 3
    lines = wrapped(f"  {text}".rstrip(), width, "    ")
    assert all(len(line) <= width for line in lines)
    assert " ".join(line.strip() for line in lines).split() == text.split()
    assert [len(line) - len(line.lstrip()) for line in lines] == [2, *[4] * (len(lines) - 1)]


def test_a_path_longer_than_the_line_stays_whole() -> None:
    path = "/a-long/path-with-hyphens/" + "x" * 60
    assert path in [line.strip() for line in wrapped(f"see {path} there", 40)]


@pytest.mark.parametrize("width", [None, 10])
def test_without_a_width_to_go_by_nothing_breaks(width: int | None) -> None:
    assert wrapped("word " * 50, width) == ["word " * 50]
