"""A small soak on every run of the tests; the large one is `scripts/soak.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from soak import Soak, miscounted, soak

CALLS = 2000
FLAT = 1.1
"""Memory late in the run over memory early in it; ordinary is 1.01, and five kilobytes lost with each call are 1.1."""


def test_clients_that_leave_at_random_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def within_reason() -> tuple[Soak, list[str]]:
        async with asyncio.timeout(50):
            return await soak(tmp_path, CALLS, lambda _: None)

    running, found = uvloop.run(within_reason())
    assert found == []
    assert running.left > CALLS / 10
    assert len(running.told) > CALLS / 2
    assert sum(running.closed.values()) > CALLS / 2
    assert running.growth() < FLAT
    with capsys.disabled():
        print(f"\n{CALLS} calls, {running.left} left: {sizes(running)}, ratio {running.growth():.3f}")


def sizes(running: Soak) -> str:
    first, last = running.samples[0], running.samples[-1]
    return f"{first.resident_mb:.1f} MB after {first.calls}, {last.resident_mb:.1f} MB after {last.calls}"


def records(*numbers: int) -> list[dict[str, object]]:
    return [{"rollout_id": "r", "seq": number, "call_id": f"c{number}"} for number in numbers]


@pytest.mark.parametrize(
    ("numbers", "closed"),
    [((1, 3), 3), ((1, 2, 2), 2), ((1, 2, 2), 3), ((1, 2), 3), ((1, 2, 3), 2), ((), 1), ((1,), 0)],
)
def test_the_soak_notices_a_record_that_is_lost_doubled_or_nobodys(
    numbers: tuple[int, ...], closed: int
) -> None:
    assert list(miscounted(records(*numbers), {"r": closed}))
    assert not list(miscounted(records(1, 2, 3), {"r": 3}))
