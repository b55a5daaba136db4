"""F: extra_body, the envelope, and controls that must never leave the proxy."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange
from osmosis_bridge.conformance.checks import (
    brief,
    called,
    error_object,
    fault,
    forwarded,
    header_is,
    messages_kept,
    not_called,
    ours,
    record_lists,
    reply_lacks,
    says,
    status,
    status_between,
    survives,
    upstream_bytes_lack,
    upstream_has,
    upstream_lacks,
)
from osmosis_bridge.conformance.exact import at, members, parse, show
from osmosis_bridge.conformance.samples import WHOLE, completion
from osmosis_bridge.conformance.script import plain, stream
from osmosis_bridge.conformance.stage import Stage

OK = plain(completion())
STREAM = stream(*WHOLE)
NO_WRAPPER = upstream_lacks("extra_body")


def merged(case_id: str, title: str, fields: str, *checks: Check) -> Case:
    """A case of a literal extra_body."""
    return exchange(case_id, title, Ask(fields), OK, status(200), NO_WRAPPER, *checks)


def refused(case_id: str, title: str, fields: str) -> Case:
    """A request that our bridge answers 400 before any provider call."""
    return exchange(case_id, title, Ask(fields), OK, status(400), error_object, not_called, scope="ours")


MERGES = (
    merged(
        "F6-unwrapped",
        "extra_body is unwrapped once and never sent as a key",
        '"extra_body":{"chat_template_kwargs":{"thinking":false}}',
        forwarded,
    ),
    merged(
        "F4-provider-in-extra-body",
        "OpenRouter's provider inside extra_body is put at the root",
        '"extra_body":{"provider":{"order":["OpenAI"],"allow_fallbacks":false}}',
        forwarded,
    ),
    merged("F23-wins", "extra_body wins over the top level", '"temperature":0.1,"extra_body":{"temperature":0.9}', forwarded),
    merged(
        "F23-order", "extra_body wins also when it comes first", '"extra_body":{"temperature":0.9},"temperature":0.1', forwarded
    ),
    merged(
        "F23-shallow",
        "a nested object in extra_body replaces, it is not merged",
        '"reasoning":{"effort":"low"},"extra_body":{"reasoning":{"max_tokens":9}}',
        forwarded,
    ),
    merged("F23-null-wins", "a null in extra_body wins", '"seed":7,"extra_body":{"seed":null}', forwarded),
    merged("F23-list", "a list in extra_body replaces the list", '"stop":["a","b"],"extra_body":{"stop":["c"]}', forwarded),
    merged("F23-empty", "an empty extra_body leaves no trace", '"seed":1,"extra_body":{}', forwarded),
    merged("F23-numbers", "numbers inside extra_body keep their text", '"extra_body":{"x":1.10,"y":1e400}', forwarded),
    exchange(
        "F6-streamed",
        "extra_body is unwrapped on a stream too",
        Ask('"extra_body":{"top_k":4}', stream=True),
        STREAM,
        status(200),
        NO_WRAPPER,
        forwarded,
    ),
    refused("F23-list-body", "extra_body that is a list is a 400", '"extra_body":[1]'),
    refused("F23-string-body", "extra_body that is a string is a 400", '"extra_body":"x"'),
    refused("F23-number-body", "extra_body that is a number is a 400", '"extra_body":7'),
    refused("F23-nested", "extra_body inside extra_body is a 400", '"extra_body":{"extra_body":{"a":1}}'),
    refused("F23-nested-null", "extra_body null inside extra_body is a 400", '"extra_body":{"extra_body":null}'),
)  # fmt: skip


def _one_model(seen: Seen) -> Fault | None:
    """No model name of the client's reaches the upstream."""
    for call in seen.calls:
        model = at(call.json(), "model")
        if model in {"evil-model", "gpt-4o-mini", "anthropic/claude"}:
            return Fault("the configured model answers", f"model {show(model)} was asked for")
    return None


def _root_messages(seen: Seen) -> Fault | None:
    """The root's messages go out, or the request is refused."""
    for call in seen.calls:
        if "smuggled" in show(at(call.json(), "messages"), 10_000):
            return Fault("the root's messages, or a 400", "extra_body replaced the messages")
    return None


def _plain_or_refused(seen: Seen) -> Fault | None:
    """Not streamed, or refused."""
    return fault("a plain reply, or a 400", seen) if seen.reply.is_stream else None


def aliased(case_id: str, model: str) -> Case:
    """Any model name is an alias of the configured one, and is echoed."""

    def echoed(seen: Seen) -> Fault | None:
        got = at(seen.reply.json, "model")
        return None if got == parse(model) else Fault(f"model {model} echoed", show(got))

    return exchange(
        case_id,
        f"model {model[:40]} is an alias: the configured model answers, the alias is echoed",
        Ask(model=model),
        OK,
        status(200),
        echoed,
        _one_model,
        scope="ours",
    )


