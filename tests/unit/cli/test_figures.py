"""Numbers in words."""

from __future__ import annotations

import pytest

from osmosis_cli.figures import amount, counted, cut, duration, money, percent, value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"),
        (-1, "0.0s"),
        (0.84, "0.8s"),
        (9.96, "10.0s"),
        (42.4, "42s"),
        (59.6, "1m 00s"),
        (185, "3m 05s"),
        (3599.7, "1h 00m"),
        (7380, "2h 03m"),
    ],
)
def test_a_duration_reads_well(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_the_unknown_is_a_dash_and_never_a_zero() -> None:
    assert percent(None) == amount(None) == value(None) == money(None) == "—"


def test_numbers_are_written_for_people() -> None:
    assert percent(0.8754) == "87.5%"
    assert percent(0.8754, digits=0) == "88%"
    assert amount(1234567) == "1,234,567"
    assert value(0.123456) == "0.1235"
    assert money(0.01234) == "$0.0123"
    assert money(1234.5) == "$1,234.50"
    assert counted(1, "row") == "1 row"
    assert counted(2000, "row") == "2,000 rows"


def test_a_text_is_cut_to_one_line() -> None:
    assert cut("a\n  b") == "a b"
    assert cut("x" * 300) == "x" * 199 + "…"
