from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import cast

from osmosis_runner.rollout.admission import RolloutRequest
from osmosis_runner.rollout.execution import Job, current_job
from osmosis_runner.rollout.registry import Status
from osmosis_runner.rollout.threads import BlockingThreads


class Nobody:
    def entered(self, job: Job, status: Status) -> None: ...
    def concluded(self, job: Job, status: Status, reply: bytes) -> None: ...


def job(name: str) -> Job:
    return Job(RolloutRequest(name, [], "http://x"), Path("t"), Nobody())


def test_what_a_thread_is_busy_with_is_told_with_its_rollout_and_its_place() -> None:
    threads, begun, may_end = BlockingThreads(2), threading.Event(), threading.Event()

    def hold_on() -> str:
        begun.set()
        may_end.wait(30)
        return "done"

    token = current_job.set(job("r1"))
    answer = threads.submit(hold_on)
    current_job.reset(token)
    assert begun.wait(9)
    [busy] = threads.still_busy(0.0)
    assert cast("Job", busy.job).request.rollout_id == "r1"
    assert busy.where == f"test_threads.py:{hold_on.__code__.co_firstlineno + 2} in hold_on"
    may_end.set()
    assert answer.result(9) == "done"
    assert threads.still_busy(9.0) == []
    assert busy.where == "an unknown place" or "thread" in busy.where
    threads.shutdown()


def test_one_that_fails_or_waits_for_its_turn_is_not_busy() -> None:
    threads = BlockingThreads(1)
    assert isinstance(threads.submit(lambda: 1 / 0).exception(9), ZeroDivisionError)
    assert threads.still_busy(9.0) == []
    threads.shutdown()


def test_an_event_loop_takes_it_for_its_own() -> None:
    threads = BlockingThreads(1)

    async def main() -> str:
        asyncio.get_running_loop().set_default_executor(threads)
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    assert asyncio.run(main()).startswith("blocking-rollout")
