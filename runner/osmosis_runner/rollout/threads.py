"""The threads that plain functions of an author run in: which rollout each is busy for, and where it stands.

A thread cannot be interrupted. Python waits for every one of them before it ends, so whoever ends the process asks here
first what that would wait for.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

from osmosis_runner.rollout.execution import current_job
from osmosis_runner.rollout.places import standing_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from osmosis_runner.rollout.execution import Job

LOOK_EVERY_S = 0.02

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


class Busy(msgspec.Struct, frozen=True, eq=False):
    """One call that a thread carries out."""

    job: Job | None
    """None for one that was not made on behalf of a rollout."""
    thread: int

    @property
    def where(self) -> str:
        """The place of the author's code that it is at now."""
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented for debuggers
        return standing_at(frames.get(self.thread))


class BlockingThreads(ThreadPoolExecutor):
    """An executor that knows what its threads are busy with."""

    def __init__(self, most: int) -> None:
        super().__init__(most, "blocking-rollout")
        self._busy: set[Busy] = set()

    def submit(
        self, fn: Callable[Asked, Answer], /, *args: Asked.args, **kwargs: Asked.kwargs
    ) -> Future[Answer]:
        """Carry a call out in a thread, on behalf of the rollout that asks for it."""
        job = current_job.get()

        def carried_out() -> Answer:
            busy = Busy(job, threading.get_ident())
            self._busy.add(busy)
            try:
                return fn(*args, **kwargs)
            finally:
                self._busy.discard(busy)

        return super().submit(carried_out)

    def still_busy(self, after_s: float) -> list[Busy]:
        """What does not end within so many seconds. Waits for it."""
        deadline = time.monotonic() + after_s
        while self._busy and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
        return list(self._busy)
