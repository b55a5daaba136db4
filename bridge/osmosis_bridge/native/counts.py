"""Token counts as a provider gave them, in OpenAI's names. Nothing is estimated; what was not counted is absent.

Sources: the public references of each provider's usage object. OpenAI's `prompt_tokens` include what was read from and
written to a cache, and its `completion_tokens` include reasoning; where a provider counts these apart, they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from osmosis_bridge.native.jsontree import Json, at


def read_counts(dialect: str, given: Mapping[str, Json]) -> dict[str, Json] | None:
    """OpenAI's usage object of a provider's own, None where that holds no counts."""
    reader = _READERS.get(dialect)
    return None if reader is None or not given else reader(given)


def _usage(
    prompt: int | None, completion: int | None, *, total: int | None = None, details: Mapping[str, int | None]
) -> dict[str, Json] | None:
    if prompt is None and completion is None and total is None:
        return None
    usage: dict[str, Json] = {"prompt_tokens": prompt, "completion_tokens": completion}
    usage["total_tokens"] = total if total is not None else (prompt or 0) + (completion or 0)
    read, written, thought = details.get("read"), details.get("written"), details.get("thought")
    of_prompt = {"cached_tokens": read, "cache_write_tokens": written}
    of_completion = {"reasoning_tokens": thought}
    for name, inner in (("prompt_tokens_details", of_prompt), ("completion_tokens_details", of_completion)):
        known = {key: value for key, value in inner.items() if value is not None}
        if known:
            usage[name] = known
    return {name: value for name, value in usage.items() if value is not None}


def _count(given: Mapping[str, Json], *path: str) -> int | None:
    value = at(given, path)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _anthropic(given: Mapping[str, Json]) -> dict[str, Json] | None:
    read, written = _count(given, "cache_read_input_tokens"), _count(given, "cache_creation_input_tokens")
    prompt = _sum(_count(given, "input_tokens"), read, written)
    return _usage(prompt, _count(given, "output_tokens"), details={"read": read, "written": written})


def _gemini(given: Mapping[str, Json]) -> dict[str, Json] | None:
    thought = _count(given, "thoughtsTokenCount")
    prompt = _sum(_count(given, "promptTokenCount"), _count(given, "toolUsePromptTokenCount"))
    completion = _sum(_count(given, "candidatesTokenCount"), thought)
    details = {"read": _count(given, "cachedContentTokenCount"), "thought": thought}
    return _usage(prompt, completion, total=_count(given, "totalTokenCount"), details=details)


def _converse(given: Mapping[str, Json]) -> dict[str, Json] | None:
    read, written = _count(given, "cacheReadInputTokens"), _count(given, "cacheWriteInputTokens")
    prompt = _sum(_count(given, "inputTokens"), read, written)
    details = {"read": read, "written": written}
    return _usage(prompt, _count(given, "outputTokens"), total=_count(given, "totalTokens"), details=details)


def _cohere(given: Mapping[str, Json]) -> dict[str, Json] | None:
    kind = "tokens" if isinstance(given.get("tokens"), dict) else "billed_units"
    read = _count(given, "cached_tokens")
    return _usage(
        _count(given, kind, "input_tokens"), _count(given, kind, "output_tokens"), details={"read": read}
    )


def _ollama(given: Mapping[str, Json]) -> dict[str, Json] | None:
    return _usage(_count(given, "prompt_eval_count"), _count(given, "eval_count"), details={})


_READERS: Final[Mapping[str, Callable[[Mapping[str, Json]], dict[str, Json] | None]]] = {
    "anthropic": _anthropic,
    "gemini": _gemini,
    "converse": _converse,
    "cohere": _cohere,
    "ollama": _ollama,
}
READ_HERE: Final = frozenset(_READERS)
"""The dialects whose counts are read here."""
