from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator

import pytest

from osmosis_bridge.collector import AT_REST, EACH, LOOK_S, SOON, Collector
from virtual_loop import run_in_virtual_time


@pytest.fixture(autouse=True)
def as_before() -> Generator[None]:
    bound = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*bound)


def bound_at(connections: int) -> int:
    return AT_REST + EACH * (connections + SOON)


def test_the_bound_moves_with_the_connections_until_it_is_stopped() -> None:
    connections = 0

    async def main() -> list[int]:
        nonlocal connections
        collector = Collector(lambda: connections)
        collector.stop()
        collector.start()
        seen = [gc.get_threshold()[0]]
        for count in (5000, 3):
            connections = count
            await asyncio.sleep(LOOK_S * 1.5)
            seen.append(gc.get_threshold()[0])
        collector.stop()
        connections = 7000
        await asyncio.sleep(LOOK_S * 1.5)
        return [*seen, gc.get_threshold()[0]]

    assert run_in_virtual_time(main()) == [bound_at(0), bound_at(5000), bound_at(3), bound_at(3)]


def test_what_was_made_before_the_start_is_passed_over() -> None:
    made = [[] for _ in range(1000)]

    async def main() -> None:
        collector = Collector(lambda: 0)
        collector.start()
        collector.stop()

    asyncio.run(main())
    assert gc.get_freeze_count() > len(made)
