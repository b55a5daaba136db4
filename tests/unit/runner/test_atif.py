from __future__ import annotations

import copy
from typing import Any

import pytest

from osmosis_runner.atif import is_time, owner_of, shape_problems

FULL: dict[str, Any] = {
    "schema_version": "ATIF-v1.7",
    "session_id": "abc",
    "trajectory_id": "abc",
    "agent": {"name": "a", "version": "1", "model_name": "m", "tool_definitions": [{}], "extra": {"x": None}},
    "steps": [
        {"step_id": 1, "source": "system", "message": "s", "timestamp": "2026-01-01T00:00:00Z"},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "q"},
            {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}]},
        {"step_id": 3, "source": "agent", "message": "", "model_name": "m", "reasoning_effort": 0.5,
            "reasoning_content": "r", "llm_call_count": 1, "is_copied_context": None,
            "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
            "observation": {"results": [{"source_call_id": "c", "content": "4",
                "subagent_trajectory_ref": [{"trajectory_id": "sub"}]}, {"content": None}]},
            "metrics": {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 0, "cost_usd": 0,
                "prompt_token_ids": [1], "completion_token_ids": [2], "logprobs": [-0.5], "extra": {}}},
    ],
    "notes": "n",
    "final_metrics": {"total_prompt_tokens": 1, "total_steps": 3, "extra": None},
    "continued_trajectory_ref": None,
    "extra": {"osmosis": {"rollout_id": "abc"}},
    "subagent_trajectories": [
        {"trajectory_id": "sub", "agent": {"name": "a", "version": "1"},
            "steps": [{"step_id": 1, "source": "user", "message": ""}]}
    ],
}  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    found = copy.deepcopy(FULL)
    *parents, last = path.split(".")
    place: Any = found
    for part in parents:
        place = place[int(part)] if part.isdigit() else place[part]
    place[int(last) if last.isdigit() else last] = value
    return found


def test_a_full_trajectory_has_no_problem() -> None:
    assert shape_problems(FULL) == []
    assert shape_problems({"agent": {"name": "a", "version": "1"}, "steps": FULL["steps"][:1]}) == []


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("unknown", 1, "unknown"),
        ("steps.0.unknown", 1, "unknown"),
        ("agent.unknown", 1, "unknown"),
        ("schema_version", "ATIF-v2.0", "schema_version"),
        ("steps", [], "steps is empty"),
        ("steps.1.step_id", 5, "steps[1].step_id is 5, not 2"),
        ("steps.0.source", "tool", "tool"),
        ("steps.0.message", None, "message"),
        ("steps.0.timestamp", "yesterday", "ISO 8601"),
        ("steps.0.model_name", "m", "steps[0].model_name belongs to agent steps only"),
        ("steps.0.tool_calls", [], "steps[0].tool_calls belongs to agent steps only"),
        ("steps.0.metrics", {}, "steps[0].metrics belongs to agent steps only"),
        ("steps.2.llm_call_count", 0, "made no call but has metrics"),
        ("steps.2.llm_call_count", -1, "llm_call_count is negative"),
        ("steps.2.observation.results.0.source_call_id", "z", "'z' is no tool call of the step"),
        ("steps.2.observation.results.0.subagent_trajectory_ref", [{"session_id": "s"}], "neither"),
        ("steps.2.tool_calls.0.arguments", "{}", "arguments"),
        ("steps.2.metrics.prompt_tokens", "1", "prompt_tokens"),
        ("steps.1.message.0.text", None, "has no text"),
        ("steps.1.message.1.text", "t", "has a text"),
        ("steps.1.message.1.source.media_type", "image/tiff", "image/tiff"),
        ("final_metrics.total_steps", -1, "total_steps is negative"),
        ("subagent_trajectories.0.trajectory_id", None, "trajectory_id is missing"),
        ("subagent_trajectories.0.steps.0.step_id", 2, "subagent_trajectories[0].steps[0].step_id"),
        ("subagent_trajectories", [FULL["subagent_trajectories"][0]] * 2, "stands twice"),
    ],
)
def test_each_break_of_the_format_is_named(path: str, value: Any, says: str) -> None:
    problems = shape_problems(changed(path, value))
    assert any(says in problem for problem in problems), problems


@pytest.mark.parametrize("value", [None, [], "x", 3, {}, {"steps": []}, {"agent": {}, "steps": []}])
def test_what_is_no_trajectory_at_all_is_a_problem_and_no_crash(value: Any) -> None:
    assert shape_problems(value)


def test_endless_nesting_is_a_problem_and_no_crash() -> None:
    value: Any = copy.deepcopy(FULL)
    for _ in range(3_000):
        value = {
            "agent": FULL["agent"],
            "steps": FULL["steps"],
            "trajectory_id": "x",
            "subagent_trajectories": [value],
        }
    assert shape_problems(value)


def test_the_owner_is_named_by_the_most_exact_field() -> None:
    assert owner_of(FULL) == "abc"
    assert owner_of({"extra": {"osmosis": {"rollout_id": "r"}}, "session_id": "s"}) == "r"
    assert owner_of({"extra": {}, "session_id": "s", "trajectory_id": "t/1"}) == "s"
    assert owner_of({"trajectory_id": "t/1"}) == "t"
    assert owner_of({"trajectory_id": "t"}) == "t"
    assert owner_of({"session_id": 3, "trajectory_id": "/x"}) is None
    assert owner_of({}) is None


def test_times_are_iso() -> None:
    assert is_time("2026-01-01T00:00:00Z")
    assert is_time("2026-01-01T00:00:00.123456+02:00")
    assert not is_time("now")
