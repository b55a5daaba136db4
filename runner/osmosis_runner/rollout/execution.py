"""One rollout on the author's event loop: workflow, then grader, then the result as it will be sent.

Knows nothing of HTTP, leases or clocks: somebody else decides that time is up, writes why into `Job.verdict` and
cancels the task. A failing rollout is a value (`Conclusion`), never an exception.
"""

from __future__ import annotations

import asyncio
import inspect
import numbers
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec

from osmosis_runner.rollout.agent import (
    AgentWorkflow,
    AgentWorkflowOutput,
    Grader,
    GraderContext,
    Message,
    Sample,
    WorkflowContext,
)
from osmosis_runner.rollout.places import author_traceback, raised_at
from osmosis_runner.rollout.registry import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from osmosis_runner.rollout.admission import RolloutRequest
    from osmosis_runner.rollout.clients import Clients

MESSAGE_LIMIT = 850
"""So that the place after it survives in a record, whose messages have 1,000 characters."""
TRACEBACK_LIMIT = 8_000

Phase: TypeAlias = Literal["workflow", "grader"]
WorkflowSource: TypeAlias = "type[AgentWorkflow] | AgentWorkflow"
GraderSource: TypeAlias = "type[Grader] | Grader | None"


class Failure(msgspec.Struct, frozen=True):
    """Why a rollout failed."""

    category: str
    """In the protocol's words: timeout, lease_expired, validation_error, agent_error, internal_error."""
    message: str
    phase: Phase
    traceback: str | None = None
    """Of an exception that the author's code raised: without our frames, cut to its last characters."""


class Unfit(Exception):
    """What the author's code handed back cannot be used; the text says why and what to do."""


class Verdict(msgspec.Struct, frozen=True):
    """Somebody outside ended the rollout."""

    status: Status
    failure: Failure | None = None


class Reporter(Protocol):
    """Who is told how a job fares. Called on the author's thread."""

    def entered(self, job: Job, status: Status) -> None:
        """A phase began."""
        ...

    def concluded(self, job: Job, status: Status, reply: bytes) -> None:
        """The job is over: `reply` is its terminal reply, and nothing of it runs any more."""
        ...


class Job(msgspec.Struct, eq=False):
    """One rollout between the two threads. Each field has one writer, named in its note."""

    request: RolloutRequest
    folder: Path
    reporter: Reporter
    verdict: Verdict | None = None
    """Written by the server thread before it cancels the task."""
    condemned: bool = False
    """Written by the server thread: the verdict has stood for a while and the task still runs."""
    task: asyncio.Task[None] | None = None
    """Written by the author's thread once the task runs: one that is cancelled before that would say nothing."""
    passed_over: Verdict | None = None
    """Written by the author's thread: the verdict that ended the workflow and not the rollout, which is graded."""

    @property
    def standing(self) -> Verdict | None:
        """The verdict that decides how the job ends."""
        return None if self.verdict is self.passed_over else self.verdict


class Conclusion(msgspec.Struct, frozen=True):
    """How a rollout ended."""

    status: Status
    sample: Sample | None = None
    label: str | None = None
    reward: float | None = None
    failure: Failure | None = None
    overrun: Failure | None = None
    """The workflow's time ran out, and what it had left was graded."""


current_job: ContextVar[Job | None] = ContextVar("current_job", default=None)
"""The rollout on whose behalf the author's code is running, in every task it started."""


class Agent(msgspec.Struct, frozen=True):
    """The author's two classes and what their contexts need."""

    workflow: WorkflowSource
    grader: GraderSource
    clients: Clients
    grade_timed_out: bool = False
    """What a workflow that ran out of time has left is graded."""

    async def execute(self, job: Job) -> Conclusion:
        """Run one rollout to its end; the job's reporter hears when a phase begins."""
        request = job.request
        current_job.set(job)
        job.reporter.entered(job, Status.RUNNING)
        sample, failure = await self._run(job)
        if self._may_grade_late(job):
            # Before the grading phase is told: from then on another verdict may come.
            job.passed_over, failure = job.verdict, None
            sample = sample or Sample(list(request.initial_messages))
            _forget_cancelling()
        if failure is not None:
            return _concluded(job, sample, None, failure)
        if not request.grade or self.grader is None:
            return _concluded(job, sample, None, None)
        job.reporter.entered(job, Status.GRADING)
        reward, failure = await self._grade(job, cast("Sample", sample))
        return _concluded(job, sample, reward, failure)

    def _may_grade_late(self, job: Job) -> bool:
        """Whether the workflow ran out of time and is graded all the same."""
        failure = job.verdict.failure if job.verdict else None
        if failure is None or (failure.category, failure.phase) != ("timeout", "workflow"):
            return False
        return self.grade_timed_out and self.grader is not None and job.request.grade

    async def _run(self, job: Job) -> tuple[Sample | None, Failure | None]:
        ctx = WorkflowContext(job.request, job.folder, self.clients)
        boundary = Boundary("workflow", job)
        with boundary.watch():
            workflow = self.workflow() if isinstance(self.workflow, type) else self.workflow
            return _sample(await _called(workflow.run, ctx), ctx), None
        return _attached(ctx), boundary.failure

    async def _grade(self, job: Job, sample: Sample) -> tuple[float | None, Failure | None]:
        source = self.grader
        ctx = GraderContext(job.request, job.folder, self.clients, sample)
        boundary = Boundary("grader", job)
        with boundary.watch():
            grader = source() if isinstance(source, type) else source
            _check_graded(await _called(cast("Grader", grader).grade, ctx), ctx)
        return ctx.reward, boundary.failure


