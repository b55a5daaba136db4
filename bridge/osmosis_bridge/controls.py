"""The names that are controls of a proxy or of LiteLLM and never a field of inference, on the wire lane.

A short explicit list, kept by hand and versioned with the code: it does not change when a library is upgraded. Names
that vendors use for data (`tags`, `order`, `weight`, `id`, `ttl`, `roles`, `cache`, `usage`, `region`, `url`, ...) are
not in it and are forwarded. Source of the names: LiteLLM's parameter list, sorted by what each one steers.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

ENDPOINT = frozenset(
    {
        "api_base", "base_url", "api_version", "api_type", "custom_llm_provider", "deployment_id", "deployment_url",
        "custom_endpoint", "endpoint_url", "engine", "base_model", "client", "shared_session", "ssl_verify",
        "headers", "extra_headers", "default_headers", "provider_specific_header", "extra_query", "default_query",
        "timeout", "request_timeout", "stream_timeout", "force_timeout", "timeout_by_service_tier", "region_name",
        "use_litellm_proxy", "use_chat_completions_api", "use_in_pass_through", "use_psc_endpoint_format",
        "hf_model_name", "responses_api_version", "keepalive_seconds", "stream_chunk_size", "max_file_size_mb",
    }
)  # fmt: skip
"""Where a call goes and how long it may take: the operator's to say."""

CREDENTIALS = frozenset(
    {
        "api_key", "apikey", "organization", "tenant_id", "client_id", "client_secret", "credentials",
        "predibase_tenant_id", "zen_api_key", "databricks_user_agent", "chatgpt_auth_file", "use_xai_oauth",
        "bucket_name", "vector_store_id",
    }
)  # fmt: skip
"""What proves who pays."""

OBSERVERS = frozenset(
    {
        "callbacks", "success_callback", "failure_callback", "service_callback", "input_callback", "logger_fn",
        "no-log", "turn_off_message_logging", "slack_webhook_url", "original_function",
        "standard_callback_dynamic_params",
    }
)  # fmt: skip
"""Code or services that a library would call with the prompt."""

ROUTER = frozenset(
    {
        "model_list", "model_info", "models", "fallbacks", "context_window_fallbacks", "context_window_fallback_dict",
        "content_policy_fallbacks", "default_fallbacks", "disable_fallbacks", "max_fallbacks", "fallback_depth",
        "num_retries", "max_retries", "retry_policy", "retry_strategy", "retry_after", "routing_strategy",
        "router_settings", "cooldown_time", "allowed_fails", "attempted_targets", "allowed_model_region", "tag_regex",
        "enable_tag_filtering", "fastest_response", "silent_model", "max_parallel_requests", "user_config",
        "model_alias_map", "model_group_alias", "configurable_clientside_auth_params", "provider_affinity_header",
        "rpm", "tpm", "itpm", "otpm", "rpd", "tpd",
    }
)  # fmt: skip
"""Which model answers, and how often it is asked: the evaluated model must be the one that answers."""

CACHE_AND_BUDGET = frozenset(
    {
        "caching", "caching_groups", "cache_key", "preset_cache_key", "enable_prompt_caching",
        "cache_control_injection_points", "max_budget", "budget_duration", "soft_budget", "guardrails",
        "prompt_id", "prompt_variables", "prompt_version", "prompt_label",
    }
)  # fmt: skip
"""Answers that are not the model's, and limits that are the operator's."""

PARAMETER_POLICY = frozenset(
    {
        "drop_params", "additional_drop_params", "allowed_openai_params", "enable_json_schema_validation",
        "custom_prompt_dict", "initial_prompt_value", "final_prompt_value", "supports_system_message",
        "ensure_alternating_roles", "user_continue_message", "assistant_continue_message",
        "merge_reasoning_content_in_choices", "disable_add_transform_inline_image_block", "complete_response",
        "acompletion", "async_call", "text_completion", "proxy_server_request", "secret_fields",
    }
)  # fmt: skip
"""What LiteLLM would drop, add or reshape."""

NAMES = ENDPOINT | CREDENTIALS | OBSERVERS | ROUTER | CACHE_AND_BUDGET | PARAMETER_POLICY

PREFIXES = (
    "litellm_", "aws_", "azure_", "vertex_", "watsonx_", "sagemaker_", "oci_", "wx_", "s3_", "mock_", "user_api_key",
    "langfuse_", "langsmith_", "arize_", "posthog_", "braintrust_", "lunary_", "humanloop_", "newrelic_", "signoz_",
    "input_cost_per_", "output_cost_per_", "github_copilot_", "auto_router_", "complexity_router_", "adaptive_router_",
    "quality_router_", "switchyard_", "token_exchange_", "openai_identity_", "openai_service_account_",
    "anthropic_federation_", "anthropic_issuer_", "anthropic_keycloak_", "anthropic_identity_",
    "anthropic_organization_", "anthropic_service_account_", "gcs_", "milvus_", "valkey_",
)  # fmt: skip
"""Families of controls that grow with LiteLLM's releases; no provider's inference field begins like this."""

_NAME_SHOWN = 100


def is_control(name: str) -> bool:
    """Whether a top-level request field is a control and must not leave the bridge."""
    return bool(controls_among((name,)))


def controls_among(names: Iterable[str]) -> list[str]:
    """Those of some top-level request fields that are controls."""
    # Every prefix holds an underscore, most fields do not.
    return [name for name in names if name in NAMES or ("_" in name and name.startswith(PREFIXES))]


def header_list(names: tuple[str, ...], limit: int = 4000) -> bytes:
    """Field names as one header value, comma separated; whatever a header cannot hold is percent-encoded.

    A name is cut at 100 characters, and the names that would make it longer than `limit` bytes are left out.
    """
    text = ",".join(quote(name[:_NAME_SHOWN], safe="._-") for name in names)
    return (text if len(text) <= limit else text[: limit + 1].rpartition(",")[0]).encode()
