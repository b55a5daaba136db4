from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osmosis_runner import journal_record
from osmosis_runner.rollout.admission import RolloutRequest
from osmosis_runner.rollout.agent import AgentWorkflow, AgentWorkflowOutput, Grader
from osmosis_runner.rollout.clients import Clients
from osmosis_runner.rollout.execution import Agent, Conclusion, Failure, Job, Verdict, current_job
from osmosis_runner.rollout.registry import Status

PROMPT = [{"role": "user", "content": "hi"}]
ANSWER = {"role": "assistant", "content": "yo"}


class Listener:
    def __init__(self) -> None:
        self.phases: list[Status] = []

    def entered(self, job: Job, status: Status) -> None:
        self.phases.append(status)

    def concluded(self, job: Job, status: Status, reply: bytes) -> None: ...


def workflow(body: Callable[[Any], Any]) -> type[AgentWorkflow]:
    class Made(AgentWorkflow):
        async def run(self, ctx: Any) -> Any:
            answer = body(ctx)
            return await answer if asyncio.iscoroutine(answer) else answer

    return Made


def grader(body: Callable[[Any], Any]) -> type[Grader]:
    class Made(Grader):
        async def grade(self, ctx: Any) -> None:
            answer = body(ctx)
            if asyncio.iscoroutine(answer):
                await answer

    return Made


def job_of(tmp_path: Path, **changes: Any) -> tuple[Job, Listener]:
    fields: dict[str, Any] = {
        "rollout_id": "r1",
        "initial_messages": list(PROMPT),
        "chat_completions_url": "http://x",
        "llm_api_key": "orb-secret-bearer",
        "label": "yo",
    }
    listener = Listener()
    return Job(RolloutRequest(**{**fields, **changes}), tmp_path / "r1", listener), listener


def execute(
    tmp_path: Path, run: Callable[[Any], Any], scores: Callable[[Any], Any] | None = None, **changes: Any
) -> Conclusion:
    agent = Agent(workflow(run), grader(scores) if scores else None, Clients())
    return asyncio.run(agent.execute(job_of(tmp_path, **changes)[0]))


def boom(_ctx: Any) -> None:
    raise RuntimeError("went wrong with orb-secret-bearer")


def test_a_rollout_runs_then_is_graded_and_tells_its_phases(tmp_path: Path) -> None:
    job, listener = job_of(tmp_path)
    agent = Agent(
        workflow(lambda ctx: [*ctx.prompt, ANSWER]), grader(lambda ctx: ctx.set_reward(0.5)), Clients()
    )
    conclusion = asyncio.run(agent.execute(job))
    assert (conclusion.status, conclusion.reward, conclusion.label) == (Status.SUCCESS, 0.5, "yo")
    assert conclusion.sample is not None
    assert conclusion.sample.messages == [*PROMPT, ANSWER]
    assert listener.phases == [Status.RUNNING, Status.GRADING]


@pytest.mark.parametrize(
    ("answer", "messages"),
    [
        (lambda ctx: [ANSWER], [ANSWER]),
        (lambda ctx: (ANSWER,), [ANSWER]),
        (lambda ctx: AgentWorkflowOutput([ANSWER]), [ANSWER]),
        (lambda ctx: AgentWorkflowOutput(), PROMPT),
        (lambda ctx: ctx.messages.append(ANSWER), [ANSWER]),
    ],
)
def test_run_may_answer_in_any_of_its_shapes(tmp_path: Path, answer: Any, messages: Any) -> None:
    conclusion = execute(tmp_path, answer)
    assert conclusion.status is Status.SUCCESS
    assert conclusion.sample is not None
    assert conclusion.sample.messages == messages


@pytest.mark.parametrize("answer", ["text", 5, {"role": "user"}, ["text"], [None]])
def test_another_answer_is_a_validation_error_of_the_workflow(tmp_path: Path, answer: object) -> None:
    failure = execute(tmp_path, lambda ctx: answer).failure
    assert failure is not None
    assert (failure.category, failure.phase) == ("validation_error", "workflow")


