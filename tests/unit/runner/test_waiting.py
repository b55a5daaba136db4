from __future__ import annotations

import asyncio

import pytest

from osmosis_runner.waiting import waiting
from virtual_loop import run_in_virtual_time


def test_it_is_said_after_a_while_and_then_each_time_it_lasted_twice_as_long() -> None:
    said: list[str] = []

    async def main() -> None:
        with waiting(said.append, "syncing", 900.0):
            await asyncio.sleep(41)

    run_in_virtual_time(main())
    assert said == [f"still syncing ({seconds} s of at most 900 s)" for seconds in (5, 10, 20, 40)]


def test_what_should_be_over_sooner_is_told_sooner() -> None:
    said: list[str] = []

    async def main() -> None:
        with waiting(said.append, "ending", 5.0, after_s=1.0):
            await asyncio.sleep(3)

    run_in_virtual_time(main())
    assert said == [f"still ending ({seconds} s of at most 5 s)" for seconds in (1, 2)]


def test_what_is_over_quickly_is_not_told_even_when_it_fails() -> None:
    said: list[str] = []

    async def main() -> None:
        with pytest.raises(ValueError, match="no"), waiting(said.append, "asking", 120.0):
            await asyncio.sleep(4)
            raise ValueError("no")
        await asyncio.sleep(60)

    run_in_virtual_time(main())
    assert said == []


def test_the_last_output_is_quoted() -> None:
    said: list[str] = []

    async def main() -> None:
        with waiting(said.append, "syncing", 900.0, lambda: "Downloading torch"):
            await asyncio.sleep(6)

    run_in_virtual_time(main())
    assert said == ["still syncing (5 s of at most 900 s); its last output: Downloading torch"]
