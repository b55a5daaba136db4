"""Signs of life while a reply is silent, so that tunnels and load balancers do not cut the connection.

A timer that is armed once per interval, not once per chunk. Knows nothing of what is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


class Heartbeat:
    """Calls `beat` whenever `interval` seconds passed without a `touch`; an interval of 0 never beats.

    `stop` must be awaited: it waits for a beat that is under way.
    """

    __slots__ = ("_beat", "_beating", "_interval", "_last", "_loop", "_timer")

    def __init__(self, interval: float, beat: Callable[[], Awaitable[None]]) -> None:
        self._interval = interval
        self._beat = beat
        self._beating: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        if interval > 0:
            self._loop = asyncio.get_running_loop()
            self._last = self._loop.time()
            self._timer = self._loop.call_later(interval, self._fire)

    def touch(self) -> None:
        """Something was sent."""
        if self._timer is not None:
            self._last = self._loop.time()

    async def stop(self) -> None:
        """No beat starts after this, and none is under way when it returns."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._beating is not None and not self._beating.done():
            await asyncio.wait((self._beating,))

    def _fire(self) -> None:
        silent = self._loop.time() - self._last
        if silent >= self._interval:
            self._last = self._loop.time()
            if self._beating is None or self._beating.done():
                # A reference is kept and `stop` waits for it; the timer callback has no task group to join.
                self._beating = self._loop.create_task(self._run())
            silent = 0.0
        self._timer = self._loop.call_later(self._interval - silent, self._fire)

    async def _run(self) -> None:
        # A beat that cannot be sent has nobody to tell: whoever watches the connection sees that it is gone.
        with contextlib.suppress(OSError):
            await self._beat()
