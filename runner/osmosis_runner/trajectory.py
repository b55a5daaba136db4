"""Chat messages to an ATIF-v1.7 trajectory, its check, and its figures from the ledger. Pure.

Knows chat messages and call records and nothing of files; the format itself is in `atif`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from osmosis_runner.atif import SCHEMA_VERSION, is_time, owner_of, shape_problems
from osmosis_runner.jsontext import JsonObject, JsonValue
from osmosis_runner.trajectory_usage import call_metrics, figures_of

__all__ = [
    "SCHEMA_VERSION",
    "Attempt",
    "build_trajectory",
    "enrich",
    "trajectory_rollout_id",
    "validate_trajectory",
]

AGENT_NAME = "osmosis-bridge-rollout"

_SOURCES = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}
_TOOL_ROLES = ("tool", "function")


class Attempt(msgspec.Struct, frozen=True):
    """What `build_trajectory` needs to know about the rollout beside its messages."""

    rollout_id: str
    row_index: int
    run_index: int
    model_name: str | None = None
    label: str | None = None
    reward: float | None = None
    metrics: Mapping[str, JsonValue] = msgspec.field(default_factory=dict[str, JsonValue])
    extra_fields: Mapping[str, JsonValue] = msgspec.field(default_factory=dict[str, JsonValue])
    metadata: Mapping[str, JsonValue] | None = None
    notes: str | None = None
    """Said about the whole trajectory, such as why it is partial."""
    partial: bool = False
    """Whether the messages are only what the bridge saw of the rollout."""


def build_trajectory(
    messages: Sequence[Mapping[str, JsonValue]], attempt: Attempt, agent_version: str
) -> JsonObject:
    """Return the trajectory of `messages` (OpenAI chat shape); at least one step, even without messages.

    The messages must be JSON; what has no place in the format stays under a step's `extra`.
    """
    steps: list[JsonObject] = []
    for message in messages:
        if message.get("role") in _TOOL_ROLES and steps and steps[-1]["source"] == "agent":
            _add_result(steps[-1], message)
        else:
            steps.append(_step(message, len(steps) + 1))
    if not steps:
        steps.append({"step_id": 1, "source": "user", "message": "", "extra": {"no_messages": True}})
    agent: JsonObject = {"name": AGENT_NAME, "version": agent_version}
    if attempt.model_name is not None:
        agent["model_name"] = attempt.model_name
    trajectory: JsonObject = {
        "schema_version": SCHEMA_VERSION,
        "session_id": attempt.rollout_id,
        "trajectory_id": attempt.rollout_id,
        "agent": agent,
        "steps": steps,
        "final_metrics": {"total_steps": len(steps)},
        "extra": {"osmosis": _osmosis_extra(attempt)},
    }
    if attempt.notes is not None:
        trajectory["notes"] = attempt.notes
    return trajectory


def validate_trajectory(value: JsonValue, rollout_id: str) -> list[str]:
    """Return every reason why `value` is not a valid trajectory of `rollout_id`; empty when it is one."""
    problems = shape_problems(value)
    owner = owner_of(value) if isinstance(value, Mapping) else None
    if owner != rollout_id:
        problems.append(f"it is the trajectory of {owner!r}, not of {rollout_id!r}")
    return problems


def trajectory_rollout_id(value: Mapping[str, JsonValue]) -> str | None:
    """Return whose trajectory it is: extra.osmosis.rollout_id, else session_id, else trajectory_id up to `/`."""
    return owner_of(value)


def enrich(
    trajectory: Mapping[str, JsonValue], calls: Sequence[Mapping[str, JsonValue]], model: str
) -> JsonObject:
    """Return a copy with the true model, per-step usage and final figures from the rollout's ledger records.

    `trajectory` must be valid. Steps get usage when there are as many agent steps as calls that succeeded; else
    which call made which step is unknown, and the calls are listed as unmatched.
    """
    enriched = dict(trajectory)
    enriched["agent"] = {**cast("JsonObject", trajectory["agent"]), "model_name": model}
    steps = [dict(step) for step in cast("Sequence[JsonObject]", trajectory["steps"])]
    enriched["steps"] = steps
    for step in steps:
        if step.get("model_name") is not None:
            step["model_name"] = model
    if not calls:
        return enriched
    answered = sorted((call for call in calls if call.get("status") == "ok"), key=_order)
    agent_steps = [step for step in steps if _is_own_call(step)]
    matched = len(agent_steps) == len(answered)
    for step, call in zip(agent_steps, answered, strict=True) if matched else ():
        _add_usage(step, call)
    known = {name: value for name, value in _final_metrics(trajectory).items() if value is not None}
    figures, extra = figures_of(calls)
    inner = known.get("extra")
    kept = dict(inner) if isinstance(inner, Mapping) else {}
    enriched["final_metrics"] = {**known, **figures, "extra": {**kept, **extra}}
    if not matched:
        enriched["extra"] = _with_unmatched(trajectory.get("extra"), answered)
    return enriched


def _final_metrics(trajectory: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    value = trajectory.get("final_metrics")
    steps = len(cast("Sequence[JsonValue]", trajectory["steps"]))
    return value if isinstance(value, Mapping) else {"total_steps": steps}


def _order(call: Mapping[str, JsonValue]) -> int:
    """Calls are recorded as they end; `seq` says how they began."""
    seq = call.get("seq")
    return seq if isinstance(seq, int) else 0


def _is_own_call(step: JsonObject) -> bool:
    return step["source"] == "agent" and step.get("llm_call_count") != 0 and not step.get("is_copied_context")


def _add_usage(step: JsonObject, call: Mapping[str, JsonValue]) -> None:
    found = call_metrics(call)
    before = step.get("metrics")
    if isinstance(before, Mapping):
        # The ledger saw the call itself; what a client repeats of it only fills what the ledger does not know.
        inner = before.get("extra")
        extra = {
            **dict(inner if isinstance(inner, Mapping) else {}),
            **cast("JsonObject", found.get("extra", {})),
        }
        found = {**before, **found, **({"extra": extra} if extra else {})}
    if found:
        step["metrics"] = found


def _with_unmatched(extra: JsonValue, calls: Sequence[Mapping[str, JsonValue]]) -> JsonObject:
    kept = dict(extra) if isinstance(extra, Mapping) else {}
    osmosis = kept.get("osmosis")
    listed: list[JsonValue] = [call_metrics(call) for call in calls]
    kept["osmosis"] = {**(osmosis if isinstance(osmosis, Mapping) else {}), "unmatched_calls": listed}
    return kept


def _osmosis_extra(attempt: Attempt) -> JsonObject:
    return {
        "rollout_id": attempt.rollout_id,
        "label": attempt.label,
        "reward": attempt.reward,
        "sample_metrics": dict(attempt.metrics),
        "sample_extra_fields": dict(attempt.extra_fields),
        "request_metadata": dict(attempt.metadata) if attempt.metadata is not None else None,
        "request_extra_fields": {"row_index": attempt.row_index, "run_index": attempt.run_index},
        **({"partial": True} if attempt.partial else {}),
    }


def _step(message: Mapping[str, JsonValue], number: int) -> JsonObject:
    role = message.get("role")
    source = _SOURCES.get(role) if isinstance(role, str) else None
    step: JsonObject = {
        "step_id": number,
        "source": source or "user",
        "message": _text(message.get("content")),
    }
    used = {"role", "content"}
    timestamp = message.get("timestamp")
    if isinstance(timestamp, str) and is_time(timestamp):
        step["timestamp"] = timestamp
        used.add("timestamp")
    if source == "agent":
        used |= _add_agent_fields(step, message, number)
    extra: JsonObject = {name: value for name, value in message.items() if name not in used}
    if source is None:
        extra["original_role"] = role
    if extra:
        step["extra"] = extra
    return step


def _add_agent_fields(step: JsonObject, message: Mapping[str, JsonValue], number: int) -> set[str]:
    """Set what only agent steps may have; return the names of the fields that found a place."""
    used = {name for name in ("tool_calls", "function_call") if message.get(name) is None}
    for name in ("reasoning_content", "reasoning"):
        value = message.get(name)
        if isinstance(value, str) and step.setdefault("reasoning_content", value) == value:
            used.add(name)
    for name, place in (("reasoning_effort", "reasoning_effort"), ("model", "model_name")):
        value = message.get(name)
        if isinstance(value, str):
            step[place] = value
            used.add(name)
    calls = _tool_calls(message, number)
    if calls:
        step["tool_calls"] = calls
        used |= {"tool_calls", "function_call"}
    usage = message.get("usage")
    metrics = call_metrics({"usage": usage}) if isinstance(usage, Mapping) else {}
    if metrics:
        step["metrics"] = metrics
        used.add("usage")
    return used


def _tool_calls(message: Mapping[str, JsonValue], number: int) -> list[JsonValue]:
    listed = message.get("tool_calls")
    calls = list(listed) if isinstance(listed, Sequence) and not isinstance(listed, str) else []
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        calls.append({"function": legacy})
    return [
        _tool_call(call, f"call_{number}_{place}")
        for place, call in enumerate(calls, start=1)
        if isinstance(call, Mapping)
    ]


def _tool_call(call: Mapping[str, JsonValue], default_id: str) -> JsonObject:
    identity, function = call.get("id"), call.get("function") or call.get("custom")
    named: Mapping[str, JsonValue] = function if isinstance(function, Mapping) else {}
    name = named.get("name")
    return {
        "tool_call_id": identity if isinstance(identity, str) and identity else default_id,
        "function_name": name if isinstance(name, str) else "",
        "arguments": _arguments(named.get("arguments", named.get("input"))),
    }


def _arguments(value: JsonValue) -> JsonObject:
    if isinstance(value, Mapping):
        return dict(value)
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        return {"_raw": value}
    try:
        parsed: object = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return {"_raw": value}
    return cast("JsonObject", parsed) if isinstance(parsed, dict) else {"_raw": value}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _add_result(step: JsonObject, message: Mapping[str, JsonValue]) -> None:
    result: JsonObject = {"content": _text(message.get("content"))}
    identity = message.get("tool_call_id")
    calls = cast("Sequence[JsonObject]", step.get("tool_calls", ()))
    extra: JsonObject = {
        name: value for name, value in message.items() if name not in {"role", "content", "tool_call_id"}
    }
    if any(call["tool_call_id"] == identity for call in calls):
        result["source_call_id"] = identity
    elif identity is not None:
        extra["tool_call_id"] = identity
    if extra:
        result["extra"] = extra
    observation = cast("dict[str, list[JsonValue]]", step.setdefault("observation", {"results": []}))
    observation["results"].append(result)


def _text(content: JsonValue) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(_part_text(part) for part in content)
    return json.dumps(content, ensure_ascii=False)


def _part_text(part: JsonValue) -> str:
    if isinstance(part, Mapping) and isinstance(text := part.get("text"), str):
        return text
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
