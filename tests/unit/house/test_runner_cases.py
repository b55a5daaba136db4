"""docs/runner-cases.md names tests that exist, and leaves no case without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "runner-cases.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
REPORTS = (
    1, 4, 5, 6, 8, 9, 10, 12, 13, 15, 16, 17, 19, 20, 21, 22, 23, 26, 27, 28, 31, 32, 34, 35, 38, 39, 41, 42, 43, 44,
    46, 47, 48, 49, 51, 52, 55, 57, 58, 60,
)  # fmt: skip
"""The public reports that are held; the missing numbers are of other products' parts."""


def cases() -> list[str]:
    """The rows of all tables."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("| ") and not line.startswith(("| case", "| #"))]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[2:50].strip())
def test_every_case_is_held_by_tests_that_exist(case: str) -> None:
    named = _NAMED.findall(case)
    assert named, "the case names no test"
    for path, name in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in source, f"{path} has no {name}"


def test_every_report_has_its_row() -> None:
    numbers = [int(found[1]) for case in cases() if (found := re.match(r"\| (\d+) \|", case))]
    assert numbers == sorted(REPORTS)
