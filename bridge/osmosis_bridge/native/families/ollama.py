"""Ollama's own API, chat and generate: sampling stands in `options`, what shapes the call stands beside it."""

from __future__ import annotations

from typing import Final

import msgspec

from osmosis_bridge.native.jsontree import MISSING, Json, as_object, at
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
    usage_option,
    with_tools,
)

_NOT_THERE: Final = "Ollama has no such parameter"
_BESIDE: Final = frozenset({"format", "keep_alive", "raw", "suffix", "system", "template", "think"})


def _option(name: str) -> FieldRule:
    return placed("options", name)


def _effort(value: Json, asked: Asked) -> Rule:
    """A level stays a level: LiteLLM would make it `true`."""
    if value == "none":
        return place("think", value=False)
    if value in ("low", "medium", "high"):
        return place("think")
    return refuse("Ollama's levels of reasoning are none, low, medium and high")


def _thinking(value: Json, asked: Asked) -> Rule:
    """That it thinks or does not; Ollama ignores options that it does not know, a budget among them."""
    thinks = {"disabled": False, "adaptive": True}.get(kind_of(value))
    if thinks is None or len(as_object(value)) > 1:
        return refuse("Ollama can be told to think or not to, and at one of three levels by reasoning_effort")
    if asked.fields.get("reasoning_effort") is None:
        return place("think", value=thinks)
    return (
        absent("reasoning_effort says how much") if thinks else refuse("reasoning_effort says something else")
    )


def _response_format(value: Json, asked: Asked) -> Rule:
    kind = kind_of(value)
    if kind == "text":
        return absent("text is the default")
    if kind == "json_object":
        return place("format", value="json")
    schema = at(value, ("json_schema", "schema"))
    if kind != "json_schema" or schema is MISSING:
        return refuse("it is none of text, json_object and json_schema with a schema")
    return place("format", value=schema)


def _other(name: str, value: Json, asked: Asked) -> Rule:
    if name in _BESIDE:
        return place(name)
    if name == "options":
        return place("options", override=False)
    return place("options", name, override=False)


_RULES: Final[dict[str, FieldRule]] = {
    "max_tokens": _option("num_predict"),
    "max_completion_tokens": _option("num_predict"),
    "temperature": _option("temperature"),
    "top_p": _option("top_p"),
    "seed": _option("seed"),
    "frequency_penalty": _option("frequency_penalty"),
    "presence_penalty": _option("presence_penalty"),
    "stop": stop_at("options", "stop"),
    "tools": lambda value, asked: place("tools") if value else absent("an empty list is no tools"),
    "tool_choice": with_tools(only("auto", "the model chooses by default", "Ollama has no tool choice")),
    "parallel_tool_calls": with_tools(
        only(True, "it is the default", "Ollama cannot be told to call one tool at a time")
    ),
    "response_format": _response_format,
    "reasoning_effort": _effort,
    "thinking": _thinking,
    "stream_options": usage_option,
    "n": only(1, "one answer is what there is", "Ollama gives one answer a call"),
    "logprobs": only(False, "none is the default", _NOT_THERE),
    "modalities": only(["text"], "text is the default", "Ollama answers in text"),
    "store": only(False, "nothing is stored", _NOT_THERE),
}

OLLAMA: Final = Family(
    name="ollama",
    dialect="ollama",
    rules=refused_unless(_RULES, _NOT_THERE),
    other=_other,
    calls=r"/api/chat",
    reasoning="text",
)
_NO_TOOLS: Final[dict[str, FieldRule]] = {
    "tools": lambda value, asked: (
        refuse("ollama/ takes no tools; ollama_chat/ does") if value else absent("an empty list is no tools")
    ),
}
OLLAMA_GENERATE: Final = msgspec.structs.replace(
    OLLAMA,
    name="ollama generate",
    rules=dict(OLLAMA.rules)
    | _NO_TOOLS
    | {"tool_choice": refused("ollama/ takes no tools; ollama_chat/ does")},
    calls=r"/api/generate",
    messages_at=("prompt", "system"),
)
