"""F: extra_body, the envelope, and controls that must never leave the proxy."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange
from osmosis_bridge.conformance.checks import (
    brief,
    configured_model,
    error_object,
    error_says,
    fault,
    forwarded,
    full_error,
    messages_exact,
    not_called,
    ours,
    says,
    status,
    status_between,
    survives,
    upstream_has,
    upstream_lacks,
)
from osmosis_bridge.conformance.exact import at, parse, show
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
        configured_model,
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


def one_name(seen: Seen) -> Fault | None:
    """Nothing of a duplicated or disguised name is left for a provider that reads it otherwise."""
    for call in seen.calls:
        if b"evil" in call.text():
            return Fault("only what was checked is sent", call.text().decode("utf-8", "replace")[:200])
    return None


TWICE = (ours(status(400)), ours(not_called))
"""Of two values one would be lost, so our bridge takes neither."""


def twice(case_id: str, raw: str) -> Case:
    """A body in which a temperature is written twice: refused by name, as one value would be lost unseen."""
    body = raw.replace("MESSAGES", '"messages":[{"role":"user","content":"$CASE"}]').encode()
    title = "a field sent twice is refused by name, since one of its values would be lost"
    return exchange(
        case_id, title, Ask(raw=body), OK, status(400), full_error, error_says("duplicate_field", '"temperature"'),
        not_called, scope="ours",
    )  # fmt: skip


def disguised(case_id: str, title: str, raw: str, *checks: Check) -> Case:
    """A body in which a name is written twice or in escapes; MESSAGES stands for its messages."""
    body = raw.replace("MESSAGES", '"messages":[{"role":"user","content":"$CASE"}]').encode()
    return exchange(
        case_id, title, Ask(raw=body), OK, ours(survives), ours(status_between(200, 499)), one_name, *checks
    )


DISGUISES = (
    disguised("F25-escaped-name", "a control written in escapes is a control", r'{"model":"$MODEL",MESSAGES,"api\u005fbase":"evil","\u0061pi_key":"evil"}'),
    disguised("F25-escaped-inside", "also inside extra_body", r'{"model":"$MODEL",MESSAGES,"extra_body":{"\u0062ase_url":"evil"}}'),
    disguised("F6-escaped-wrapper", "extra_body written in escapes is unwrapped or refused", r'{"model":"$MODEL",MESSAGES,"extra\u005fbody":{"api_key":"evil","seed":1}}', NO_WRAPPER),
    disguised("F25-twice", "a control sent twice does not leave", '{"model":"$MODEL",MESSAGES,"api_key":"evil1","api_key":"evil2"}', *TWICE),
    disguised("F26-model-twice", "a model sent twice changes no route", '{"model":"evil","model":"$MODEL",MESSAGES}', *TWICE),
    disguised("F26-escaped-model", "a model written in escapes changes no route", r'{"\u006dodel":"$MODEL",MESSAGES,"extra_body":{"mod\u0065l":"evil"}}'),
    disguised("F6-twice", "extra_body sent twice hides nothing", '{"model":"$MODEL",MESSAGES,"extra_body":{"api_key":"evil"},"extra_body":{"seed":1}}', NO_WRAPPER, *TWICE),
    disguised("F-messages-twice", "messages sent twice hide nothing", '{"model":"$MODEL","messages":[{"role":"user","content":"evil"}],MESSAGES}', *TWICE),
    twice("F-twice", '{"model":"$MODEL",MESSAGES,"temperature":1,"temperature":0}'),
    twice("F-twice-equal", '{"model":"$MODEL",MESSAGES,"temperature":0,"temperature":0}'),
    twice("F-twice-spaced", '{"model": "$MODEL", MESSAGES, "temperature": 1, "temperature": 0}'),
    twice("F-twice-escaped", r'{"model":"$MODEL",MESSAGES,"temperature":1,"temper\u0061ture":0}'),
    twice("F-twice-far", '{"temperature":1,"model":"$MODEL",MESSAGES,"x":"' + "y" * 100_000 + '","temperature":0}'),
    twice("F-twice-inside", '{"model":"$MODEL",MESSAGES,"extra_body":{"temperature":1,"temperature":0}}'),
    exchange("F23-null-body", "extra_body null is a 400 or nothing", Ask('"extra_body":null'), OK, survives, status_between(200, 499), NO_WRAPPER),
    exchange("F-options-in-extra-body", "stream_options inside extra_body is no 500", Ask('"extra_body":{"stream_options":{"include_usage":true}}', stream=True), STREAM, survives, NO_WRAPPER),
    exchange("F-blank-around", "blanks and line ends around and in the body are no problem", Ask(raw=b' \r\n\t{ "model" : "$MODEL" ,\n"messages" : [ { "role" : "user" , "content" : "$CASE" } ] , "seed" : 1 }\n\n '), OK, ours(status(200)), ours(upstream_has("seed", "1")), survives),
)  # fmt: skip

ENVELOPE = (
    exchange(
        "F26-model-in-extra-body",
        "model inside extra_body does not change the route",
        Ask('"extra_body":{"model":"evil-model","seed":1}'),
        OK,
        status_between(200, 499),
        configured_model,
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
        messages_exact,
    ),
)  # fmt: skip

CASES: tuple[Case, ...] = (*MERGES, *ENVELOPE, *DISGUISES)
