from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from osmosis_runner.rollout.admission import RolloutRequest
from osmosis_runner.rollout.agent import AgentWorkflow
from osmosis_runner.rollout.author import AuthorLoop
from osmosis_runner.rollout.clients import Clients
from osmosis_runner.rollout.execution import Agent, Conclusion, Failure, Job, Verdict
from osmosis_runner.rollout.registry import Status
from runner_fakes import until_true


class Sleeper(AgentWorkflow):
    running = 0
    most = 0

    async def run(self, ctx: Any) -> Any:
        Sleeper.running += 1
        Sleeper.most = max(Sleeper.most, Sleeper.running)
        try:
            await asyncio.sleep((ctx.metadata or {}).get("s", 0))
        finally:
            Sleeper.running -= 1
        return [{"role": "assistant", "content": "done"}]


class Listener:
    def __init__(self) -> None:
        self.replies: dict[str, Any] = {}
        self.phases: list[Status] = []

    def entered(self, job: Job, status: Status) -> None:
        self.phases.append(status)

    def concluded(self, job: Job, status: Status, reply: bytes) -> None:
        self.replies[job.request.rollout_id] = json.loads(reply)


def serve(
    check: Callable[[AuthorLoop], Awaitable[None]], most: int | None = None
) -> list[tuple[str, Status]]:
    kept: list[tuple[str, Status]] = []

    def keep(job: Job, conclusion: Conclusion) -> None:
        kept.append((job.request.rollout_id, conclusion.status))

    async def main() -> None:
        author = AuthorLoop(Agent(Sleeper, None, Clients()), most, keep)
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(author.serve(ready.set))
            await ready.wait()
            await check(author)
            author.stop()

    asyncio.run(main())
    return kept


def job(listener: Listener, name: str, seconds: float = 0) -> Job:
    return Job(RolloutRequest(name, [], "http://x", metadata={"s": seconds}), Path(), listener)


def test_jobs_are_kept_before_their_result_is_told() -> None:
    listener = Listener()

    async def check(author: AuthorLoop) -> None:
        author.submit(job(listener, "a"))
        await until_true(lambda: "a" in listener.replies)

    assert serve(check) == [("a", Status.SUCCESS)]
    assert listener.replies["a"]["sample"]["messages"][0]["content"] == "done"


def test_no_more_run_at_once_than_are_allowed() -> None:
    listener = Listener()
    Sleeper.most = 0

    async def check(author: AuthorLoop) -> None:
        for number in range(6):
            author.submit(job(listener, str(number), 0.02))
        await until_true(lambda: len(listener.replies) == 6)

    serve(check, most=2)
    assert Sleeper.most == 2


def test_a_job_that_waits_for_its_turn_can_be_cancelled() -> None:
    listener = Listener()

    async def check(author: AuthorLoop) -> None:
        first, second = job(listener, "a", 0.2), job(listener, "b")
        author.submit(first)
        author.submit(second)
        await until_true(lambda: listener.phases)
        second.verdict = Verdict(Status.CANCELLED)
        author.cancel(second)
        await until_true(lambda: "b" in listener.replies)
        assert "a" not in listener.replies
        await until_true(lambda: "a" in listener.replies)

    assert serve(check, most=1) == [("b", Status.CANCELLED), ("a", Status.SUCCESS)]
    assert listener.phases == [Status.RUNNING]


def test_a_job_that_is_cancelled_before_it_began_ends_at_once() -> None:
    listener = Listener()

    async def check(author: AuthorLoop) -> None:
        early = job(listener, "early", 30)
        author.submit(early)
        early.verdict = Verdict(Status.CANCELLED)
        author.cancel(early)
        await until_true(lambda: "early" in listener.replies)

    assert serve(check) == [("early", Status.CANCELLED)]
    assert listener.replies["early"]["status"] == "cancelled"
    assert listener.phases == []


def test_a_cancel_that_comes_when_the_workflow_is_over_and_graded_late_does_not_hit_the_grader() -> None:
    listener = Listener()
    late = Verdict(Status.FAILURE, Failure("timeout", "too late", "workflow"))

    async def check(author: AuthorLoop) -> None:
        slow = job(listener, "a", 0.2)
        author.submit(slow)
        await until_true(lambda: slow.task)
        slow.verdict = slow.passed_over = late
        author.cancel(slow)
        await until_true(lambda: "a" in listener.replies)

    assert serve(check) == [("a", Status.SUCCESS)]
