"""Leaves a rollout's trajectory in its folder, and the traceback of its failure in the log, before its result is told.

Knows where the file goes. A trajectory that cannot be written is said on standard error and costs nobody a reward.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from osmosis_runner.rollout.jsonable import json_ready
from osmosis_runner.trajectory import Attempt, build_trajectory

if TYPE_CHECKING:
    from osmosis_runner.rollout.execution import Conclusion, Failure, Job


class Keeper:
    """Writes trajectories; `agent_version` is what they name as the agent's version."""

    def __init__(self, agent_version: str) -> None:
        self._agent_version = agent_version

    def keep(self, job: Job, conclusion: Conclusion) -> None:
        """Write `trajectory.json` into the job's folder when there are messages; say why it failed if it did."""
        if conclusion.failure is not None:
            _tell(conclusion.failure)
        if conclusion.sample is None or not conclusion.sample.messages:
            return
        try:
            content = msgspec.json.encode(_trajectory(job, conclusion, self._agent_version))
            job.folder.mkdir(parents=True, exist_ok=True)
            (job.folder / "trajectory.json").write_bytes(content)
        except Exception as error:  # noqa: BLE001 - messages of unknown code must not cost a rollout its reward
            sys.stderr.write(
                f"no trajectory of rollout {job.request.rollout_id}: {type(error).__name__}: {error}\n"
            )


def _tell(failure: Failure) -> None:
    # What printing raises (a closed stream, an odd encoding) must not cost the others their server.
    with suppress(OSError, ValueError):
        sys.stderr.write(f"the {failure.phase} failed: {failure.message}\n{failure.traceback or ''}")
        sys.stderr.flush()


def _trajectory(job: Job, conclusion: Conclusion, agent_version: str) -> Any:  # noqa: ANN401 - a JSON object
    request, sample = job.request, conclusion.sample
    extra = request.extra_fields or {}
    attempt = Attempt(
        rollout_id=request.rollout_id,
        row_index=_whole(extra.get("row_index")),
        run_index=_whole(extra.get("run_index")),
        label=request.label,
        reward=conclusion.reward,
        metrics=json_ready(sample.metrics) if sample else {},
        extra_fields=json_ready(sample.info) if sample else {},
        metadata=request.metadata,
        notes=_notes(conclusion),
    )
    messages: list[Any] = json_ready(sample.messages) if sample else []
    return build_trajectory(messages, attempt, agent_version)


def _notes(conclusion: Conclusion) -> str | None:
    said: list[str] = []
    if conclusion.overrun is not None:
        said.append(f"{conclusion.overrun.message}; what it had left was graded")
    if conclusion.failure is not None:
        said.append(f"{conclusion.failure.phase} failed: {conclusion.failure.message}")
    return "; ".join(said) or None


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
