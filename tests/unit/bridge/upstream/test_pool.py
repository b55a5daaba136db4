"""Slots, idle connections and who waits for them, first come first served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from fake_wire import FakeTransport
from osmosis_bridge.upstream import Timeouts, TransportError
from osmosis_bridge.upstream.connection import Connection
from osmosis_bridge.upstream.pool import Pool

REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


def run(main: Callable[[], Coroutine[None, None, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(5):
            await main()

    asyncio.run(bounded())


async def opened(pool: Pool, key: str = "a") -> Connection:
    """A connection in a slot of its own."""
    assert await pool.slot(key, 5) is None
    connection = Connection(asyncio.get_running_loop(), pool, key, Timeouts())
    connection.connection_made(FakeTransport())
    pool.admit(connection)
    return connection


def answered(connection: Connection) -> None:
    """One exchange from its start to its clean end."""
    connection.start(b"GET", b"GET / HTTP/1.1\r\n\r\n", b"", None)
    connection.send()
    connection.data_received(REPLY)


def test_a_connection_whose_reply_came_whole_is_used_again() -> None:
    async def main() -> None:
        pool = Pool(2, 30)
        connection = await opened(pool)
        assert pool.reuse("a") is None
        answered(connection)
        assert (pool.slots, pool.idle) == (1, 1)
        assert pool.reuse("b") is None
        assert pool.reuse("a") is connection
        assert (pool.slots, pool.idle) == (1, 0)

    run(main)


def test_the_connection_that_fell_idle_last_is_used_first() -> None:
    async def main() -> None:
        pool = Pool(3, 30)
        connections = [await opened(pool) for _ in range(3)]
        for connection in connections:
            answered(connection)
        assert pool.reuse("a") is connections[2]
        assert pool.reuse("a") is connections[1]

    run(main)


def test_a_lost_connection_leaves_its_slot() -> None:
    async def main() -> None:
        pool = Pool(2, 30)
        idle, busy = await opened(pool), await opened(pool)
        answered(idle)
        idle.eof_received()
        busy.abort()
        busy.abort()
        assert (pool.slots, pool.idle) == (0, 0)

    run(main)


def test_a_connection_lost_while_it_was_being_opened_keeps_no_slot() -> None:
    async def main() -> None:
        pool = Pool(1, 30)
        assert await pool.slot("a", 5) is None
        connection = Connection(asyncio.get_running_loop(), pool, "a", Timeouts())
        connection.connection_made(FakeTransport())
        connection.connection_lost(None)
        assert pool.slots == 1
        pool.admit(connection)
        assert pool.slots == 0

    run(main)


def test_an_idle_connection_to_elsewhere_makes_room() -> None:
    async def main() -> None:
        pool = Pool(2, 30)
        first, second = await opened(pool, "a"), await opened(pool, "b")
        answered(first)
        answered(second)
        assert await pool.slot("c", 5) is None
        assert first.closed
        assert not second.closed
        assert (pool.slots, pool.idle) == (2, 1)

    run(main)


def test_who_waits_too_long_is_told_that_there_is_no_slot() -> None:
    async def main() -> None:
        pool = Pool(1, 30)
        await opened(pool)
        with pytest.raises(TransportError, match="none of 1 connections") as caught:
            await pool.slot("a", 0.01)
        assert caught.value.reason == "no_slot"
        assert (pool.slots, pool.waiting) == (1, 0)

    run(main)


def test_waiters_are_served_in_the_order_they_came() -> None:
    async def main() -> None:
        pool = Pool(1, 30)
        connection = await opened(pool)
        order: list[int] = []

        async def wait(turn: int) -> None:
            given = await pool.slot("a", 5)
            assert given is connection
            order.append(turn)
            answered(connection)

        async with asyncio.TaskGroup() as group:
            for turn in range(5):
                group.create_task(wait(turn))
            await asyncio.sleep(0)
            assert pool.waiting == 5
            answered(connection)
        assert order == [0, 1, 2, 3, 4]
        assert (pool.slots, pool.idle, pool.waiting) == (1, 1, 0)

    run(main)


def test_one_that_asks_for_much_lets_the_others_have_their_turn() -> None:
    async def main() -> None:
        pool = Pool(1, 30)
        connection = await opened(pool)
        order: list[str] = []

        async def wait(queue: str) -> None:
            assert await pool.slot("a", 5, queue) is connection
            order.append(queue)
            answered(connection)

        async with asyncio.TaskGroup() as group:
            for queue in ["flood"] * 100 + ["one", "other", "other"]:
                group.create_task(wait(queue))
            await asyncio.sleep(0)
            answered(connection)
        assert order[:5] == ["flood", "one", "other", "flood", "other"]
        assert order[5:] == ["flood"] * 98
        assert (pool.slots, pool.idle, pool.waiting) == (1, 1, 0)

    run(main)


def test_a_waiter_for_elsewhere_gets_the_slot_and_not_the_connection() -> None:
    async def main() -> None:
        pool = Pool(1, 30)
        connection = await opened(pool, "a")
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(pool.slot("b", 5))
            await asyncio.sleep(0)
            answered(connection)
            assert await waiting is None
        assert connection.closed
        assert pool.slots == 1

    run(main)


def test_a_failed_connection_hands_its_slot_to_the_next() -> None:
    async def main() -> None:
        pool = Pool(1, 30)
        connection = await opened(pool)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(pool.slot("a", 5))
            await asyncio.sleep(0)
            connection.abort()
            assert await waiting is None
        assert pool.slots == 1
        pool.give_back_slot()
        assert pool.slots == 0

    run(main)


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("fits", [False, True])
def test_a_cancelled_waiter_passes_on_what_it_was_given(served: bool, fits: bool) -> None:
    async def main() -> None:
        pool = Pool(1, 30)
        connection = await opened(pool, "a")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(pool.slot("a" if fits else "b", 5))
            second = group.create_task(pool.slot("a" if fits else "b", 5))
            await asyncio.sleep(0)
            if served:
                answered(connection)
            first.cancel()
            if not served:
                await asyncio.sleep(0)
                answered(connection)
            given = await second
        assert first.cancelled()
        assert given is (connection if fits else None)
        assert (pool.slots, pool.waiting) == (1, 0)

    run(main)


def test_nobody_is_given_what_the_last_waiter_left() -> None:
    async def main() -> None:
        pool = Pool(1, 30)
        connection = await opened(pool)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(pool.slot("a", 5))
            await asyncio.sleep(0)
            answered(connection)
            waiting.cancel()
        assert (pool.slots, pool.idle) == (1, 1)
        assert pool.reuse("a") is connection

    run(main)


def test_idle_connections_expire_by_themselves() -> None:
    async def main() -> None:
        pool = Pool(3, 0.05)
        early, late = await opened(pool, "a"), await opened(pool, "b")
        answered(early)
        await asyncio.sleep(0.03)
        answered(late)
        while not early.closed:
            await asyncio.sleep(0.005)
        assert not late.closed
        while not late.closed:
            await asyncio.sleep(0.005)
        assert (pool.slots, pool.idle) == (0, 0)

    run(main)


def test_an_expired_connection_is_not_used_even_if_nobody_swept() -> None:
    async def main() -> None:
        pool = Pool(3, 30)
        connection = await opened(pool)
        answered(connection)
        connection.idle_since -= 31
        assert pool.reuse("a") is None
        assert connection.closed

    run(main)


def test_a_closed_pool_closes_everything_and_turns_everyone_away() -> None:
    async def main() -> None:
        pool = Pool(2, 30)
        idle, busy = await opened(pool), await opened(pool)
        answered(idle)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(pool.slot("b", 5))
            # It makes room by closing the idle one; the next has to wait.
            assert await waiting is None
            turned_away = group.create_task(refused(pool))
            await asyncio.sleep(0)
            pool.close()
            await turned_away
        assert idle.closed
        assert busy.closed
        await refused(pool)

    async def refused(pool: Pool) -> None:
        with pytest.raises(TransportError, match="transport is closed") as caught:
            await pool.slot("a", 5)
        assert caught.value.reason == "connect"

    run(main)


def test_a_connection_that_opens_after_the_pool_was_closed_is_closed() -> None:
    async def main() -> None:
        pool = Pool(2, 30)
        assert await pool.slot("a", 5) is None
        connection = Connection(asyncio.get_running_loop(), pool, "a", Timeouts())
        connection.connection_made(FakeTransport())
        pool.close()
        pool.admit(connection)
        assert connection.closed
        assert pool.slots == 0

    run(main)
