"""What the author of a rollout writes against: workflow, grader, their contexts, the sample.

Knows nothing of the server that calls it. Everything here runs on the author's own event loop.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from openai import AsyncOpenAI

    from osmosis_runner.rollout.admission import RolloutRequest
    from osmosis_runner.rollout.clients import Clients

Message: TypeAlias = "dict[str, Any]"
"""One chat message in OpenAI's shape."""


@dataclass(slots=True)
class AgentWorkflowOutput:
    """What `AgentWorkflow.run` hands back when the messages alone are not enough."""

    messages: Sequence[Message] | None = None
    """The whole conversation, the prompt included. None: `ctx.messages`, else the prompt."""
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    """Numbers to keep beside the reward."""
    info: dict[str, Any] = field(default_factory=dict[str, Any])
    """Anything else to keep, as JSON values."""


@dataclass(slots=True)
class Sample:
    """What a grader sees of a rollout."""

    messages: list[Message]
    remove_sample: bool = False
    """Set it to leave the item out of every figure (it is then recorded as skipped)."""
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    info: dict[str, Any] = field(default_factory=dict[str, Any])


class RolloutContext:
    """What workflow and grader both may use of one rollout."""

    def __init__(self, request: RolloutRequest, folder: Path, clients: Clients) -> None:
        self._request = request
        self._folder = folder
        self._clients = clients

    @property
    def rollout_id(self) -> str:
        """The id of this attempt."""
        return self._request.rollout_id

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The row's metadata object, if it has one."""
        return self._request.metadata

    @property
    def base_url(self) -> str:
        """The model's endpoint for this rollout; append `/chat/completions`, or give it to any OpenAI client."""
        return self._request.chat_completions_url

    @property
    def api_key(self) -> str:
        """The bearer that goes with `base_url`. It opens nothing else and ends with the rollout."""
        return self._request.llm_api_key or "none"

    @property
    def client(self) -> AsyncOpenAI:
        """An `openai.AsyncOpenAI` on `base_url`. All rollouts share its connections.

        Raises RuntimeError when the openai package is not installed.
        """
        return self._clients.openai(self.base_url, self.api_key)

    @property
    def artifacts_dir(self) -> Path:
        """A folder of this attempt's own; what is left in it is kept with the results."""
        path = self._folder / "artifacts"
        path.mkdir(parents=True, exist_ok=True)
        return path


class WorkflowContext(RolloutContext):
    """What `AgentWorkflow.run` is given."""

    def __init__(self, request: RolloutRequest, folder: Path, clients: Clients) -> None:
        super().__init__(request, folder, clients)
        self.messages: list[Message] = []
        """The conversation so far, if the workflow cares to keep it here: it is then kept when the workflow
        fails or runs out of time, and is the answer when `run` returns None."""

    @property
    def prompt(self) -> list[Message]:
        """The row's messages."""
        return self._request.initial_messages


class GraderContext(RolloutContext):
    """What `Grader.grade` is given."""

    def __init__(self, request: RolloutRequest, folder: Path, clients: Clients, sample: Sample) -> None:
        super().__init__(request, folder, clients)
        self.sample = sample
        self._reward: float | None = None

    @property
    def label(self) -> str | None:
        """The row's expected answer, if it has one."""
        return self._request.label

    @property
    def reward(self) -> float | None:
        """The reward set so far."""
        return self._reward

    def set_reward(self, reward: float) -> None:
        """Score the rollout with a finite number; the last call counts.

        Raises TypeError for anything but a real number, ValueError for NaN and infinities.
        """
        if not isinstance(reward, numbers.Real):
            message = f"set_reward() wants a number, got {type(reward).__name__}"
            raise TypeError(message)
        value = float(reward)
        if not math.isfinite(value):
            message = f"set_reward() wants a finite number, got {value!r}"
            raise ValueError(message)
        self._reward = value


class AgentWorkflow(ABC):
    """The agent. A new instance runs each rollout; the class takes no arguments."""

    @abstractmethod
    async def run(self, ctx: WorkflowContext) -> Sequence[Message] | AgentWorkflowOutput | None:
        """Carry out one rollout and return its messages.

        None is an answer only when `ctx.messages` holds an assistant message.
        Raising fails the rollout, not the run. A plain `def run` is called in a thread of its own, which is the
        way to call code that blocks.
        """


class Grader(ABC):
    """Scores rollouts. A new instance grades each; the class takes no arguments."""

    @abstractmethod
    async def grade(self, ctx: GraderContext) -> None:
        """Look at `ctx.sample` and call `ctx.set_reward`, or set `ctx.sample.remove_sample`.

        A rollout with neither has failed, whatever is returned.
        """