async def _aliases_on_streams(stage: Stage) -> Fault | None:
    stage.play(STREAM)
    seen = await stage.exchange(Ask(stream=True, model='"my/own:alias"'))
    names = [show(at(payload, "model")) for payload in seen.reply.payloads()]
    if set(names) == {'"my/own:alias"'}:
        return None
    return Fault("every chunk echoes the alias", f"{sorted(set(names))}; {brief(seen.reply)}")


async def _one_route(stage: Stage) -> Fault | None:
    """The outgoing model is the same for every alias."""
    names: set[str] = set()
    for number, model in enumerate(('"osmosis-rollout"', '"gpt-4o-mini"', '"anthropic/claude"')):
        seen = await stage.exchange(Ask(model=model), stage.play(OK, f"n{number}"))
        if not seen.calls:
            return fault("the request reaches the upstream", seen)
        names.add(show(at(seen.upstream_json, "model")))
    return None if len(names) == 1 else Fault("one model at the upstream", ", ".join(sorted(names)))


def streaming_flag(case_id: str, value: str) -> Case:
    """`stream` that is no boolean is refused or forwarded, never guessed."""

    def not_guessed(seen: Seen) -> Fault | None:
        if 400 <= seen.reply.status < 500:
            return None
        sent = [show(at(call.json(), "stream")) for call in seen.calls]
        return None if sent == [value] else fault(f"a 400, or stream = {value} at the upstream", seen)

    return exchange(
        case_id, f"stream = {value} is refused or forwarded, never guessed", Ask(f'"stream":{value}'), OK,
        survives, not_guessed, ours(status(400)), ours(not_called),
    )  # fmt: skip


ENVELOPE = (
    exchange(
        "F26-model-in-extra-body",
        "model inside extra_body does not change the route",
        Ask('"extra_body":{"model":"evil-model","seed":1}'),
        OK,
        status_between(200, 499),
        _one_model,
    ),
    exchange(
        "F-messages-in-extra-body",
        "messages inside extra_body do not replace the messages",
        Ask('"extra_body":{"messages":[{"role":"user","content":"smuggled"}]}'),
        OK,
        status_between(200, 499),
        _root_messages,
    ),
    exchange(
        "F-stream-in-extra-body",
        "stream inside extra_body does not make a plain call a stream",
        Ask('"extra_body":{"stream":true}'),
        OK,
        status_between(200, 499),
        _plain_or_refused,
    ),
    aliased("F26-alias", '"gpt-4o-mini"'),
    aliased("F26-alias-provider", '"anthropic/claude"'),
    aliased("F26-alias-odd", r'"a \"b\" \\ é/:*"'),
    Case("F26-alias-stream", "every chunk echoes the client's alias", _aliases_on_streams, "ours"),
    Case("F26-one-route", "every alias is answered by the same model", _one_route, "ours"),
    streaming_flag("F27-stream-string", '"true"'),
    streaming_flag("F27-stream-false-string", '"false"'),
    streaming_flag("F27-stream-one", "1"),
    streaming_flag("F27-stream-zero", "0"),
    streaming_flag("F27-stream-object", "{}"),
    exchange(
        "F27-stream-null",
        "stream null is plain, or a 400",
        Ask('"stream":null'),
        OK,
        survives,
        status_between(200, 499),
        _plain_or_refused,
    ),
    exchange(
        "F-stream-false",
        "stream false is a plain call",
        Ask('"stream":false'),
        OK,
        says("hello"),
        _plain_or_refused,
    ),
    exchange(
        "F-stream-options-kept",
        "stream_options of the client are kept",
        Ask('"stream_options":{"include_usage":true,"include_obfuscation":false,"continuous_usage_stats":true}', stream=True),
        STREAM,
        status(200),
        upstream_has(
            "stream_options", '{"include_usage":true,"include_obfuscation":false,"continuous_usage_stats":true}'
        ),
    ),
    exchange(
        "F-stream-options-odd",
        "stream_options that is no object is no 500",
        Ask('"stream_options":"x"', stream=True),
        STREAM,
        survives,
    ),
    exchange(
        "F-messages-untouched",
        "messages with unknown members reach the provider",
        Ask(messages='[{"role":"system","content":"s","weight":0},{"role":"user","content":"$CASE","id":"m1","x":null}]'),
        OK,
        status(200),
        messages_kept,
    ),
)  # fmt: skip

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
        survives,
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
    *MERGES,
    *ENVELOPE,
    *(control_case(name, pairs, inside=inside) for name, pairs in CONTROLS.items() for inside in (False, True)),
    exchange(
        "F14-drop-params",
        "drop_params is not obeyed: thinking still reaches the provider",
        Ask('"drop_params":true,"thinking":{"type":"disabled"}'),
        OK,
        survives,
        upstream_lacks("drop_params"),
        _thinking_stays,
    ),
    exchange(
        "F25-streamed",
        "controls are stripped from streams and named",
        Ask('"api_key":"ctl-canary-5150","extra_body":{"api_base":"http://127.0.0.1:9"}', stream=True),
        STREAM,
        survives,
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
