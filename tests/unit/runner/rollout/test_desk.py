from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from osmosis_runner.rollout import desk as desk_module
from osmosis_runner.rollout.author import AuthorLoop
from osmosis_runner.rollout.desk import Desk, HostSettings, Reply
from osmosis_runner.rollout.execution import Job
from osmosis_runner.rollout.registry import Status
from osmosis_runner.rollout.watch import Blockage, Watch
from runner_fakes import until_true


class FakeAuthor:
    """Takes jobs and does nothing with them."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.cancelled: list[str] = []

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def cancel(self, job: Job) -> None:
        self.cancelled.append(job.request.rollout_id)


class FakeWatch:
    blockage: Blockage | None = None
    total = 0.0

    def culprit(self) -> Blockage | None:
        return self.blockage

    def lost(self, now: float) -> float:
        return self.total + (now - self.blockage.since if self.blockage else 0.0)


class Scene:
    """A desk, its author and what it logged."""

    def __init__(self, max_concurrent: int | None = None) -> None:
        self.author, self.watch = FakeAuthor(), FakeWatch()
        self.logged: list[str] = []
        settings = HostSettings(0, Path("/nowhere"), "inst", max_concurrent=max_concurrent)
        author, watch = cast("AuthorLoop", self.author), cast("Watch", self.watch)
        self.desk = Desk(settings, author, watch, self.logged.append)

    def admit(self, rollout_id: str = "a", **changes: Any) -> tuple[int, Any]:
        body = {"rollout_id": rollout_id, "initial_messages": [], "chat_completions_url": "http://x"}
        return read(self.desk.admit(json.dumps({**body, **changes}).encode()))

    async def poll(self, rollout_id: str, lease: str | None, *, until_end: bool = False) -> tuple[int, Any]:
        return read(await self.desk.result(rollout_id, lease, until_end=until_end))

    def cancel(self, **body: Any) -> tuple[int, Any]:
        return read(self.desk.cancel(json.dumps(body).encode()))

    async def finish(self, job: Job, status: Status = Status.SUCCESS) -> None:
        reply = {"rollout_id": job.request.rollout_id, "status": status.value}
        self.desk.concluded(job, status, json.dumps(reply).encode())
        await asyncio.sleep(0.01)


def read(reply: Reply) -> tuple[int, Any]:
    return reply[0], json.loads(reply[1])


def play(check: Callable[[Scene], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        await check(Scene(**settings))

    asyncio.run(main())


def test_admission_promises_a_lease_that_outlasts_a_wait() -> None:
    async def check(scene: Scene) -> None:
        status, promise = scene.admit("a")
        assert (status, promise["status"], promise["rollout_id"]) == (202, "queued", "a")
        assert promise["polling_lease_timeout_sec"] > promise["result_wait_timeout_sec"]
        assert len(scene.author.jobs) == 1
        assert scene.author.jobs[0].folder == Path("/nowhere/a")

    play(check)


def test_the_same_id_is_not_admitted_twice_and_a_bad_body_not_at_all() -> None:
    async def check(scene: Scene) -> None:
        scene.admit("a")
        assert scene.admit("a")[0] == 409
        assert scene.admit("../b")[0] == 422
        scene.desk.fence()
        assert scene.admit("c")[0] == 503

    play(check)


def test_a_full_host_says_when_to_come_again() -> None:
    async def check(scene: Scene) -> None:
        scene.admit("a")
        scene.admit("b")
        status, _, headers = scene.desk.admit(
            b'{"rollout_id":"c","initial_messages":[],"chat_completions_url":"x"}'
        )
        assert (status, headers) == (429, ((b"retry-after", b"5"),))

    play(check, max_concurrent=1)


def test_a_poll_needs_the_right_lease_of_a_known_rollout() -> None:
    async def check(scene: Scene) -> None:
        _, promise = scene.admit("a")
        assert (await scene.poll("a", None))[0] == 422
        assert (await scene.poll("b", "x"))[0] == 404
        assert (await scene.poll("a", "wrong"))[0] == 403
        assert (await scene.poll("a", "wr\u00f6ng"))[0] == 403
        scene.desk.entered(scene.author.jobs[0], Status.RUNNING)
        assert (await scene.poll("a", promise["polling_lease_token"]))[1]["status"] == "running"

    play(check)


def test_every_change_of_status_is_told_once_and_the_result_again_and_again() -> None:
    async def check(scene: Scene) -> None:
        _, promise = scene.admit("a")
        lease, job = promise["polling_lease_token"], scene.author.jobs[0]
        scene.desk.entered(job, Status.RUNNING)
        assert (await scene.poll("a", lease))[1] == {"rollout_id": "a", "status": "running"}
        polling = asyncio.create_task(scene.poll("a", lease))
        await asyncio.sleep(0.02)
        assert not polling.done()
        scene.desk.entered(job, Status.GRADING)
        assert (await polling)[1]["status"] == "grading"
        await scene.finish(job)
        assert (await scene.poll("a", lease))[1]["status"] == "success"
        assert (await scene.poll("a", lease))[1]["status"] == "success"

    play(check)


def test_who_waits_for_the_end_hears_of_nothing_before() -> None:
    async def check(scene: Scene) -> None:
        _, promise = scene.admit("a")
        job = scene.author.jobs[0]
        polling = asyncio.create_task(scene.poll("a", promise["polling_lease_token"], until_end=True))
        scene.desk.entered(job, Status.RUNNING)
        scene.desk.entered(job, Status.GRADING)
        await asyncio.sleep(0.02)
        assert not polling.done()
        await scene.finish(job)
        assert (await polling)[1]["status"] == "success"

    play(check)


def test_a_wait_ends_with_the_status_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "RESULT_WAIT_S", 0.05)

    async def check(scene: Scene) -> None:
        _, promise = scene.admit("a")
        assert (await scene.poll("a", promise["polling_lease_token"]))[1]["status"] == "queued"

    play(check)


def test_cancelling_names_what_it_met_and_may_be_repeated() -> None:
    async def check(scene: Scene) -> None:
        for name in ("a1", "a2", "b1"):
            scene.admit(name)
        scene.desk.entered(scene.author.jobs[1], Status.RUNNING)
        await asyncio.sleep(0.01)
        wanted = {"a1": "cancelled_queued", "a2": "cancelled_running"}
        assert scene.cancel(prefix="a") == (200, {"dispositions": wanted})
        assert scene.cancel(ids=["zz"]) == (200, {"dispositions": {"zz": "not_found"}})
        scene.cancel(all=True)
        assert scene.author.cancelled == ["a1", "a2", "b1"]

    play(check)


@pytest.mark.parametrize("body", [{}, {"ids": [], "all": True}, {"prefix": "a", "ids": ["a"]}, {"ids": "a"}])
def test_cancelling_needs_exactly_one_selector(body: dict[str, Any]) -> None:
    async def check(scene: Scene) -> None:
        assert scene.cancel(**body)[0] == 422

    play(check)


def test_time_that_is_up_ends_a_phase_with_a_verdict() -> None:
    async def check(scene: Scene) -> None:
        scene.admit("a", agent_timeout_sec=0.05, grader_timeout_sec=0.05)
        scene.admit("b", agent_timeout_sec=60, grader_timeout_sec=-1)
        first, second = scene.author.jobs
        scene.desk.entered(first, Status.RUNNING)
        scene.desk.entered(second, Status.RUNNING)
        scene.desk.entered(second, Status.GRADING)
        await until_true(lambda: len(scene.author.cancelled) == 2)
        verdicts = [job.verdict.failure for job in (first, second) if job.verdict]
        assert [(v.category, v.phase) for v in verdicts if v] == [
            ("timeout", "workflow"),
            ("timeout", "grader"),
        ]

    play(check)


def test_the_grading_of_what_ran_out_of_time_has_its_own_limit_and_can_be_cancelled() -> None:
    async def check(scene: Scene) -> None:
        scene.admit("a", agent_timeout_sec=0.01, grader_timeout_sec=60)
        job = scene.author.jobs[0]
        scene.desk.entered(job, Status.RUNNING)
        await until_true(lambda: job.verdict)
        job.condemned, job.passed_over = True, job.verdict
        scene.desk.entered(job, Status.GRADING)
        await until_true(lambda: job.verdict is None)
        assert not job.condemned
        scene.cancel(ids=["a"])
        assert job.verdict is not None
        assert job.verdict.status is Status.CANCELLED
        assert scene.author.cancelled == ["a", "a"]

    play(check)


def test_a_rollouts_clock_stands_still_while_another_blocks_the_loop() -> None:
    async def check(scene: Scene) -> None:
        scene.admit("a", agent_timeout_sec=0.1)
        job = scene.author.jobs[0]
        scene.desk.entered(job, Status.RUNNING)
        await asyncio.sleep(0.02)
        other = Job(job.request, job.folder, scene.desk)
        scene.watch.blockage = Blockage(asyncio.get_running_loop().time(), other, "main.py:1 in run")
        await asyncio.sleep(0.3)
        assert job.verdict is None
        scene.watch.total, scene.watch.blockage = 0.28, None
        await until_true(lambda: job.verdict)

    play(check)


def test_code_that_does_not_stop_is_condemned_and_its_result_published_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(desk_module, "CONDEMN_AFTER_S", 0.02)
    monkeypatch.setattr(desk_module, "CLEANUP_S", 0.06)

    async def check(scene: Scene) -> None:
        _, promise = scene.admit("a", agent_timeout_sec=0.01)
        job = scene.author.jobs[0]
        scene.desk.entered(job, Status.RUNNING)
        await until_true(lambda: job.condemned)
        _, result = await scene.poll("a", promise["polling_lease_token"], until_end=True)
        assert (result["status"], result["err_category"]) == ("failure", "timeout")
        assert scene.desk.active == 1
        assert scene.admit("a")[0] == 409
        await scene.finish(job)
        assert scene.desk.active == 0
        _, again = await scene.poll("a", promise["polling_lease_token"])
        assert again["status"] == "failure"

    play(check)


def test_a_lease_that_lapses_ends_the_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "SWEEP_S", 0.01)
    monkeypatch.setattr("osmosis_runner.rollout.registry.LEASE_S", 0.05)

    async def check(scene: Scene) -> None:
        scene.admit("a")
        sweeping = asyncio.create_task(scene.desk.sweep())
        await until_true(lambda: scene.author.cancelled)
        sweeping.cancel()
        verdict = scene.author.jobs[0].verdict
        assert verdict is not None
        assert verdict.failure is not None
        assert verdict.failure.category == "lease_expired"

    play(check)


def test_a_result_tells_how_long_its_rollout_blocked_the_loop() -> None:
    async def check(scene: Scene) -> None:
        _, promise = scene.admit("a")
        job = scene.author.jobs[0]
        scene.desk.unblocked(Blockage(0.0, job, "main.py:8 in run"), 2.5)
        await scene.finish(job)
        _, result = await scene.poll("a", promise["polling_lease_token"])
        assert (result["blocked_ms"], result["blocked_at"]) == (2500, "main.py:8 in run")
        assert "blocked the event loop for 2.5 s" in scene.logged[0]

    play(check)


def test_health_tells_identity_load_and_capacity() -> None:
    async def check(scene: Scene) -> None:
        scene.admit("a")
        _, health = read(scene.desk.health())
        assert (health["status"], health["instance_id"], health["protocol_version"]) == ("ok", "inst", "0.4")
        assert health["concurrency"] == {"max_concurrent": 3, "queued": 1, "running": 0}
        assert health["lifecycle"] == {"accepting_rollouts": True, "active_rollouts": 1}
        scene.desk.cancel_all()
        assert scene.author.cancelled == ["a"]

    play(check, max_concurrent=3)
