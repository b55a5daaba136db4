"""Controls: which names never leave the bridge, and which look like them and do."""

from __future__ import annotations

import pytest

from osmosis_bridge import controls
from osmosis_bridge.controls import header_list, is_control


@pytest.mark.parametrize(
    "name",
    [
        "api_base", "base_url", "api_version", "custom_llm_provider", "deployment_id", "client", "timeout",
        "request_timeout", "headers", "extra_headers", "default_headers", "extra_query", "ssl_verify",
        "api_key", "organization", "client_secret", "tenant_id",
        "callbacks", "success_callback", "failure_callback", "service_callback", "logger_fn", "no-log",
        "model_list", "models", "fallbacks", "context_window_fallback_dict", "num_retries", "max_retries",
        "retry_policy", "routing_strategy", "model_alias_map", "rpm", "tpm",
        "caching", "cache_key", "preset_cache_key", "enable_prompt_caching", "cache_control_injection_points",
        "max_budget", "budget_duration", "guardrails", "prompt_id",
        "drop_params", "additional_drop_params", "allowed_openai_params",
        "mock_response", "mock_tool_calls", "mock_timeout", "mock_testing_fallbacks",
        "litellm_params", "litellm_metadata", "aws_access_key_id", "aws_bedrock_runtime_endpoint", "azure_ad_token",
        "vertex_credentials", "watsonx_region_name", "langfuse_public_key", "token_exchange_endpoint",
        "openai_service_account_file", "user_api_key_hash", "input_cost_per_token",
    ],
)  # fmt: skip
def test_endpoint_credentials_callbacks_router_retry_mock_cache_budget_and_policy_are_controls(
    name: str,
) -> None:
    assert is_control(name)


@pytest.mark.parametrize(
    "name",
    [
        "model", "messages", "stream", "stream_options", "extra_body",
        "temperature", "top_p", "top_k", "min_p", "seed", "stop", "n", "logprobs", "logit_bias", "user", "store",
        "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning", "reasoning_effort", "thinking",
        "max_tokens", "max_completion_tokens", "service_tier", "prompt_cache_key", "verbosity", "metadata",
        "safety_identifier", "moderation", "prediction", "modalities", "audio", "web_search_options",
        "provider", "route", "transforms", "plugins", "preset", "usage", "session_id", "trace", "include_reasoning",
        "tags", "order", "weight", "id", "ttl", "roles", "cache", "region", "url", "priority", "cache_control",
        "cache_salt", "request_id", "chat_template", "chat_template_kwargs", "guided_json", "structured_outputs",
        "separate_reasoning", "kv_transfer_params", "vllm_xargs", "num_ctx", "options", "documents", "lora_path",
        "API_KEY", "mock", "azure", "", "anthropic_beta", "anthropic_version", "system_prompt", "zebra",
    ],
)  # fmt: skip
def test_inference_fields_and_names_that_vendors_use_for_data_are_not_controls(name: str) -> None:
    assert not is_control(name)


def test_no_control_is_listed_twice_or_under_a_family_that_covers_it() -> None:
    groups = (
        controls.ENDPOINT, controls.CREDENTIALS, controls.OBSERVERS, controls.ROUTER, controls.CACHE_AND_BUDGET,
        controls.PARAMETER_POLICY,
    )  # fmt: skip
    assert sum(map(len, groups)) == len(controls.NAMES)
    assert [name for name in controls.NAMES if name.startswith(controls.PREFIXES)] == []


def test_names_are_listed_in_a_header_in_the_order_met() -> None:
    assert header_list(("api_key", "no-log", "extra_body.model")) == b"api_key,no-log,extra_body.model"
    assert header_list(()) == b""


def test_what_a_header_cannot_hold_is_percent_encoded() -> None:
    assert header_list(("aws_\r\nset-cookie: x", "aws_ä,b")) == b"aws_%0D%0Aset-cookie%3A%20x,aws_%C3%A4%2Cb"


def test_a_header_ends_with_a_whole_name_however_many_there_are() -> None:
    names = tuple(f"aws_{number:04}" for number in range(1000))
    value = header_list(names)
    assert len(value) <= 4000
    assert value.decode().split(",") == list(names[: value.count(b",") + 1])
    assert header_list(("aws_1234", "aws_5678"), limit=17) == b"aws_1234,aws_5678"
    assert header_list(("aws_1234", "aws_5678"), limit=16) == b"aws_1234"
    assert len(header_list(("aws_" + "x" * 9999,))) == 100


def test_every_prefix_holds_the_underscore_by_which_a_field_is_worth_a_look() -> None:
    assert all("_" in prefix for prefix in controls.PREFIXES)
