"""Amazon Bedrock's Converse. Its requests are signed, so nothing is put into the body after LiteLLM has made it.

LiteLLM moves a name it does not know into `additionalModelRequestFields`, where Bedrock wants the parameters of a
model; its own reserved names it keeps for itself, so those are refused.
"""

from __future__ import annotations

from typing import Final

from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.rule import (
    Asked,
    Family,
    FieldRule,
    Rule,
    absent,
    kind_of,
    only,
    refuse,
    refused,
    refused_unless,
    supported,
    tools_at,
    translate,
    usage_option,
    with_tools,
)

_NOT_THERE: Final = "Bedrock's Converse has no such parameter"
_MODEL_FIELDS: Final = "additionalModelRequestFields"
_TOP_LEVEL: Final = (
    "guardrailConfig",
    "performanceConfig",
    "requestMetadata",
    "serviceTier",
    "promptVariables",
)
_TIERS: Final = ("default", "flex", "priority", "reserved")


def _inference(name: str) -> FieldRule:
    return lambda value, asked: translate(("inferenceConfig", name))


def _stop(value: Json, asked: Asked) -> Rule:
    return translate(("inferenceConfig", "stopSequences"), check="words")


def _second_limit(value: Json, asked: Asked) -> Rule:
    if asked.fields.get("max_tokens") not in (None, value):
        return refuse("it differs from max_tokens, and there is one limit only")
    return translate(("inferenceConfig", "maxTokens"))


def _response_format(value: Json, asked: Asked) -> Rule:
    kind = kind_of(value)
    if kind == "text":
        return absent("text is the default")
    if kind != "json_schema":
        return refuse("Converse has no JSON mode without a schema; use json_schema, or say it in the prompt")
    return translate(("toolConfig",), ("outputConfig",), (_MODEL_FIELDS,), check="words")


def _tool_choice(value: Json, asked: Asked) -> Rule:
    if value == "none":
        return refuse("Converse cannot be told to call no tool; leave the tools out")
    return translate(("toolConfig", "toolChoice"), check="changed")


def _parallel(value: Json, asked: Asked) -> Rule:
    if value is True:
        return absent("tools are called in parallel by default")
    return translate((_MODEL_FIELDS, "tool_choice", "disable_parallel_tool_use"), check="changed")


def _service_tier(value: Json, asked: Asked) -> Rule:
    if value not in _TIERS:
        return refuse("Bedrock's service tiers are default, flex, priority and reserved")
    return translate(("serviceTier", "type"))


def _thinking(name: str) -> FieldRule:
    return supported(
        name, (_MODEL_FIELDS, "thinking"), (_MODEL_FIELDS, "reasoningConfig"), (_MODEL_FIELDS, name)
    )


def _effort(value: Json, asked: Asked) -> Rule:
    if asked.fields.get("thinking") is None:
        return _thinking("reasoning_effort")(value, asked)
    if "reasoning_effort" not in asked.supported:
        return refuse("this model has no such parameter")
    why = "thinking says it for this model; send one of them"
    return translate((_MODEL_FIELDS, "output_config", "effort"), why=why)


def _inference_config(value: Json, asked: Asked) -> Rule:
    """Converse's own is made from OpenAI's fields; what the client names so goes to the model, as Nova wants `topK`."""
    if not isinstance(value, dict) or value.keys() - {"topK"}:
        return refuse(
            "Converse's inferenceConfig is made of max_tokens, temperature, top_p and stop; send those"
        )
    return _other("inferenceConfig", value, asked)


def _other(name: str, value: Json, asked: Asked) -> Rule:
    if name in asked.reserved:
        return refuse("the translator keeps this name for itself")
    if name in _TOP_LEVEL:
        return translate((name,))
    return translate((_MODEL_FIELDS, name))


def _top_k(value: Json, asked: Asked) -> Rule:
    return translate((_MODEL_FIELDS, "top_k"), (_MODEL_FIELDS, "inferenceConfig", "topK"))


RULES: Final[dict[str, FieldRule]] = {
    "max_tokens": _inference("maxTokens"),
    "max_completion_tokens": _second_limit,
    "temperature": _inference("temperature"),
    "top_p": _inference("topP"),
    "top_k": _top_k,
    "stop": _stop,
    "tools": tools_at(("toolConfig", "tools")),
    "tool_choice": with_tools(_tool_choice),
    "parallel_tool_calls": with_tools(_parallel),
    "response_format": _response_format,
    "reasoning_effort": _effort,
    "thinking": _thinking("thinking"),
    "service_tier": _service_tier,
    "context_management": supported("context_management", (_MODEL_FIELDS, "context_management")),
    "web_search_options": supported("web_search_options", ("toolConfig", "tools")),
    "stream_options": usage_option,
    "n": only(1, "one answer is what there is", "Converse gives one answer a call"),
    "logprobs": only(False, "none is the default", _NOT_THERE),
    "modalities": only(["text"], "text is the default", "Converse answers in text"),
    "store": only(False, "nothing is stored", _NOT_THERE),
    "inferenceConfig": _inference_config,
    "metadata": refused("Converse takes no metadata; it has requestMetadata"),
}

CONVERSE: Final = Family(
    name="bedrock converse",
    dialect="converse",
    rules=refused_unless(RULES, _NOT_THERE),
    other=_other,
    calls=r"/converse(?:-stream)?",
    messages_at=("messages", "system"),
    cache_mark="cachePoint",
    reasoning="blocks",
    turn_fields=frozenset({"thinking_blocks", "cache_control"}),
    part_fields=frozenset({"cache_control", "thinking", "signature", "data"}),
)
