from __future__ import annotations

from typing import Any

import pytest

from osmosis_runner.extension import Extension, begins_with, extension_of, widened
from osmosis_runner.selection import parse_rows


def inputs(n: int = 2, rows: str = "0-49", **others: Any) -> dict[str, Any]:
    return {"n": n, "dataset": {"sha256": "a", "selected_source_rows": rows}, "env": {}, **others}


@pytest.mark.parametrize(
    ("selection", "start", "does"),
    [
        ("0-9", "0-4", True),
        ("0-4", "0-4", True),
        ("3,5-9,20", "3,5-6", True),
        ("3,5-9", "3,6", False),
        ("0-9", "1-4", False),
        ("0-3", "0-4", False),
        ("0-9", "0-3,5", False),
    ],
)
def test_a_selection_begins_with_another_when_its_first_rows_are_that(
    selection: str, start: str, does: bool
) -> None:
    assert begins_with(parse_rows(selection), parse_rows(start)) is does


@pytest.mark.parametrize("new", [inputs(4), inputs(2, "0-199"), inputs(3, "0-49,60")])
def test_more_attempts_or_rows_behind_the_last_are_an_extension(new: dict[str, Any]) -> None:
    assert extension_of(inputs(), new) == Extension(50, 2, "0-49")
    assert widened(inputs(), new) == new


@pytest.mark.parametrize("new", [inputs(), inputs(1), inputs(4, "0-48"), inputs(4, "1-99"), {}, inputs(True)])
def test_nothing_new_or_anything_less_is_none(new: dict[str, Any]) -> None:
    assert extension_of(inputs(), new) is None


def test_the_rest_is_compared_as_ever() -> None:
    new = inputs(4, env={"A": "1"})
    assert extension_of(inputs(), new) is not None
    assert widened(inputs(), new) == {**new, "env": {}}


def test_what_was_before_is_told() -> None:
    told = Extension(50, 2, "0-49").to_json("2026-01-01T00:00:00Z")
    assert told == {"at": "2026-01-01T00:00:00Z", "n": 2, "selected_source_rows": "0-49"}
