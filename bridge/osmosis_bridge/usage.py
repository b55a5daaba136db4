"""What a provider says a call cost: from its JSON to token counts.

Only what the provider itself sent is counted; a count that is absent, null or not a whole number stays unknown, except
that a missing total is the sum of prompt and completion. Of several usage objects in one stream the last one stands:
they are cumulative and never added. Knows the usage objects of OpenAI (chat and Responses), Anthropic, OpenRouter,
DeepSeek, Moonshot, Groq, vLLM and llama.cpp; knows nothing of framing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec

from osmosis_bridge.call import Usage

_LARGEST = 2**53
_MESSAGES_COUNTS = (
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
)  # fmt: skip

_Whole = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: _Whole | None = None
    cache_write_tokens: _Whole | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: _Whole | None = None


class OrdinaryUsage(msgspec.Struct, gc=False):
    """A usage object as OpenAI describes it; the vendors' own names stand in the tolerant way."""

    prompt_tokens: _Whole
    completion_tokens: _Whole
    total_tokens: _Whole
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    cost: None = None
    cached_tokens: None = None
    reasoning_tokens: None = None
    prompt_cache_hit_tokens: None = None
    cache_creation_input_tokens: None = None

    def counts(self) -> Usage:
        """The token counts in it."""
        prompt, completion = self.prompt_tokens_details, self.completion_tokens_details
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            self.total_tokens,
            None if prompt is None else prompt.cached_tokens,
            None if prompt is None else prompt.cache_write_tokens,
            None if completion is None else completion.reasoning_tokens,
        )


_ordinary = msgspec.json.Decoder(OrdinaryUsage).decode


def read_usage(raw: bytes) -> tuple[Usage | None, float | None]:
    """Token counts and cost in US dollars of one `usage` object, given as JSON text.

    The first is None where the object holds no prompt, completion or total count.
    """
    if raw == b"null":
        return None, None
    try:
        return _ordinary(raw).counts(), None
    except (msgspec.DecodeError, RecursionError):
        return _read_any(raw)


def _read_any(raw: bytes) -> tuple[Usage | None, float | None]:
    """The same for any provider's names and types."""
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


def read_responses_usage(raw: bytes) -> tuple[Usage | None, float | None]:
    """The same for a `usage` object of OpenAI's Responses, which counts input and output."""
    usage = _fields(raw)
    details = _inner(usage, "input_tokens_details")
    prompt, completion = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
    total = _count(usage.get("total_tokens"))
    cost = _dollars(usage.get("cost"))
    if prompt is None and completion is None:
        # Some servers give a response the usage of chat.
        return _read_any(raw)
    found = Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=total if total is not None else (prompt or 0) + (completion or 0),
        cached_tokens=_count(details.get("cached_tokens")),
        cache_write_tokens=_count(details.get("cache_write_tokens")),
        reasoning_tokens=_count(_inner(usage, "output_tokens_details").get("reasoning_tokens")),
    )
    return found, cost


class MessagesUsage:
    """Token counts of Anthropic's Messages, from the `usage` objects of one message in the order they come.

    They are cumulative: of each count the last one stands, but that no count falls back to zero, which is what servers
    say of a count they do not repeat. Zeros alone count nothing: a stream begins with them, and no prompt is empty. The
    prompt is input + cache reads + cache writes, since `input_tokens` leaves both out; the total is that of prompt and
    output, where no `total_tokens` says otherwise.
    """

    __slots__ = ("_cost", "_counts", "_other", "_total")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._cost: float | None = None
        self._other: Usage | None = None
        self._total: int | None = None

    def take(self, raw: bytes) -> None:
        """Read one `usage` object, given as JSON text."""
        usage = _fields(raw)
        found = {name: _count(usage.get(name)) for name in _MESSAGES_COUNTS}
        found["thinking_tokens"] = _count(_inner(usage, "output_tokens_details").get("thinking_tokens"))
        known = {name: count for name, count in found.items() if count is not None}
        self._counts.update(
            {name: count for name, count in known.items() if count or name not in self._counts}
        )
        if known:
            total = _count(usage.get("total_tokens"))
            self._total = self._total if total is None else total
        else:
            self._other = _read_any(raw)[0] or self._other
        cost = _dollars(usage.get("cost"))
        self._cost = self._cost if cost is None else cost

    def read(self) -> tuple[Usage | None, float | None]:
        """The counts so far, None where there is neither a prompt nor a completion; and the cost in US dollars."""
        counts = self._counts
        fresh, completion = counts.get("input_tokens"), counts.get("output_tokens")
        if (fresh is None and completion is None) or not any(counts.values()):
            return self._other, self._cost
        read, written = counts.get("cache_read_input_tokens"), counts.get("cache_creation_input_tokens")
        prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
        usage = Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=(prompt or 0) + (completion or 0) if self._total is None else self._total,
            cached_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=counts.get("thinking_tokens"),
        )
        return usage, self._cost


def _fields(raw: bytes) -> dict[str, Any]:
    found = _decoded(raw)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


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