def test_a_failing_workflow_keeps_what_it_attached_and_hides_its_bearer(tmp_path: Path) -> None:
    def run(ctx: Any) -> None:
        ctx.messages = [*ctx.prompt, ANSWER]
        boom(ctx)

    conclusion = execute(tmp_path, run)
    assert conclusion.status is Status.FAILURE
    assert conclusion.sample is not None
    assert conclusion.sample.messages == [*PROMPT, ANSWER]
    failure = conclusion.failure
    assert failure is not None
    assert failure.category == "agent_error"
    assert re.fullmatch(
        r"RuntimeError: went wrong with \[REDACTED\] \(test_execution\.py:\d+ in boom\)", failure.message
    )
    assert failure.traceback is not None
    assert "orb-secret-bearer" not in failure.traceback
    assert "test_execution.py" in failure.traceback
    assert 'execution.py", line' not in failure.traceback.replace("test_execution.py", "")


@pytest.mark.parametrize("error", [ValueError("x"), TypeError("x"), AssertionError()])
def test_some_errors_are_validation_errors(tmp_path: Path, error: Exception) -> None:
    def run(_ctx: Any) -> None:
        raise error

    failure = execute(tmp_path, run).failure
    assert failure is not None
    assert failure.category == "validation_error"


def test_leaving_the_process_fails_the_rollout_only(tmp_path: Path) -> None:
    failure = execute(tmp_path, lambda ctx: sys.exit(3)).failure
    assert failure is not None
    assert failure.category == "agent_error"
    assert failure.message.startswith("SystemExit: 3 (test_execution.py:")


class Alarm(BaseException):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise KeyError


@pytest.mark.parametrize("error", [Alarm("fire"), KeyboardInterrupt(), Unspeakable()])
def test_whatever_is_raised_fails_the_rollout_only(tmp_path: Path, error: BaseException) -> None:
    def run(_ctx: Any) -> None:
        raise error

    failure = execute(tmp_path, run).failure
    assert failure is not None
    assert failure.category == "agent_error"
    assert failure.message.startswith(type(error).__name__)


def test_a_long_message_keeps_the_place_within_what_a_record_holds(tmp_path: Path) -> None:
    def run(_ctx: Any) -> None:
        raise RuntimeError("x" * 100_000)

    failure = execute(tmp_path, run).failure
    assert failure is not None
    assert len(failure.message) < journal_record.MESSAGE_LIMIT
    assert re.search(r"xxx \(test_execution\.py:\d+ in run\)$", failure.message)


def test_a_plain_run_that_raises_stop_iteration_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    class Plain(AgentWorkflow):
        def run(self, ctx: Any) -> Any:
            return next(iter([]))

    failure = asyncio.run(Agent(Plain, None, Clients()).execute(job_of(tmp_path)[0])).failure
    assert failure is not None
    assert "StopIteration was raised and not caught" in failure.message
    assert "in run" in (failure.traceback or "")


@pytest.mark.parametrize("said", [[], [{"role": "user", "content": "yo"}]])
def test_an_answer_of_none_without_a_reply_is_a_failure_that_says_what_to_return(
    tmp_path: Path, said: Any
) -> None:
    failure = execute(tmp_path, lambda ctx: ctx.messages.extend(said), lambda ctx: ctx.set_reward(1)).failure
    assert failure == Failure(
        "validation_error",
        "run() returned nothing and ctx.messages holds no assistant message; "
        "return the conversation, as in `return [*ctx.prompt, reply]`",
        "workflow",
    )


def test_a_grader_that_returns_its_reward_is_told_to_set_it(tmp_path: Path) -> None:
    class Returning(Grader):
        async def grade(self, ctx: Any) -> Any:
            return 0.5

    agent = Agent(workflow(lambda ctx: [ANSWER]), Returning, Clients())
    conclusion = asyncio.run(agent.execute(job_of(tmp_path)[0]))
    assert conclusion.status is Status.FAILURE
    assert conclusion.failure == Failure(
        "validation_error",
        "grade() returned 0.5 and set no reward; call ctx.set_reward(0.5) instead",
        "grader",
    )


