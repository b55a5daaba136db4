"""The heartbeat: beats while it is silent, never after `stop`, never twice at once."""

from __future__ import annotations

import asyncio

import pytest

from osmosis_bridge.heartbeat import Heartbeat
from virtual_loop import run_in_virtual_time


class Beats:
    """Notes the times of beats; each takes `seconds` and may fail."""

    def __init__(self, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.times: list[float] = []
        self.under_way = self.most_at_once = 0
        self.seconds = seconds
        self.error = error

    async def __call__(self) -> None:
        self.times.append(round(asyncio.get_running_loop().time(), 6))
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        await asyncio.sleep(self.seconds)
        self.under_way -= 1
        if self.error is not None:
            raise self.error


def test_it_beats_once_an_interval_while_nothing_is_sent() -> None:
    async def main() -> list[float]:
        beats = Beats()
        heart = Heartbeat(15.0, beats)
        await asyncio.sleep(46)
        await heart.stop()
        return beats.times

    assert run_in_virtual_time(main()) == [15.0, 30.0, 45.0]


def test_a_beat_comes_an_interval_after_the_last_thing_sent() -> None:
    async def main() -> list[float]:
        beats = Beats()
        heart = Heartbeat(15.0, beats)
        for _ in range(7):
            await asyncio.sleep(10)
            heart.touch()
        await asyncio.sleep(16)
        await heart.stop()
        return beats.times

    assert run_in_virtual_time(main()) == [85.0]


def test_nothing_beats_after_stop() -> None:
    async def main() -> list[float]:
        beats = Beats()
        heart = Heartbeat(15.0, beats)
        await asyncio.sleep(16)
        await heart.stop()
        await asyncio.sleep(100)
        await heart.stop()
        return beats.times

    assert run_in_virtual_time(main()) == [15.0]


def test_stop_waits_for_a_beat_that_is_under_way() -> None:
    async def main() -> None:
        beats = Beats(seconds=5)
        heart = Heartbeat(15.0, beats)
        await asyncio.sleep(16)
        assert beats.under_way == 1
        await heart.stop()
        assert beats.under_way == 0
        assert asyncio.get_running_loop().time() == 20.0

    run_in_virtual_time(main())


def test_a_slow_beat_is_not_overtaken_by_the_next() -> None:
    async def main() -> Beats:
        beats = Beats(seconds=40)
        heart = Heartbeat(15.0, beats)
        await asyncio.sleep(70)
        await heart.stop()
        return beats

    beats = run_in_virtual_time(main())
    assert (beats.times, beats.most_at_once) == ([15.0, 60.0], 1)


def test_an_interval_of_zero_never_beats() -> None:
    async def main() -> list[float]:
        beats = Beats()
        heart = Heartbeat(0.0, beats)
        heart.touch()
        await asyncio.sleep(1000)
        await heart.stop()
        return beats.times

    assert run_in_virtual_time(main()) == []


def test_a_beat_that_cannot_be_sent_stops_neither_the_heart_nor_its_owner(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> list[float]:
        beats = Beats(error=ConnectionResetError())
        heart = Heartbeat(15.0, beats)
        await asyncio.sleep(31)
        await heart.stop()
        return beats.times

    assert run_in_virtual_time(main()) == [15.0, 30.0]
    assert caplog.records == []
