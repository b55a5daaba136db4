"""F: controls (endpoint, credentials, callbacks, router, ...) never leave the proxy, and are named when taken out."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange
from osmosis_bridge.conformance.checks import (
    called,
    fault,
    forwarded,
    header_is,
    ours,
    record_lists,
    reply_lacks,
    says,
    status,
    survives,
    upstream_bytes_lack,
    upstream_has,
    upstream_lacks,
)
from osmosis_bridge.conformance.exact import members, show
from osmosis_bridge.conformance.samples import WHOLE, completion
from osmosis_bridge.conformance.script import plain, stream

OK = plain(completion())
STREAM = stream(*WHOLE)
CANARY = "ctl-canary-5150"
CONTROLS = {
    "endpoint": (
        ("api_base", '"http://127.0.0.1:9/ctl-canary-5150"'),
        ("base_url", '"http://127.0.0.1:9/ctl-canary-5150"'),
        ("api_version", '"ctl-canary-5150"'),
        ("custom_llm_provider", '"ctl-canary-5150"'),
        ("extra_headers", '{"x-evil":"ctl-canary-5150"}'),
        ("headers", '{"authorization":"ctl-canary-5150"}'),
    ),
    "time-outs": (("timeout", "0.001"), ("request_timeout", "0.001"), ("stream_timeout", "0.001")),
    "credentials": (
        ("api_key", '"ctl-canary-5150"'),
        ("organization", '"ctl-canary-5150"'),
        ("aws_secret_access_key", '"ctl-canary-5150"'),
        ("azure_ad_token", '"ctl-canary-5150"'),
        ("vertex_credentials", '"ctl-canary-5150"'),
        ("litellm_credential_name", '"ctl-canary-5150"'),
    ),
    "callbacks": (
        ("callbacks", '["ctl-canary-5150"]'),
        ("success_callback", '["ctl-canary-5150"]'),
        ("failure_callback", '["ctl-canary-5150"]'),
        ("litellm_metadata", '{"x":"ctl-canary-5150"}'),
        ("langfuse_public_key", '"ctl-canary-5150"'),
    ),
    "router": (
        ("fallbacks", '["ctl-canary-5150"]'),
        ("context_window_fallback_dict", '{"a":"ctl-canary-5150"}'),
        ("models", '["ctl-canary-5150"]'),
        ("rpm", "1"),
    ),
    "model-list": (("model_list", '[{"model_name":"ctl-canary-5150"}]'),),
    "retries": (("num_retries", "3"), ("max_retries", "3"), ("cooldown_time", "60")),
    "mocks": (
        ("mock_response", '"ctl-canary-5150"'),
        ("mock_tool_calls", '[{"id":"ctl-canary-5150"}]'),
        ("mock_testing_fallbacks", "true"),
    ),
    "cache": (("caching", "true"), ("cache_control_injection_points", '[{"location":"message"}]')),
    "budget": (("max_budget", "0.01"), ("budget_duration", '"1d"'), ("guardrails", '["ctl-canary-5150"]')),
    "policy": (
        ("drop_params", "true"),
        ("additional_drop_params", '["seed"]'),
        ("allowed_openai_params", '["seed"]'),
    ),
}  # fmt: skip


def answered_by_the_model(seen: Seen) -> Fault | None:
    """A 200 means that the upstream was asked; a refusal is fine too."""
    if seen.reply.status == 200 and not seen.calls:
        return fault("a 200 only from the model", seen)
    return None


def control_case(name: str, pairs: tuple[tuple[str, str], ...], *, inside: bool) -> Case:
    """Controls of one kind, at the top or inside extra_body."""
    names = [key for key, _ in pairs]
    fields = ",".join(f'"{key}":{value}' for key, value in pairs)
    place = "inside extra_body" if inside else "at the top level"
    ask = Ask(f'"extra_body":{{{fields},"seed":4}}' if inside else f'{fields},"seed":4')
    return exchange(
        f"F25-{name}-{'extra' if inside else 'top'}",
        f"controls ({', '.join(names)}) {place} never reach the provider",
        ask,
        OK,
        ours(survives),
        upstream_lacks(*names),
        upstream_bytes_lack(CANARY),
        answered_by_the_model,
        ours(status(200)),
        ours(called(1)),
        ours(upstream_has("seed", "4")),
        ours(header_is("x-osmosis-stripped", ", ".join(names))) if len(names) == 1 else ours(names_stripped(names)),
        ours(record_lists("stripped", *names)),
        ours(reply_lacks(CANARY)),
    )  # fmt: skip


def names_stripped(names: list[str]) -> Check:
    """The reply header names every stripped control."""

    def check(seen: Seen) -> Fault | None:
        shown = seen.reply.header("x-osmosis-stripped") or ""
        listed = {part.strip() for part in shown.split(",")}
        missing = [name for name in names if name not in listed]
        return Fault(f"x-osmosis-stripped names {missing[0]}", shown or "no such header") if missing else None

    return check


def _thinking_stays(seen: Seen) -> Fault | None:
    out = members(seen.upstream_json)
    return None if not seen.calls or "thinking" in out else Fault("thinking is forwarded", show(out))


CASES: tuple[Case, ...] = (
    *(control_case(name, pairs, inside=inside) for name, pairs in CONTROLS.items() for inside in (False, True)),
    exchange(
        "F14-drop-params",
        "drop_params is not obeyed: thinking still reaches the provider",
        Ask('"drop_params":true,"thinking":{"type":"disabled"}'),
        OK,
        ours(survives),
        upstream_lacks("drop_params"),
        _thinking_stays,
    ),
    exchange(
        "F25-streamed",
        "controls are stripped from streams and named",
        Ask('"api_key":"ctl-canary-5150","extra_body":{"api_base":"http://127.0.0.1:9"}', stream=True),
        STREAM,
        ours(survives),
        upstream_lacks("api_key", "api_base"),
        upstream_bytes_lack(CANARY),
        ours(names_stripped(["api_key", "api_base"])),
        ours(says("hello")),
    ),
    exchange(
        "F25-none-stripped",
        "a call without controls says nothing of stripping",
        Ask('"seed":1'),
        OK,
        status(200),
        ours(lambda seen: None if not seen.reply.header("x-osmosis-stripped") else fault("no x-osmosis-stripped", seen)),
    ),
    exchange(
        "F25-value-named-like-control",
        "a control's name deeper in the body is data",
        Ask('"chat_template_kwargs":{"api_key":"a","timeout":3,"model":"m"},"vllm_xargs":{"drop_params":true}'),
        OK,
        status(200),
        forwarded,
    ),
)  # fmt: skip
