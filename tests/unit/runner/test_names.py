from __future__ import annotations

import re
from random import Random

import pytest

from osmosis_runner.errors import RunDirError
from osmosis_runner.names import ADJECTIVES, ANIMALS, check_run_name, generate_run_name, nearest_first


@pytest.mark.parametrize("name", ["a", "9", "My.run_1-x", "a" * 96])
def test_good_names_pass(name: str) -> None:
    assert check_run_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".locks", "-a", "_a", "a/b", "a\\b", "a b", "a\n", "é", "a" * 97, "a\0"]
)
def test_bad_names_say_the_rule(name: str) -> None:
    with pytest.raises(RunDirError) as caught:
        check_run_name(name)
    assert caught.value.code == "VALIDATION"


def test_generated_names_are_words_and_a_number_and_pass_the_rule() -> None:
    random = Random(7)
    for _ in range(200):
        name = generate_run_name(random, lambda _: False)
        assert re.fullmatch(r"[a-z]+-[a-z]+-\d\d", name)
        assert check_run_name(name) == name


def test_taken_names_are_passed_over_and_not_for_ever() -> None:
    first = generate_run_name(Random(7), lambda _: False)
    assert generate_run_name(Random(7), lambda name: name == first) != first
    with pytest.raises(RunDirError, match="--name"):
        generate_run_name(Random(7), lambda _: True)


def test_there_are_forty_different_words_of_each_kind() -> None:
    assert len(set(ADJECTIVES)) == len(set(ANIMALS)) == 40


def test_the_name_that_was_meant_comes_first() -> None:
    assert nearest_first("Quiet-oter-07", ["brisk-lynx-01", "quiet-otter-70", "quiet-otter-07"]) == [
        "quiet-otter-07", "quiet-otter-70", "brisk-lynx-01",
    ]  # fmt: skip
