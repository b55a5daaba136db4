"""The shape of an ATIF trajectory (v1.0 to v1.7) and the check of one. Pure.

Readers of the format refuse unknown fields, so this does too. Knows nothing of runs or chat messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from osmosis_runner.jsontext import JsonValue

SCHEMA_VERSION = "ATIF-v1.7"

Extra = dict[str, Any] | None
"""Any JSON object; msgspec has nothing to check in it."""


class _Shape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class _ImageSource(_Shape):
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    path: str


class _Part(_Shape):
    type: Literal["text", "image"]
    text: str | None = None
    source: _ImageSource | None = None


class _Agent(_Shape):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: Extra = None


class _Metrics(_Shape):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: Extra = None


class _FinalMetrics(_Shape):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: Extra = None


class _ToolCall(_Shape):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra = None


class _SubagentRef(_Shape):
    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: Extra = None


class _Result(_Shape):
    source_call_id: str | None = None
    content: str | list[_Part] | None = None
    subagent_trajectory_ref: list[_SubagentRef] | None = None
    extra: Extra = None


class _Observation(_Shape):
    results: list[_Result]


class _Step(_Shape):
    step_id: int
    source: Literal["system", "user", "agent"]
    message: str | list[_Part]
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: Extra = None


class _Trajectory(_Shape):
    agent: _Agent
    steps: list[_Step]
    schema_version: str = SCHEMA_VERSION
    session_id: str | None = None
    trajectory_id: str | None = None
    notes: str | None = None
    final_metrics: _FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra = None
    subagent_trajectories: list[_Trajectory] | None = None


_VERSIONS = frozenset(f"ATIF-v1.{minor}" for minor in range(8))
_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


def shape_problems(value: JsonValue) -> list[str]:
    """Return every reason why `value` is no trajectory; empty when it is one."""
    try:
        trajectory = msgspec.convert(value, _Trajectory)
    except msgspec.ValidationError as error:
        return [str(error)]
    except RecursionError:
        return ["is nested too deeply"]
    return list(_problems(trajectory, ""))


def owner_of(value: Mapping[str, JsonValue]) -> str | None:
    """Return whose trajectory it is: extra.osmosis.rollout_id, else session_id, else trajectory_id up to `/`."""
    extra = value.get("extra")
    osmosis = extra.get("osmosis") if isinstance(extra, Mapping) else None
    named = osmosis.get("rollout_id") if isinstance(osmosis, Mapping) else None
    if isinstance(named, str) and named:
        return named
    session = value.get("session_id")
    if isinstance(session, str) and session:
        return session
    whole = value.get("trajectory_id")
    return whole.partition("/")[0] or None if isinstance(whole, str) else None


def _problems(trajectory: _Trajectory, where: str) -> Iterator[str]:
    if trajectory.schema_version not in _VERSIONS:
        yield f"{where}schema_version {trajectory.schema_version!r} is not known"
    if not trajectory.steps:
        yield f"{where}steps is empty"
    final = trajectory.final_metrics
    if final is not None and final.total_steps is not None and final.total_steps < 0:
        yield f"{where}final_metrics.total_steps is negative"
    for place, step in enumerate(trajectory.steps):
        yield from _step_problems(step, place + 1, f"{where}steps[{place}]")
    seen: set[str] = set()
    for place, inner in enumerate(trajectory.subagent_trajectories or ()):
        here = f"{where}subagent_trajectories[{place}]"
        if inner.trajectory_id is None:
            yield f"{here}.trajectory_id is missing"
        elif inner.trajectory_id in seen:
            yield f"{here}.trajectory_id {inner.trajectory_id!r} stands twice"
        else:
            seen.add(inner.trajectory_id)
        yield from _problems(inner, f"{here}.")


def _step_problems(step: _Step, expected: int, where: str) -> Iterator[str]:
    if step.step_id != expected:
        yield f"{where}.step_id is {step.step_id}, not {expected}"
    if step.timestamp is not None and not is_time(step.timestamp):
        yield f"{where}.timestamp {step.timestamp!r} is not ISO 8601"
    if step.llm_call_count is not None and step.llm_call_count < 0:
        yield f"{where}.llm_call_count is negative"
    if step.source != "agent":
        for name in _AGENT_ONLY:
            if getattr(step, name) is not None:
                yield f"{where}.{name} belongs to agent steps only"
    elif step.llm_call_count == 0 and (step.metrics is not None or step.reasoning_content is not None):
        yield f"{where} made no call but has metrics or reasoning"
    yield from _part_problems(step.message, f"{where}.message")
    yield from _observation_problems(step, where)


def _observation_problems(step: _Step, where: str) -> Iterator[str]:
    known = {call.tool_call_id for call in step.tool_calls or ()}
    for place, result in enumerate(step.observation.results if step.observation else ()):
        here = f"{where}.observation.results[{place}]"
        if result.source_call_id is not None and result.source_call_id not in known:
            yield f"{here}.source_call_id {result.source_call_id!r} is no tool call of the step"
        for ref in result.subagent_trajectory_ref or ():
            if ref.trajectory_id is None and ref.trajectory_path is None:
                yield f"{here}.subagent_trajectory_ref has neither trajectory_id nor trajectory_path"
        yield from _part_problems(result.content, f"{here}.content")


def _part_problems(content: str | list[_Part] | None, where: str) -> Iterator[str]:
    if content is None or isinstance(content, str):
        return
    for place, part in enumerate(content):
        wanted, other = ("text", "source") if part.type == "text" else ("source", "text")
        if getattr(part, wanted) is None:
            yield f"{where}[{place}] of type {part.type!r} has no {wanted}"
        if getattr(part, other) is not None:
            yield f"{where}[{place}] of type {part.type!r} has a {other}"


def is_time(text: str) -> bool:
    """Whether `text` is a time that the format takes."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
