"""docs/security.md names tests; each of them exists."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from osmosis_bridge.conformance import select

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
CASES = sorted(set(re.findall(r"`([A-Z]\d*-[\w*.-]+|[A-Z]\d+-\*)`", PAGE)))
IDS = [case.id for case in select()]


def is_defined(file: Path, name: str) -> bool:
    return (
        file.exists()
        and re.search(rf"^(async )?def {name}\(", file.read_text("utf-8"), re.MULTILINE) is not None
    )


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_a_test_that_the_page_names_exists(file: str, name: str) -> None:
    assert is_defined(ROOT / file, name)


@pytest.mark.parametrize("pattern", CASES)
def test_a_case_that_the_page_names_exists(pattern: str) -> None:
    assert [case for case in IDS if fnmatchcase(case, pattern)]


def test_every_promise_has_a_test() -> None:
    promises = re.split(r"^\d+\. ", PAGE.partition("## What is not promised")[0], flags=re.MULTILINE)[1:]
    assert len(promises) == 17
    assert not [
        promise[:60]
        for promise in promises
        if "`tests/" not in promise and not re.search(r"`[CE]\d*-", promise)
    ]
    assert len(TESTS) > 30
    assert len(CASES) > 30


def test_a_name_that_is_none_would_be_noticed() -> None:
    assert not is_defined(ROOT / "tests/e2e/test_canary.py", "test_that_nobody_wrote")
    assert not is_defined(ROOT / "tests/e2e/test_nothing.py", "test_a_test_that_the_page_names_exists")