def test_a_grader_that_sets_no_reward_fails_the_rollout(tmp_path: Path) -> None:
    conclusion = execute(tmp_path, lambda ctx: [ANSWER], lambda ctx: None)
    assert (conclusion.status, conclusion.reward) == (Status.FAILURE, None)
    assert conclusion.failure is not None
    assert (conclusion.failure.category, conclusion.failure.phase) == ("validation_error", "grader")
    assert "set no reward; call ctx.set_reward" in conclusion.failure.message


def test_a_refused_reward_is_told_with_the_graders_line(tmp_path: Path) -> None:
    failure = execute(tmp_path, lambda ctx: [ANSWER], lambda ctx: ctx.set_reward(float("nan"))).failure
    assert failure is not None
    assert re.fullmatch(
        r"ValueError: set_reward\(\) wants a finite number, got nan \(test_execution\.py:\d+ in <lambda>\)",
        failure.message,
    )


def test_messages_that_cannot_be_read_do_not_hide_why_the_workflow_failed(tmp_path: Path) -> None:
    class Broken:
        def model_dump(self, **_: Any) -> Any:
            raise ZeroDivisionError

    def run(ctx: Any) -> None:
        ctx.messages.append(Broken())
        boom(ctx)

    conclusion = execute(tmp_path, run)
    assert conclusion.sample is None
    assert conclusion.failure is not None
    assert conclusion.failure.message.startswith("RuntimeError: went wrong")


def test_a_failing_grader_fails_in_its_phase_and_keeps_the_sample(tmp_path: Path) -> None:
    conclusion = execute(tmp_path, lambda ctx: [ANSWER], boom)
    assert conclusion.status is Status.FAILURE
    assert conclusion.reward is None
    assert conclusion.sample is not None
    assert conclusion.failure is not None
    assert conclusion.failure.phase == "grader"


def test_a_removed_sample_has_no_reward(tmp_path: Path) -> None:
    def grade(ctx: Any) -> None:
        ctx.set_reward(1)
        ctx.sample.remove_sample = True

    conclusion = execute(tmp_path, lambda ctx: [ANSWER], grade)
    assert (conclusion.status, conclusion.reward) == (Status.SUCCESS, None)


def test_without_grading_there_is_no_reward(tmp_path: Path) -> None:
    assert execute(tmp_path, lambda ctx: [ANSWER], boom, grade=False).status is Status.SUCCESS
    assert execute(tmp_path, lambda ctx: [ANSWER]).reward is None


def test_a_plain_run_is_called_in_a_thread_of_its_own(tmp_path: Path) -> None:
    import threading

    class Plain(AgentWorkflow):
        def run(self, ctx: Any) -> Any:
            return [{"role": "assistant", "content": threading.current_thread().name}]

    conclusion = asyncio.run(Agent(Plain, None, Clients()).execute(job_of(tmp_path)[0]))
    assert conclusion.sample is not None
    assert conclusion.sample.messages[0]["content"] != threading.current_thread().name


def cancelled(tmp_path: Path, verdict: Verdict | None, run: Callable[[Any], Any]) -> Conclusion:
    async def main() -> Conclusion:
        job, _ = job_of(tmp_path)
        task = asyncio.create_task(Agent(workflow(run), None, Clients()).execute(job))
        await asyncio.sleep(0.01)
        job.verdict = verdict
        task.cancel()
        return await task

    return asyncio.run(main())


async def forever(_ctx: Any) -> None:
    await asyncio.sleep(60)


async def stubborn(_ctx: Any) -> list[Any]:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(0.01)
    return [ANSWER]


TIMEOUT = Verdict(Status.FAILURE, Failure("timeout", "too long", "workflow"))


def test_a_verdict_says_how_a_cancelled_rollout_ended(tmp_path: Path) -> None:
    assert cancelled(tmp_path, Verdict(Status.CANCELLED), forever).status is Status.CANCELLED
    ended = cancelled(tmp_path, TIMEOUT, forever)
    assert (ended.status, ended.failure) == (Status.FAILURE, TIMEOUT.failure)


def test_work_that_was_finished_after_all_counts_unless_its_time_was_up(tmp_path: Path) -> None:
    assert cancelled(tmp_path, Verdict(Status.CANCELLED), stubborn).status is Status.SUCCESS
    late = cancelled(tmp_path, TIMEOUT, stubborn)
    assert (late.status, late.reward) == (Status.FAILURE, None)
    assert late.sample is not None


