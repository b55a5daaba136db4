from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from osmosis_runner.signals import Interrupted, interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_and_the_second_is_told_apart(number: signal.Signals) -> None:
    async def main() -> None:
        heard: list[int] = []
        with interrupts() as state:
            state.on_first = lambda: heard.append(1)
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.05)
            assert (state.number, state.name, heard) == (number, number.name, [1])
            assert not state.second.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(state.second.wait(), 5)
            assert (state.number, heard) == (number, [1])

    asyncio.run(main())


def test_before_dispatch_the_first_signal_ends_what_runs() -> None:
    async def main() -> str:
        with interrupts() as state, state.ending_at_once():
            asyncio.get_running_loop().call_later(0.02, state.arrived, signal.SIGINT)
            await asyncio.sleep(60)
        return "not reached"

    with pytest.raises(Interrupted):
        asyncio.run(main())


def test_a_signal_that_came_before_is_not_forgotten() -> None:
    async def main() -> None:
        with interrupts() as state:
            state.arrived(signal.SIGINT)
            with state.ending_at_once():
                pass

    with pytest.raises(Interrupted):
        asyncio.run(main())


def test_a_cancellation_by_somebody_else_stays_one() -> None:
    async def main() -> None:
        with interrupts() as state, state.ending_at_once():
            asyncio.current_task().cancel()  # pyright: ignore[reportOptionalMemberAccess]
            await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_a_signal_that_is_ignored_on_purpose_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:

        async def main() -> int | None:
            with interrupts() as state:
                os.kill(os.getpid(), signal.SIGHUP)
                await asyncio.sleep(0.02)
                return state.number

        assert asyncio.run(main()) is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_nothing_is_collected() -> None:
    found: list[int | None] = []

    async def main() -> None:
        with interrupts() as state:
            found.append(state.number)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(5)
    assert found == [None]
