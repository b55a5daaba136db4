from __future__ import annotations

import asyncio
import gc
import weakref

from osmosis_bridge.crowd import CALM_AFTER, Crowd, crowd_of


async def after(crowd: Crowd, *arrivals: int) -> bool:
    """What is said of the crowd, to a task that the last arrivals woke."""
    loop = asyncio.get_running_loop()
    seen: list[bool] = []
    for count in arrivals:
        for _ in range(count):
            crowd.arrived(loop)
            loop.call_soon(lambda: seen.append(crowd.together))
        await asyncio.sleep(0)
    return seen[-1]


def test_whoever_comes_alone_is_alone() -> None:
    assert asyncio.run(after(Crowd(), 1, 1)) is False


def test_two_in_one_turn_are_together_for_the_first_of_them_too() -> None:
    assert asyncio.run(after(Crowd(), 2)) is True


def test_a_crowd_is_over_when_many_turns_in_a_row_brought_one_each() -> None:
    assert asyncio.run(after(Crowd(), 2, *[1] * (CALM_AFTER - 1))) is True
    assert asyncio.run(after(Crowd(), 2, *[1] * CALM_AFTER)) is False
    assert asyncio.run(after(Crowd(), *[1] * CALM_AFTER, 3, *[1] * (CALM_AFTER - 1))) is True


def test_a_loop_has_one_crowd_and_is_not_kept_by_it() -> None:
    one, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    assert crowd_of(one) is crowd_of(one)
    assert crowd_of(one) is not crowd_of(other)
    kept = weakref.ref(one)
    for loop in (one, other):
        loop.close()
    del one, loop
    gc.collect()
    assert kept() is None
