"""Waits while a disk takes no record: the bridge's ledger or the journal, full for a moment.

What is to be recorded is kept in memory meanwhile and tried again; after a bounded time the fault is raised as it is.
Knows nothing of what is recorded.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, TypeVar

from osmosis_runner.errors import StorageError
from osmosis_runner.faults import LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from osmosis_runner.events import Observer
    from osmosis_runner.runlog import RunLog

PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Faults of a disk that somebody may be mending: it is full, or a limit is reached."""

Result = TypeVar("Result")


class DiskWatch:
    """`delays` are the seconds between tries; `stopping` ends every wait."""

    def __init__(
        self, delays: tuple[float, ...], stopping: asyncio.Event, log: RunLog, observer: Observer
    ) -> None:
        self._delays = delays
        self._stopping = stopping
        self._log = log
        self._observer = observer
        self.waiting = 0
        """How many records wait."""

    async def patiently(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do it, once more after each delay while the disk fails it."""
        delays = iter(self._delays)
        waits = False
        try:
            while True:
                try:
                    return await work()
                except (LedgerUnavailable, StorageError) as error:
                    delay = self._delay(delays, error)
                    waits = waits or self._begin(error.message)
                await self._pause(delay)
        finally:
            self.waiting -= waits

    def _delay(self, delays: Iterator[float], error: LedgerUnavailable | StorageError) -> float:
        """The next delay; raises the error where there is none, or where waiting does not help."""
        delay = next(delays, None)
        if delay is None or not self._may_pass(error):
            raise error
        return delay

    def _begin(self, trouble: str) -> bool:
        """Count one that waits, and say so of the first; true, since one waits now."""
        self.waiting += 1
        if self.waiting == 1:
            text = (
                f"nothing new starts for up to {sum(self._delays):g} s, until records can be kept: {trouble}"
            )
            self._observer.stage(text)
            self._log.warning("disk", text)
        return True

    async def _pause(self, delay: float) -> None:
        try:
            async with asyncio.timeout(delay):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _may_pass(self, error: LedgerUnavailable | StorageError) -> bool:
        if self._stopping.is_set():
            return False
        return isinstance(error, LedgerUnavailable) or error.details.get("errno") in PASSING
