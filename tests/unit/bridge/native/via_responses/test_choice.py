"""Which endpoint a chat request goes to."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.native.via_responses.choice import Backend, is_openai_s_own, reasons, why_responses

TOOLS = [{"type": "function", "function": {"name": "f"}}]
CUSTOM = [{"type": "custom", "custom": {"name": "c"}}]


def goes_to_responses(model: str, **fields: Any) -> bool:
    return why_responses(Backend(model, "openai"), fields) is not None


@pytest.mark.parametrize(
    "model", ["gpt-5.4", "gpt-5.4-mini", "gpt-5.5", "gpt-5.6-sol", "gpt-6-astra", "gpt-6", "eu/gpt-5.6"]
)
def test_functions_with_reasoning_go_to_responses_since_chat_completions_refuses_them(model: str):
    assert goes_to_responses(model, tools=TOOLS, reasoning_effort="low")


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-5.6-sol", "gpt-6-sol"])
def test_models_that_reason_unasked_need_no_effort_to_go_there(model: str):
    assert goes_to_responses(model, tools=TOOLS)
    assert goes_to_responses(model, tools=TOOLS, reasoning_effort=None)
    assert not goes_to_responses(model, tools=TOOLS, reasoning_effort="none")


def test_a_model_that_does_not_reason_unasked_stays():
    assert not goes_to_responses("gpt-5.4", tools=TOOLS)


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-5", "gpt-5.1", "gpt-5.2", "o3", "gpt-5.6-chat-latest", "gpt-4.1"]
)
def test_older_models_and_those_that_only_talk_stay(model: str):
    assert not goes_to_responses(model, tools=TOOLS, reasoning_effort="low")


@pytest.mark.parametrize(
    "fields", [{}, {"reasoning_effort": "high"}, {"tools": [], "reasoning_effort": "high"}, {"tools": CUSTOM}]
)
def test_without_functions_a_request_stays(fields: dict[str, Any]):
    assert not goes_to_responses("gpt-5.6-sol", **fields)


def test_a_model_without_chat_completions_goes_there_always():
    assert why_responses(Backend("o3-pro", "azure", only=True), {}) == "this model has no chat completions"


def test_elsewhere_than_at_openai_only_the_model_path_decides():
    fields = {"tools": TOOLS, "reasoning_effort": "high"}
    assert why_responses(Backend("gpt-5.6-sol", "hosted_vllm"), fields) is None
    assert why_responses(Backend("gpt-5.6", "azure_ai", only=True), fields) is None
    assert why_responses(Backend("anything", "xai", forced=True), {}) == "the model path says responses/"


def test_openai_s_own_addresses_are_known_by_their_host():
    assert is_openai_s_own("https://api.openai.com/v1/responses")
    assert is_openai_s_own("https://eu.api.openai.com/v1/responses")
    assert not is_openai_s_own("https://api.openai.com.example/v1/responses")
    assert not is_openai_s_own("http://127.0.0.1:8000/v1/responses")


def test_which_models_reason():
    assert all(map(reasons, ("o3", "o4-mini", "gpt-5", "gpt-5.6-sol", "gpt-6", "codex-mini", "eu/gpt-5.2")))
    assert not any(map(reasons, ("gpt-4o", "gpt-4.1", "gpt-5-chat-latest", "my-deployment")))
