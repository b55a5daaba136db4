"""What a provider says a call cost: from its JSON to token counts.

Only what the provider itself sent is counted; a count that is absent, null or not a whole number stays unknown, except
that a missing total is the sum of prompt and completion. Of several usage objects in one stream the last one stands:
they are cumulative and never added. Knows the usage objects of OpenAI, OpenRouter, DeepSeek, Moonshot, Groq, vLLM and
llama.cpp; knows nothing of framing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from osmosis_bridge.call import Usage

_LARGEST = 2**53


def read_usage(raw: bytes) -> tuple[Usage | None, float | None]:
    """Token counts and cost in US dollars of one `usage` object, given as JSON text.

    The first is None where the object holds no prompt, completion or total count.
    """
    found = _decoded(raw)
    if not isinstance(found, dict):
        return None, None
    usage = cast("dict[str, Any]", found)
    prompt_details = _inner(usage, "prompt_tokens_details")
    completion_details = _inner(usage, "completion_tokens_details")
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    cost = _dollars(usage.get("cost"))
    if prompt is None and completion is None and total is None:
        return None, cost
    return (
        Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=total if total is not None else (prompt or 0) + (completion or 0),
            cached_tokens=_first(
                prompt_details.get("cached_tokens"),
                usage.get("prompt_cache_hit_tokens"),
                usage.get("cached_tokens"),
            ),
            cache_write_tokens=_first(
                prompt_details.get("cache_write_tokens"), usage.get("cache_creation_input_tokens")
            ),
            reasoning_tokens=_first(
                completion_details.get("reasoning_tokens"), usage.get("reasoning_tokens")
            ),
        ),
        cost,
    )


def _decoded(raw: bytes) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        pass
    # A number beyond any double, or a lone surrogate, in a field nobody asks about: the slow and tolerant way.
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _inner(usage: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = usage.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _first(*values: object) -> int | None:
    for value in values:
        count = _count(value)
        if count is not None:
            return count
    return None


def _count(value: object) -> int | None:
    """A whole number of tokens, else None: true is not one token, and 1e400 is not a count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= _LARGEST or value != int(value):
        return None
    return int(value)


def _dollars(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    return float(value)