class Boundary:
    """Turns whatever the author's code raises into one `Failure`."""

    def __init__(self, phase: Phase, job: Job) -> None:
        self._phase: Phase = phase
        self._job = job
        self.failure: Failure | None = None

    @contextmanager
    def watch(self) -> Generator[None]:
        """Run the author's code inside. Nothing it raises gets out."""
        try:
            yield
        except asyncio.CancelledError:
            # Ours when there is a verdict (`_concluded` reads it); else the author's code cancelled itself.
            self.failure = Failure(
                "agent_error", f"the {self._phase} was cancelled by its own code", self._phase
            )
        except Unfit as error:
            self.failure = Failure("validation_error", str(error), self._phase)
        except (ValueError, TypeError, AssertionError) as error:
            self.failure = self._of(error, "validation_error")
        except GeneratorExit:
            # The interpreter closes the coroutine: it must not go on.
            raise
        except BaseException as error:  # noqa: BLE001 - the author's code may raise anything, and fails alone
            self.failure = self._of(error, "agent_error")

    def _of(self, error: BaseException, category: str) -> Failure:
        text = _text_of(error)
        message = f"{type(error).__name__}: {text}" if text else type(error).__name__
        trace, place = author_traceback(error), raised_at(error)
        key = self._job.request.llm_api_key
        if key:
            message, trace = message.replace(key, "[REDACTED]"), trace.replace(key, "[REDACTED]")
        message = message[:MESSAGE_LIMIT] + (f" ({place})" if place else "")
        return Failure(category, message, self._phase, trace[-TRACEBACK_LIMIT:])


async def _called(function: Callable[..., Any], ctx: WorkflowContext | GraderContext) -> Any:  # noqa: ANN401 - the author's answer
    if inspect.iscoroutinefunction(function):
        return await function(ctx)
    answer = await asyncio.to_thread(_called_plainly, function, ctx)
    return await answer if inspect.isawaitable(answer) else answer


AUTHORS_PART = _called.__code__
"""Below a frame of this code the author's runs, and whatever is raised there is caught."""


def _called_plainly(function: Callable[..., Any], ctx: WorkflowContext | GraderContext) -> Any:  # noqa: ANN401 - the author's answer
    try:
        return function(ctx)
    except StopIteration as error:
        # No future can hold one: whoever waits for the thread would wait for ever.
        message = "StopIteration was raised and not caught"
        raise RuntimeError(message) from error


def _check_graded(answer: object, ctx: GraderContext) -> None:
    """Raise `Unfit` for a sample that is to be kept and has no reward."""
    if ctx.reward is not None or ctx.sample.remove_sample:
        return
    if isinstance(answer, numbers.Real):
        message = f"grade() returned {answer!r} and set no reward; call ctx.set_reward({answer!r}) instead"
        raise Unfit(message)
    message = (
        "grade() set no reward; call ctx.set_reward(number) on every path through it, "
        "or set ctx.sample.remove_sample = True to leave the item out"
    )
    raise Unfit(message)


def _sample(answer: object, ctx: WorkflowContext) -> Sample:
    """The sample of what `run` returned; raises `Unfit` when that is none of the three it may be."""
    if isinstance(answer, AgentWorkflowOutput):
        messages = answer.messages if answer.messages is not None else ctx.messages or ctx.prompt
        return Sample(_messages(messages), metrics=dict(answer.metrics), info=dict(answer.info))
    if answer is None:
        said = _messages(ctx.messages)
        if not any(message.get("role") == "assistant" for message in said):
            message = (
                "run() returned nothing and ctx.messages holds no assistant message; "
                "return the conversation, as in `return [*ctx.prompt, reply]`"
            )
            raise Unfit(message)
        return Sample(said)
    if isinstance(answer, (list, tuple)):
        return Sample(_messages(cast("Sequence[object]", answer)))
    message = f"run() must return messages, an AgentWorkflowOutput or None, got {type(answer).__name__}"
    raise Unfit(message)


def _attached(ctx: WorkflowContext) -> Sample | None:
    """What a failed workflow had attached of its conversation."""
    try:
        return Sample(_messages(ctx.messages)) if ctx.messages else None
    except Exception:  # noqa: BLE001 - anything may stand there, and the workflow has failed already
        return None


def _messages(raw: Sequence[object]) -> list[Message]:
    messages: list[Message] = []
    for index, item in enumerate(raw):
        # The openai package's messages are pydantic models: taken as what they would be on the wire.
        dump = getattr(item, "model_dump", None)
        value: object = dump(exclude_unset=True, mode="json") if callable(dump) else item
        if not isinstance(value, dict):
            message = f"message {index} of run() must be an object, got {type(item).__name__}"
            raise Unfit(message)
        messages.append(cast("Message", value))
    return messages


def _concluded(job: Job, sample: Sample | None, reward: float | None, failure: Failure | None) -> Conclusion:
    label, verdict = job.request.label, job.standing
    overrun = job.passed_over.failure if job.passed_over else None
    if verdict is not None and (failure is not None or verdict.status is Status.FAILURE):
        return Conclusion(verdict.status, sample, label, failure=verdict.failure, overrun=overrun)
    if failure is not None:
        return Conclusion(Status.FAILURE, sample, label, failure=failure, overrun=overrun)
    removed = sample is not None and sample.remove_sample
    return Conclusion(Status.SUCCESS, sample, label, reward=None if removed else reward, overrun=overrun)


def _forget_cancelling() -> None:
    """Make the running task one that nobody cancelled, so that time limits of the grader's own work in it."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - `__str__` is the author's code too
        return f"(its text cannot be had: {type(broken).__name__})"
