"""Claude in its own dialect: Anthropic's Messages API, at Anthropic and at Vertex.

Source of the rules: Anthropic's reference of the Messages API, and what LiteLLM was measured to do with each field.
"""

from __future__ import annotations

from typing import Final

import msgspec

from osmosis_bridge.native.jsontree import Json, as_object
from osmosis_bridge.native.rule import (
    Asked,
    Family,
    FieldRule,
    Rule,
    absent,
    kind_of,
    only,
    place,
    placed,
    refuse,
    refused,
    refused_unless,
    stop_at,
    supported,
    tools_at,
    translate,
    usage_option,
    with_tools,
)

_NOT_THERE: Final = "Claude's Messages API has no such parameter"


def _limit(value: Json, asked: Asked) -> Rule:
    """LiteLLM adds the thinking budget to the limit, so that the answer keeps all of it; shown as a changed value."""
    thinks = asked.fields.get("reasoning_effort") is not None
    return translate(("max_tokens",), check="changed" if thinks else "same")


def _second_limit(value: Json, asked: Asked) -> Rule:
    if asked.fields.get("max_tokens") not in (None, value):
        return refuse("it differs from max_tokens, and there is one limit only")
    return _limit(value, asked)


def _metadata(value: Json, asked: Asked) -> Rule:
    if value is None:
        return absent("null is the default")
    if not isinstance(value, dict) or value.keys() - {"user_id"}:
        return refuse("Claude takes no metadata but user_id")
    user = asked.fields.get("user")
    if user is not None and as_object(value).get("user_id") not in (None, user):
        return refuse("its user_id differs from user; send one of them")
    return place("metadata")


def _user(value: Json, asked: Asked) -> Rule:
    return place("metadata", "user_id")


def _response_format(value: Json, asked: Asked) -> Rule:
    kind = kind_of(value)
    if kind == "text":
        return absent("text is the default")
    if kind != "json_schema":
        return refuse("Claude has no JSON mode without a schema; use json_schema, or say it in the prompt")
    return translate(("output_format",), ("output_config",), ("tools",), check="words")


def _tool_choice(value: Json, asked: Asked) -> Rule:
    return translate(("tool_choice",), check="changed")


def _parallel(value: Json, asked: Asked) -> Rule:
    if not isinstance(value, bool):
        return refuse("it must be true or false")
    if value:
        return absent("tools are called in parallel by default")
    return translate(("tool_choice", "disable_parallel_tool_use"), check="changed")


def _effort(value: Json, asked: Asked) -> Rule:
    if value == "none":
        return absent("Claude does not reason unless asked")
    if "reasoning_effort" not in asked.supported:
        return refuse("this model does not reason")
    if asked.fields.get("thinking") is not None:
        return translate(("output_config", "effort"), why="thinking says it for this model; send one of them")
    return translate(("output_config", "effort"), ("thinking",), check="changed")


def _service_tier(value: Json, asked: Asked) -> Rule:
    if value in ("auto", "standard_only"):
        return place("service_tier")
    return refuse("Claude's service tiers are auto and standard_only")


def _other(name: str, value: Json, asked: Asked) -> Rule:
    return place(name, override=False)


RULES: Final[dict[str, FieldRule]] = {
    "max_tokens": _limit,
    "max_completion_tokens": _second_limit,
    "temperature": placed("temperature"),
    "top_p": placed("top_p"),
    "top_k": placed("top_k"),
    "stop": stop_at("stop_sequences"),
    "tools": tools_at(("tools",)),
    "tool_choice": with_tools(_tool_choice),
    "parallel_tool_calls": with_tools(_parallel),
    "response_format": _response_format,
    "user": _user,
    "metadata": _metadata,
    "reasoning_effort": _effort,
    "thinking": placed("thinking"),
    "service_tier": _service_tier,
    "context_management": supported("context_management", ("context_management",)),
    "web_search_options": supported("web_search_options", ("tools",)),
    "speed": supported("speed", ("speed",)),
    "stream_options": usage_option,
    "n": only(1, "one answer is what there is", "Claude gives one answer a call"),
    "logprobs": only(False, "none is the default", _NOT_THERE),
    "modalities": only(["text"], "text is the default", "Claude answers in text"),
    "store": only(False, "nothing is stored", _NOT_THERE),
}

ANTHROPIC: Final = Family(
    name="anthropic",
    dialect="anthropic",
    rules=refused_unless(RULES, _NOT_THERE),
    other=_other,
    calls=r"/messages",
    messages_at=("messages", "system"),
    speaks=frozenset({"/messages"}),
    strict_tools_at=("tools",),
    cache_mark="cache_control",
    reasoning="blocks",
    turn_fields=frozenset({"thinking_blocks", "cache_control"}),
    part_fields=frozenset(
        {"cache_control", "thinking", "signature", "data", "citations", "title", "context"}
    ),
)
VERTEX_CLAUDE: Final = msgspec.structs.replace(
    ANTHROPIC,
    name="claude on vertex",
    rules=refused_unless(
        RULES | {"service_tier": refused("Vertex has no service tiers for Claude")}, _NOT_THERE
    ),
    calls=r":(?:streamR|r)awPredict",
)
