from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.atif import shape_problems
from osmosis_runner.trajectory import Attempt, build_trajectory, enrich, validate_trajectory

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    [
        "role", "content", "tool_calls", "function_call", "reasoning_content", "reasoning", "reasoning_effort", "usage",
        "model", "timestamp", "name", "tool_call_id",
    ]
)  # fmt: skip
calls = st.lists(
    st.fixed_dictionaries(
        {"function": st.fixed_dictionaries({}, optional={"name": values, "arguments": values})},
        optional={"id": values, "type": values},
    ),
    max_size=3,
)
messages = st.lists(
    st.dictionaries(names, values, max_size=6).flatmap(
        lambda message: st.fixed_dictionaries(
            {
                "role": st.sampled_from(
                    ["system", "user", "assistant", "tool", "function", "developer", "odd"]
                )
                | values
            },
            optional={"tool_calls": calls},
        ).map(lambda known: message | known)
    ),
    max_size=6,
)
records = st.lists(
    st.fixed_dictionaries(
        {"status": st.sampled_from(["ok", "upstream_error"])},
        optional={
            "seq": st.integers(0, 9), "cost_usd": values, "usage_source": st.sampled_from(["provider", "missing"]),
            "usage": st.dictionaries(
                st.sampled_from(["prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens"]), values
            ),
        },
    ),
    max_size=5,
)  # fmt: skip


@given(messages, records)
def test_any_messages_and_calls_make_a_valid_trajectory(
    entries: list[dict[str, Any]], ledger: list[Any]
) -> None:
    before = copy.deepcopy(entries)
    trajectory = build_trajectory(entries, Attempt("abc", 0, 0), "1")
    assert entries == before
    assert validate_trajectory(trajectory, "abc") == []
    enriched = enrich(trajectory, ledger, "openai/m")
    assert validate_trajectory(enriched, "abc") == []
    json.dumps(enriched, allow_nan=False)


@given(values)
def test_any_value_is_judged_without_a_crash(value: Any) -> None:
    assert shape_problems(value)
