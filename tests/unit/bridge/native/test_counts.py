"""Providers' own usage objects in OpenAI's names."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.native.counts import read_counts


@pytest.mark.parametrize(
    ("dialect", "given", "usage"),
    [
        (
            "anthropic",
            {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 7},
            {
                "prompt_tokens": 18, "completion_tokens": 7, "total_tokens": 25,
                "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
            },
        ),
        (
            "gemini",
            {
                "promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 17,
                "cachedContentTokenCount": 6,
            },
            {
                "prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17,
                "prompt_tokens_details": {"cached_tokens": 6}, "completion_tokens_details": {"reasoning_tokens": 3},
            },
        ),
        (
            "converse",
            {"inputTokens": 10, "outputTokens": 4, "totalTokens": 20, "cacheReadInputTokens": 6},
            {
                "prompt_tokens": 16, "completion_tokens": 4, "total_tokens": 20,
                "prompt_tokens_details": {"cached_tokens": 6},
            },
        ),
        (
            "cohere",
            {"billed_units": {"input_tokens": 1}, "tokens": {"input_tokens": 10.0, "output_tokens": 4}},
            {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14},
        ),
        (
            "cohere",
            {"billed_units": {"input_tokens": 1, "output_tokens": 2}},
            {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        ),
        (
            "ollama",
            {"prompt_eval_count": 10, "eval_count": 4},
            {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14},
        ),
        ("ollama", {"eval_count": 4}, {"completion_tokens": 4, "total_tokens": 4}),
    ],
)  # fmt: skip
def test_counts_are_read_by_each_provider_s_own_names(
    dialect: str, given: dict[str, Any], usage: dict[str, Any]
) -> None:
    assert read_counts(dialect, given) == usage


@pytest.mark.parametrize(
    "given", [{}, {"input_tokens": None}, {"input_tokens": "many", "output_tokens": True}, {"odd": 1}]
)
def test_what_holds_no_counts_is_no_usage(given: dict[str, Any]) -> None:
    assert read_counts("anthropic", given) is None
    assert read_counts("nobody", {"input_tokens": 1}) is None


@pytest.mark.parametrize("count", [-1, -1.0, 1.5, True, "1", [], {}])
def test_what_is_no_count_of_tokens_is_not_taken_for_one(count: object) -> None:
    assert read_counts("ollama", {"prompt_eval_count": count, "eval_count": count}) is None
