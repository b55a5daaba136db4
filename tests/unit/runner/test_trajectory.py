from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from osmosis_runner.trajectory import (
    Attempt,
    build_trajectory,
    enrich,
    trajectory_rollout_id,
    validate_trajectory,
)

ATTEMPT = Attempt(
    "abc", row_index=3, run_index=1, label="56", reward=1.0, metrics={"m": 1.5}, metadata={"k": [1]}
)
MESSAGES: list[dict[str, Any]] = [
    {"role": "developer", "content": "rules"},
    {"role": "user", "content": "What is 7 times 8?"},
    {
        "role": "assistant", "content": None, "reasoning_content": "think",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "mul", "arguments": '{"a":7,"b":8}'}},
            {"id": "c2", "type": "function", "function": {"name": "bad", "arguments": "not json"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "56"},
    {"role": "tool", "tool_call_id": "zz", "content": [{"type": "text", "text": "x"}], "name": "bad"},
    {"role": "assistant", "content": "56", "refusal": None},
]  # fmt: skip


def build(messages: list[dict[str, Any]], attempt: Attempt = ATTEMPT) -> dict[str, Any]:
    trajectory = build_trajectory(messages, attempt, "0.1.0")
    assert validate_trajectory(trajectory, attempt.rollout_id) == []
    return json.loads(json.dumps(trajectory, allow_nan=False))


def call(seq: int, prompt: int, status: str = "ok", **fields: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5}
    return {
        "seq": seq,
        "call_id": f"k{seq}",
        "status": status,
        "usage": usage,
        "usage_source": "provider",
    } | fields


def test_a_conversation_with_tools_becomes_steps() -> None:
    steps = build(MESSAGES)["steps"]
    assert [(step["step_id"], step["source"], step["message"]) for step in steps] == [
        (1, "system", "rules"), (2, "user", "What is 7 times 8?"), (3, "agent", ""), (4, "agent", "56"),
    ]  # fmt: skip
    assert steps[2]["reasoning_content"] == "think"
    assert steps[2]["tool_calls"] == [
        {"tool_call_id": "c1", "function_name": "mul", "arguments": {"a": 7, "b": 8}},
        {"tool_call_id": "c2", "function_name": "bad", "arguments": {"_raw": "not json"}},
    ]
    assert steps[2]["observation"]["results"] == [
        {"content": "56", "source_call_id": "c1"},
        {"content": "x", "extra": {"name": "bad", "tool_call_id": "zz"}},
    ]
    assert steps[3]["extra"] == {"refusal": None}


def test_the_root_says_whose_it_is_and_what_came_of_it() -> None:
    trajectory = build(MESSAGES, Attempt("abc", 3, 1, model_name="openai/m", label=None, notes="partial"))
    assert trajectory["session_id"] == trajectory["trajectory_id"] == "abc"
    assert trajectory["agent"]["model_name"] == "openai/m"
    assert trajectory["notes"] == "partial"
    assert trajectory["final_metrics"] == {"total_steps": 4}
    assert build(MESSAGES)["extra"]["osmosis"] == {
        "rollout_id": "abc", "label": "56", "reward": 1.0, "sample_metrics": {"m": 1.5}, "sample_extra_fields": {},
        "request_metadata": {"k": [1]}, "request_extra_fields": {"row_index": 3, "run_index": 1},
    }  # fmt: skip
    assert trajectory_rollout_id(trajectory) == "abc"


@pytest.mark.parametrize(
    ("message", "step"),
    [
        ({"role": "critic", "content": "x"}, {"source": "user", "message": "x", "extra": {"original_role": "critic"}}),
        ({"content": "x"}, {"source": "user", "message": "x", "extra": {"original_role": None}}),
        ({"role": ["odd"], "content": "x"}, {"source": "user", "message": "x", "extra": {"original_role": ["odd"]}}),
        (
            {"role": "tool", "content": "x", "tool_call_id": "c"},
            {"source": "user", "message": "x", "extra": {"tool_call_id": "c", "original_role": "tool"}},
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]},
            {"source": "user", "message": 'a\n{"type": "image_url", "image_url": {}}'},
        ),
        ({"role": "user", "content": {"odd": 1}}, {"source": "user", "message": '{"odd": 1}'}),
        ({"role": "user"}, {"source": "user", "message": ""}),
        ({"role": "user", "content": 3}, {"source": "user", "message": "3"}),
        (
            {"role": "user", "content": "x", "timestamp": "2026-01-01T00:00:00Z", "name": "n"},
            {"source": "user", "message": "x", "timestamp": "2026-01-01T00:00:00Z", "extra": {"name": "n"}},
        ),
        (
            {"role": "user", "content": "x", "timestamp": "soon", "usage": {"a": 1}},
            {"source": "user", "message": "x", "extra": {"timestamp": "soon", "usage": {"a": 1}}},
        ),
        (
            {"role": "assistant", "content": "x", "reasoning": ["a"], "reasoning_content": "b", "tool_calls": None},
            {"source": "agent", "message": "x", "reasoning_content": "b", "extra": {"reasoning": ["a"]}},
        ),
        (
            {"role": "assistant", "content": "x", "reasoning": "b", "reasoning_content": "b", "usage": 3},
            {"source": "agent", "message": "x", "reasoning_content": "b", "extra": {"usage": 3}},
        ),
        (
            {"role": "assistant", "content": "x", "model": "m", "reasoning": "r", "reasoning_effort": "low"},
            {"source": "agent", "message": "x", "model_name": "m", "reasoning_content": "r", "reasoning_effort": "low"},
        ),
        (
            {"role": "assistant", "content": "x", "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
            {"source": "agent", "message": "x",
             "metrics": {"prompt_tokens": 3, "completion_tokens": 4, "extra": {"context_tokens": 7}}},
        ),
        (
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
            {"source": "agent", "message": "",
             "tool_calls": [{"tool_call_id": "call_1_1", "function_name": "f", "arguments": {}}]},
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": 3, "arguments": "[1]"}}, "odd"]},
            {"source": "agent", "message": "",
             "tool_calls": [{"tool_call_id": "call_1_1", "function_name": "", "arguments": {"_raw": "[1]"}}]},
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"x": NaN}'}}]},
            {"source": "agent", "message": "",
             "tool_calls": [{"tool_call_id": "a", "function_name": "f", "arguments": {"_raw": '{"x": NaN}'}}]},
        ),
    ],
    ids=lambda value: json.dumps(value)[:60],
)  # fmt: skip
def test_odd_messages_lose_nothing(message: dict[str, Any], step: dict[str, Any]) -> None:
    assert build([message])["steps"] == [{"step_id": 1} | step]


