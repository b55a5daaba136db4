"""Says what is waited for while it lasts: after some seconds, then each time it lasted twice as long.

Knows nothing of what is waited for. Nothing is said of what is over quickly.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

SAY_AFTER_S = 5.0


@contextmanager
def waiting(
    say: Callable[[str], None],
    what: str,
    within_s: float,
    last_said: Callable[[], str] = str,
    after_s: float | None = None,
) -> Generator[None]:
    """While inside, `say` now and then that `what` is going on still, and for how long it may.

    `last_said` gives the last output of whoever is waited for, empty while there is none. Needs a running loop.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    timer: asyncio.TimerHandle

    def due(after_s: float) -> None:
        nonlocal timer
        heard = last_said()
        text = f"still {what} ({loop.time() - began:.0f} s of at most {within_s:g} s)"
        say(f"{text}; its last output: {heard}" if heard else text)
        timer = loop.call_at(began + 2 * after_s, due, 2 * after_s)

    first_s = SAY_AFTER_S if after_s is None else after_s
    timer = loop.call_at(began + first_s, due, first_s)
    try:
        yield
    finally:
        timer.cancel()
