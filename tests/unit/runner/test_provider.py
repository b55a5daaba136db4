from __future__ import annotations

import asyncio
from typing import cast

import pytest

from osmosis_runner.breaker import SUSPICIOUS
from osmosis_runner.provider import ProviderWatch
from osmosis_runner.sidecar import Sidecar
from runner_fakes import GOOD, FakeSidecar, Step, ended, failed

DOWN = failed(502, "upstream_unreachable")


def ask(*steps: Step, stopping: bool = False) -> tuple[str | None, int]:
    async def main() -> tuple[str | None, int]:
        sidecar, stop = FakeSidecar(*steps), asyncio.Event()
        if stopping:
            stop.set()
        answer = await ProviderWatch(cast("Sidecar", sidecar), (0.0, 0.0)).ask(stop)
        return answer, len(sidecar.asked)

    return asyncio.run(main())


def test_it_asks_until_the_provider_answers() -> None:
    assert ask(DOWN, failed(429), GOOD) == (None, 3)


def test_it_gives_up_after_the_last_delay_with_the_last_words() -> None:
    assert ask(DOWN, failed(503), failed(503, message="still down")) == ("503 still down", 3)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_will_not_pass_is_not_waited_for(status: int) -> None:
    assert ask(failed(status), GOOD) == (f"{status} no", 1)


def test_a_run_that_is_stopping_asks_once() -> None:
    assert ask(DOWN, GOOD, stopping=True)[1] == 1


def test_it_holds_attempts_until_there_are_enough_to_be_suspicious() -> None:
    watch = ProviderWatch(cast("Sidecar", FakeSidecar()), ())
    assert watch.trouble == ""
    held = [ended(row, "failed", provider_trouble=f"trouble {row}") for row in range(SUSPICIOUS)]
    assert [watch.hold(attempt) for attempt in held] == [False] * (SUSPICIOUS - 1) + [True]
    assert watch.trouble == f"trouble {SUSPICIOUS - 1}"
    assert watch.release() == held
    assert watch.holds == 0


def test_without_a_bridge_nothing_is_said_of_the_provider() -> None:
    async def main() -> str | None:
        sidecar = FakeSidecar(DOWN, DOWN, DOWN)
        sidecar.child.exited.set()
        return await ProviderWatch(cast("Sidecar", sidecar), (0.0, 0.0)).ask(asyncio.Event())

    assert asyncio.run(main()) is None
