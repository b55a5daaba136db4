"""The author's thread: an event loop that belongs to workflows and graders alone.

Whatever they do to it (block it, cancel themselves, call `sys.exit`), polls, leases and cancels go on elsewhere.
Methods named in the docstring as safe may be called from the server's thread; all others run on this loop.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

from osmosis_runner.rollout.execution import Conclusion, Verdict
from osmosis_runner.rollout.registry import Status
from osmosis_runner.rollout.reply import encode_reply
from osmosis_runner.rollout.threads import BlockingThreads

if TYPE_CHECKING:
    from collections.abc import Callable

    from osmosis_runner.rollout.execution import Agent, Job

BLOCKING_THREADS = 64


class AuthorLoop:
    """Runs jobs, at most `max_concurrent` at once; further ones wait in order."""

    def __init__(
        self, agent: Agent, max_concurrent: int | None, keep: Callable[[Job, Conclusion], None]
    ) -> None:
        self._agent = agent
        self._keep = keep
        self._max_concurrent = max_concurrent
        self._stopped = asyncio.Event()
        self.threads = BlockingThreads(BLOCKING_THREADS)
        self._ready: Callable[[], None] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._group: asyncio.TaskGroup | None = None
        self._seats: asyncio.Semaphore | None = None

    async def serve(self, ready: Callable[[], None]) -> None:
        """Run until `stop`; `ready` is called once jobs may be submitted."""
        self.loop = asyncio.get_running_loop()
        self.loop.set_default_executor(self.threads)
        if self._max_concurrent is not None:
            self._seats = asyncio.Semaphore(self._max_concurrent)
        async with asyncio.TaskGroup() as self._group:
            ready()
            await self._stopped.wait()

    def submit(self, job: Job) -> None:
        """Start a job. Safe from any thread."""
        self._call(self._start, job)

    def cancel(self, job: Job) -> None:
        """Cancel a job that has a verdict. Safe from any thread."""
        self._call(_cancel, job, job.verdict)

    def stop(self) -> None:
        """End `serve` once every job is over. Safe from any thread."""
        self._call(self._stopped.set)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        loop = self.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function, *arguments)

    def _start(self, job: Job) -> None:
        if self._group is not None:
            self._group.create_task(self.carry_out(job))

    async def carry_out(self, job: Job) -> None:
        """Run a job in the task that is its own, keep what came of it and tell its reporter."""
        job.task = asyncio.current_task()
        try:
            if job.verdict is not None:
                raise asyncio.CancelledError
            async with self._seats or nullcontext():
                conclusion = await self._agent.execute(job)
        except asyncio.CancelledError:
            verdict = job.verdict or Verdict(Status.CANCELLED)
            conclusion = Conclusion(verdict.status, label=job.request.label, failure=verdict.failure)
        self._keep(job, conclusion)
        reply = encode_reply(job.request.rollout_id, conclusion)
        job.reporter.concluded(job, conclusion.status, reply)


OUR_PART = AuthorLoop.carry_out.__code__
"""A job's own task is in a frame of this code, whoever's code it runs."""


def _cancel(job: Job, verdict: Verdict | None) -> None:
    # A workflow that ended by itself meanwhile may be graded by now.
    if job.task is not None and (verdict is None or verdict is not job.passed_over):
        job.task.cancel()