def test_no_messages_still_make_a_valid_trajectory() -> None:
    assert len(build([])["steps"]) == 1


def test_a_trajectory_of_another_rollout_is_refused() -> None:
    trajectory = build_trajectory(MESSAGES, ATTEMPT, "0.1.0")
    assert validate_trajectory(trajectory, "other") == ["it is the trajectory of 'abc', not of 'other'"]
    assert len(validate_trajectory([1], "abc")) == 2


def test_the_ledger_gives_the_model_the_usage_of_each_step_and_the_totals() -> None:
    trajectory = build_trajectory(
        [*MESSAGES[:5], {"role": "assistant", "content": "56", "model": "osmosis-rollout"}], ATTEMPT, "1"
    )
    before = copy.deepcopy(trajectory)
    calls = [
        call(2, 40, cost_usd=0.5, ttft_ms=7.0),
        call(1, 20, cost_usd=0.25),
        call(0, 1, "upstream_error", usage={}),
    ]
    enriched = enrich(trajectory, calls, "openai/m")
    assert validate_trajectory(enriched, "abc") == []
    assert trajectory == before
    assert enriched["agent"]["model_name"] == "openai/m"  # type: ignore[index,call-overload]
    steps: Any = enriched["steps"]
    assert steps[2]["metrics"]["prompt_tokens"] == 20
    assert steps[3]["metrics"] == {
        "prompt_tokens": 40, "completion_tokens": 5, "cost_usd": 0.5,
        "extra": {"ttft_ms": 7.0, "call_id": "k2", "context_tokens": 45},
    }  # fmt: skip
    assert steps[3]["model_name"] == "openai/m"
    assert "metrics" not in steps[0]
    assert enriched["final_metrics"] == {
        "total_steps": 4, "total_prompt_tokens": 60, "total_completion_tokens": 10, "total_cost_usd": 0.75,
        "extra": {"calls": 3, "max_context_tokens": 45, "calls_without_usage": 1},
    }  # fmt: skip
    assert "unmatched_calls" not in enriched["extra"]["osmosis"]  # type: ignore[index,operator,call-overload]


def test_calls_that_cannot_be_matched_to_steps_are_listed_and_counted() -> None:
    enriched = enrich(
        build_trajectory(MESSAGES, ATTEMPT, "1"), [call(1, 20), call(2, 30), call(3, 40)], "openai/m"
    )
    assert validate_trajectory(enriched, "abc") == []
    steps: Any = enriched["steps"]
    assert all("metrics" not in step for step in steps)
    osmosis: Any = enriched["extra"]["osmosis"]  # type: ignore[index,call-overload]
    assert [entry["prompt_tokens"] for entry in osmosis["unmatched_calls"]] == [20, 30, 40]
    assert osmosis["reward"] == 1.0
    assert enriched["final_metrics"]["total_prompt_tokens"] == 90  # type: ignore[index,call-overload]


def test_without_calls_only_the_model_is_set() -> None:
    trajectory = build_trajectory(MESSAGES, ATTEMPT, "1")
    enriched = enrich(trajectory, [], "openai/m")
    assert enriched["final_metrics"] == {"total_steps": 4}
    assert enriched["steps"] == trajectory["steps"]


def test_what_a_client_said_of_its_usage_stays_where_the_ledger_is_silent() -> None:
    message = {"role": "assistant", "content": "x", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    trajectory = build_trajectory([message], ATTEMPT, "1")
    silent = call(1, 0, usage=None, usage_source="missing", ttft_ms=2.0)
    steps: Any = enrich(trajectory, [silent], "m")["steps"]
    assert steps[0]["metrics"]["prompt_tokens"] == 3
    assert steps[0]["metrics"]["extra"] == {"context_tokens": 7, "ttft_ms": 2.0, "call_id": "k1"}
    loud: Any = enrich(trajectory, [call(1, 9)], "m")["steps"]
    assert loud[0]["metrics"]["prompt_tokens"] == 9


def test_copied_steps_and_steps_without_a_call_take_no_usage() -> None:
    trajectory = {
        "agent": {"name": "a", "version": "1"},
        "session_id": "abc",
        "steps": [
            {"step_id": 1, "source": "agent", "message": "", "is_copied_context": True},
            {"step_id": 2, "source": "agent", "message": "", "llm_call_count": 0},
            {"step_id": 3, "source": "agent", "message": ""},
        ],
    }
    enriched = enrich(trajectory, [call(1, 9)], "m")
    assert validate_trajectory(enriched, "abc") == []
    steps: Any = enriched["steps"]
    assert ["metrics" in step for step in steps] == [False, False, True]
    assert enriched["final_metrics"]["total_steps"] == 3  # type: ignore[index,call-overload]
