"""Cohere's chat, version 2. LiteLLM loses the tool choice and refuses the response format; both are placed here."""

from __future__ import annotations

from typing import Final

from osmosis_bridge.native.jsontree import MISSING, Json, as_object, at
from osmosis_bridge.native.rule import (
    Asked,
    Family,
    FieldRule,
    Rule,
    StrictMode,
    absent,
    kind_of,
    only,
    place,
    placed,
    refuse,
    refused_unless,
    stop_at,
    usage_option,
    with_tools,
)

_NOT_THERE: Final = "Cohere's chat has no such parameter"
_CHOICES: Final = {"required": "REQUIRED", "none": "NONE"}


def _tool_choice(value: Json, asked: Asked) -> Rule:
    if value == "auto":
        return absent("the model chooses by default")
    if isinstance(value, str) and value in _CHOICES:
        return place("tool_choice", value=_CHOICES[value])
    return refuse("Cohere knows auto, required and none, and cannot be told one tool")


def _response_format(value: Json, asked: Asked) -> Rule:
    kind = kind_of(value)
    if kind == "text":
        return absent("text is the default")
    if kind == "json_object":
        return place("response_format")
    schema = at(value, ("json_schema", "schema"))
    if kind != "json_schema" or schema is MISSING:
        return refuse("it is none of text, json_object and json_schema with a schema")
    return place("response_format", value={"type": "json_object", "json_schema": schema})


def _thinking(value: Json, asked: Asked) -> Rule:
    """What others call `budget_tokens` is `token_budget` here."""
    given = as_object(value)
    if "budget_tokens" not in given:
        return place("thinking")
    named = {name: inner for name, inner in given.items() if name != "budget_tokens"}
    return place("thinking", value={"token_budget": given["budget_tokens"], **named})


def _other(name: str, value: Json, asked: Asked) -> Rule:
    return place(name, override=False)


RULES: Final[dict[str, FieldRule]] = {
    "max_tokens": placed("max_tokens"),
    "max_completion_tokens": placed("max_tokens"),
    "temperature": placed("temperature"),
    "top_p": placed("p"),
    "top_k": placed("k"),
    "stop": stop_at("stop_sequences"),
    "seed": placed("seed"),
    "frequency_penalty": placed("frequency_penalty"),
    "presence_penalty": placed("presence_penalty"),
    "tools": lambda value, asked: place("tools") if value else absent("an empty list is no tools"),
    "tool_choice": with_tools(_tool_choice),
    "parallel_tool_calls": with_tools(
        only(True, "it is the default", "Cohere cannot be told to call one tool at a time")
    ),
    "response_format": _response_format,
    "thinking": _thinking,
    "stream_options": usage_option,
    "n": only(1, "one answer is what there is", "Cohere gives one answer a call"),
    "logprobs": only(False, "none is the default", "LiteLLM reads no log probabilities of Cohere's"),
    "modalities": only(["text"], "text is the default", "Cohere answers in text"),
    "store": only(False, "nothing is stored", _NOT_THERE),
}

COHERE: Final = Family(
    name="cohere",
    dialect="cohere",
    rules=refused_unless(RULES, _NOT_THERE),
    other=_other,
    calls=r"/chat",
    strict_mode=StrictMode(("strict_tools",), True),
)