def test_code_that_cancels_itself_has_failed(tmp_path: Path) -> None:
    def run(_ctx: Any) -> None:
        raise asyncio.CancelledError

    failure = execute(tmp_path, run).failure
    assert failure is not None
    assert "its own code" in failure.message


def test_every_task_of_a_rollout_knows_its_job(tmp_path: Path) -> None:
    async def run(_ctx: Any) -> Any:
        async def child() -> str:
            job = current_job.get()
            return job.request.rollout_id if job else ""

        return [{"role": "assistant", "content": await asyncio.create_task(child())}]

    conclusion = execute(tmp_path, run)
    assert conclusion.sample is not None
    assert conclusion.sample.messages[0]["content"] == "r1"


TIME_IS_UP = Verdict(Status.FAILURE, Failure("timeout", "the workflow did not finish within 2 s", "workflow"))


def overrun(tmp_path: Path, run: Any, scores: Any, *, graded_late: bool = True, **changes: Any) -> Conclusion:
    """How a rollout ends whose workflow is still running when its time is up."""

    async def main() -> Conclusion:
        job, _ = job_of(tmp_path, **changes)
        agent = Agent(workflow(run), grader(scores), Clients(), graded_late)
        task = asyncio.create_task(agent.execute(job))
        await asyncio.sleep(0.01)
        job.verdict = TIME_IS_UP
        task.cancel()
        return await task

    return asyncio.run(main())


async def answers_and_goes_on(ctx: Any) -> None:
    ctx.messages = [*ctx.prompt, ANSWER]
    await asyncio.sleep(60)


async def grades_with_tasks_and_limits_of_its_own(ctx: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    async with asyncio.timeout(10):
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(60))
                group.create_task(asyncio.to_thread(boom, ctx))
    ctx.set_reward(1.0 if ctx.sample.messages[-1] == ANSWER else 0.0)


def test_what_a_workflow_left_when_its_time_ran_out_is_graded_where_the_author_says_so(
    tmp_path: Path,
) -> None:
    conclusion = overrun(tmp_path, answers_and_goes_on, grades_with_tasks_and_limits_of_its_own)
    assert (conclusion.status, conclusion.reward, conclusion.failure) == (Status.SUCCESS, 1.0, None)
    assert conclusion.overrun is TIME_IS_UP.failure


def test_a_workflow_that_left_no_message_is_graded_by_the_prompt_and_its_artifacts(tmp_path: Path) -> None:
    seen: list[Any] = []

    def score(ctx: Any) -> None:
        seen.extend(ctx.sample.messages)
        ctx.set_reward(0)

    assert overrun(tmp_path, forever, score).reward == 0
    assert seen == PROMPT


def test_unless_the_author_says_so_a_timeout_is_a_failure(tmp_path: Path) -> None:
    for changes in ({"graded_late": False}, {"grade": False}):
        conclusion = overrun(tmp_path, answers_and_goes_on, lambda ctx: ctx.set_reward(1), **changes)
        assert (conclusion.status, conclusion.failure) == (Status.FAILURE, TIME_IS_UP.failure)
        assert conclusion.overrun is None


def test_a_grader_that_fails_after_a_timeout_has_failed(tmp_path: Path) -> None:
    conclusion = overrun(tmp_path, answers_and_goes_on, boom)
    assert conclusion.failure is not None
    assert (conclusion.status, conclusion.failure.phase) == (Status.FAILURE, "grader")
    assert conclusion.overrun is TIME_IS_UP.failure


def test_a_rollout_that_is_cancelled_while_it_is_graded_late_is_cancelled(tmp_path: Path) -> None:
    async def main() -> Conclusion:
        job, listener = job_of(tmp_path)
        agent = Agent(workflow(forever), grader(forever), Clients(), grade_timed_out=True)
        task = asyncio.create_task(agent.execute(job))
        for verdict in (TIME_IS_UP, Verdict(Status.CANCELLED)):
            await asyncio.sleep(0.01)
            job.verdict = verdict
            task.cancel()
        conclusion = await task
        assert listener.phases == [Status.RUNNING, Status.GRADING]
        return conclusion

    assert asyncio.run(main()).status is Status.CANCELLED
