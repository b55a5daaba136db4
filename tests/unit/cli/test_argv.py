"""Where format flags may stand."""

from __future__ import annotations

import pytest

from osmosis_cli.argv import take_formats
from osmosis_cli.output import Format


@pytest.mark.parametrize(
    ("arguments", "formats", "rest"),
    [
        ([], [], []),
        (["eval", "run", "c.toml", "--json"], [Format.JSON], ["eval", "run", "c.toml"]),
        (["--plain", "eval", "list"], [Format.PLAIN], ["eval", "list"]),
        (["eval", "--json", "list", "--json"], [Format.JSON], ["eval", "list"]),
        (["--json", "eval", "--plain"], [Format.JSON, Format.PLAIN], ["eval"]),
    ],
)
def test_format_flags_are_taken_from_anywhere(
    arguments: list[str], formats: list[Format], rest: list[str]
) -> None:
    assert take_formats(arguments) == (formats, rest)


def test_format_flags_after_two_hyphens_are_left_alone() -> None:
    assert take_formats(["eval", "--", "--json"]) == ([], ["eval", "--", "--json"])
