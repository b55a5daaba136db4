"""Gemini's generateContent, at Google AI Studio and at Vertex.

LiteLLM loses every field that it does not know on this dialect, `user` and `metadata` without a word, and turns the
service tier `auto` into the dearer `priority`. What is Gemini's own goes where the reference of generateContent has it;
anything else goes to the top level, where the provider names it in its answer if it does not know it.
"""

from __future__ import annotations

from typing import Final

from osmosis_bridge.native.jsontree import Json, as_object, spelled
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
    supported,
    tools_at,
    translate,
    usage_option,
    with_tools,
)

_NOT_THERE: Final = "Gemini has no such parameter"
_THINKING: Final = ("generationConfig", "thinkingConfig")
_TIERS: Final = ("flex", "priority", "standard")


def _config(*names: str) -> FieldRule:
    return placed("generationConfig", *names)


def _second_limit(value: Json, asked: Asked) -> Rule:
    if asked.fields.get("max_tokens") not in (None, value):
        return refuse("it differs from max_tokens, and there is one limit only")
    return place("generationConfig", "max_output_tokens")


def _parallel(value: Json, asked: Asked) -> Rule:
    if value is True:
        return absent("tools are called in parallel by default")
    return refuse("Gemini cannot be told to call one tool at a time")


def _response_format(value: Json, asked: Asked) -> Rule:
    kind = kind_of(value)
    if kind == "text":
        return absent("text is the default")
    if kind == "json_object":
        return translate(("generationConfig", "response_mime_type"), check="changed")
    return translate(("generationConfig",), check="words")


def _service_tier(value: Json, asked: Asked) -> Rule:
    if value == "default":
        return place("serviceTier", value="standard")
    if value in _TIERS:
        return place("serviceTier")
    return refuse("Gemini's service tiers are standard, flex and priority")


def _top_logprobs(value: Json, asked: Asked) -> Rule:
    return (
        place("generationConfig", "logprobs") if asked.fields.get("logprobs") else refuse("it needs logprobs")
    )


def _says_how_much(thinking: Json) -> bool:
    """Whether a way of thinking is told that leaves nothing to an effort."""
    return thinking is not None and kind_of(thinking) != "adaptive"


def _reasoning(name: str, *others: str) -> FieldRule:
    """One way of saying how much to think: LiteLLM would let one of two win in silence."""
    plain = supported(name, _THINKING)

    def rule(value: Json, asked: Asked) -> Rule:
        said = [other for other in others if _says_how_much(asked.fields.get(other))]
        configs = [asked.fields.get(other) for other in ("generationConfig", "generation_config")]
        said += [
            "generationConfig"
            for config in configs
            if spelled(as_object(config), "thinkingConfig") in as_object(config)
        ]
        if said and value is not None:
            return refuse(f"{said[0]} says how to think as well; send one of them")
        return plain(value, asked)

    return rule


def _thinking(value: Json, asked: Asked) -> Rule:
    """LiteLLM knows a budget; that there be no thoughts, or as many as the model likes, it would lose."""
    usual = _reasoning("thinking")(value, asked)
    if value is None or usual.act == "refuse":
        return usual
    given, kind = as_object(value), kind_of(value)
    if given.keys() - {"type", "budget_tokens", "display"} or given.get("display") not in (
        None,
        "summarized",
    ):
        return refuse("Gemini knows of thinking its type and its budget, and shows a summary")
    if kind == "disabled":
        return place(*_THINKING, value={"thinkingBudget": 0})
    if kind == "adaptive" and asked.fields.get("reasoning_effort") is not None:
        return absent("reasoning_effort says how much")
    if kind == "adaptive":
        return place(*_THINKING, value={"thinkingBudget": -1, "includeThoughts": True})
    return usual


def _other(name: str, value: Json, asked: Asked) -> Rule:
    return place(name, override=False)


RULES: Final[dict[str, FieldRule]] = {
    "max_tokens": _config("max_output_tokens"),
    "max_completion_tokens": _second_limit,
    "temperature": _config("temperature"),
    "top_p": _config("top_p"),
    "top_k": _config("top_k"),
    "stop": stop_at("generationConfig", "stop_sequences"),
    "seed": _config("seed"),
    "n": _config("candidate_count"),
    "frequency_penalty": _config("frequency_penalty"),
    "presence_penalty": _config("presence_penalty"),
    "logprobs": _config("responseLogprobs"),
    "top_logprobs": _top_logprobs,
    "tools": tools_at(("tools",)),
    "tool_choice": with_tools(
        lambda value, asked: translate(("toolConfig", "functionCallingConfig"), check="changed")
    ),
    "parallel_tool_calls": with_tools(_parallel),
    "response_format": _response_format,
    "reasoning_effort": _reasoning("reasoning_effort", "thinking"),
    "thinking": _thinking,
    "modalities": supported("modalities", ("generationConfig", "responseModalities")),
    "audio": supported("audio", ("generationConfig", "speechConfig")),
    "web_search_options": supported("web_search_options", ("tools",)),
    "service_tier": _service_tier,
    "safety_settings": placed("safetySettings"),
    "safetySettings": placed("safetySettings"),
    "generationConfig": lambda value, asked: place("generationConfig", override=False),
    "generation_config": lambda value, asked: place("generationConfig", override=False),
    "cached_content": placed("cachedContent"),
    "stream_options": usage_option,
    "store": only(False, "nothing is stored", _NOT_THERE),
}

GEMINI: Final = Family(
    name="gemini",
    dialect="gemini",
    rules=refused_unless(RULES, _NOT_THERE),
    other=_other,
    calls=r":(?:streamG|g)enerateContent",
    messages_at=("contents", "systemInstruction", "system_instruction"),
    reasoning="signatures",
    turn_fields=frozenset({"thinking_blocks"}),
    part_fields=frozenset({"detail"}),
    spellings=True,
    strict_mode=StrictMode(
        ("toolConfig", "functionCallingConfig", "mode"),
        "VALIDATED",
        over=("AUTO", "MODE_UNSPECIFIED"),
        enough=("ANY", "NONE"),
    ),
)
