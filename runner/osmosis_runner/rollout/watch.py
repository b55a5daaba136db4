"""Notices when a rollout keeps the author's event loop from running, names it, and can break in.

The server's thread sends a beat to the author's loop now and then. When one goes unanswered, a signal is sent
to the author's thread (which is the main one): its handler runs in the middle of whatever blocks there, under that
code's own context, so it knows which rollout it is and where it stands, and may raise there when that
rollout's time is up. Code that never returns to the interpreter cannot be reached; `stuck_for` tells.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.rollout.author import OUR_PART
from osmosis_runner.rollout.execution import AUTHORS_PART, Job, current_job
from osmosis_runner.rollout.places import standing_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

TICK_S = 0.25
BLOCKED_S = 1.0
"""Shorter silences are ordinary work."""

PROBE_SIGNAL = getattr(signal, "SIGURG", None)
"""Ignored by default, so a handler that somebody replaced does no harm; None where there are no signals."""


class Blockage(msgspec.Struct):
    """One stretch of time in which the author's loop did not run."""

    since: float
    job: Job | None = None
    where: str | None = None
    told: bool = False


class Watch:
    """Times blockages. `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._main = threading.main_thread().ident or 0
        self._sent_at: float | None = None
        self._answered_at: float | None = None
        self._blockage: Blockage | None = None
        self._lost = 0.0

    def install(self) -> None:
        """Take the probe signal; called on the main thread."""
        if PROBE_SIGNAL is not None:
            signal.signal(PROBE_SIGNAL, self._probed)

    def lost(self, now: float) -> float:
        """Seconds lost to blockages so far, the one going on included."""
        blockage = self._blockage
        return self._lost + (now - blockage.since if blockage else 0.0)

    def stuck_for(self, now: float) -> float:
        """How long the loop has been blocked without a break; 0 when it is not."""
        return now - self._blockage.since if self._blockage else 0.0

    def culprit(self) -> Blockage | None:
        """The blockage going on."""
        return self._blockage

    async def run(
        self,
        ping: Callable[[Callable[[], None]], None],
        busy: Callable[[], bool],
        over: Callable[[Blockage, float], None],
        noticed: Callable[[Blockage], None],
    ) -> None:
        """Watch for ever. `ping` runs a function on the author's loop, `busy` says whether there is a job.

        `noticed` hears of a blockage while it lasts, `over` of its end with its length in seconds.
        """
        while True:
            await asyncio.sleep(TICK_S)
            now = self._clock()
            if self._sent_at is None:
                if busy():
                    self._sent_at, self._answered_at = now, None
                    ping(self._answer)
            elif self._answered_at is not None:
                self._close(over)
                self._sent_at = None
            elif now - self._sent_at >= BLOCKED_S:
                self._open(noticed)

    def poke(self) -> None:
        """Send the probe: the handler names the culprit, and breaks in when it is condemned."""
        if PROBE_SIGNAL is not None:
            signal.pthread_kill(self._main, PROBE_SIGNAL)

    def _open(self, noticed: Callable[[Blockage], None]) -> None:
        if self._blockage is None:
            self._blockage = Blockage(self._sent_at or 0.0)
        self.poke()
        if self._blockage.where is not None and not self._blockage.told:
            self._blockage.told = True
            noticed(self._blockage)

    def _close(self, over: Callable[[Blockage, float], None]) -> None:
        blockage, self._blockage = self._blockage, None
        if blockage is not None:
            length = (self._answered_at or 0.0) - blockage.since
            self._lost += length
            over(blockage, length)

    def _answer(self) -> None:
        self._answered_at = self._clock()

    def _probed(self, _signal: int, frame: FrameType | None) -> None:
        job = current_job.get()
        if job is None:
            return
        blockage = self._blockage
        if blockage is not None and not _imports(frame):
            blockage.job, blockage.where = job, standing_at(frame)
        if job.condemned and not _concludes(frame):
            raise asyncio.CancelledError


def _concludes(frame: FrameType | None) -> bool:
    """Whether the job's own task stands in our code behind the author's: what is raised there would lose its result."""
    ours = False
    while frame is not None:
        if frame.f_code is AUTHORS_PART:
            return False
        ours = ours or frame.f_code is OUR_PART
        frame = frame.f_back
    return ours


def _imports(frame: FrameType | None) -> bool:
    """Whether a module is being loaded: it takes its time once, and no author could await it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
