"""The response object around an answer's items: its envelope, how it ended, what it used.

What Responses' clients require is always there; what was not counted is null. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from osmosis_bridge.native.jsontree import Json, as_object

_ENDS: Final[Mapping[str, str | None]] = {
    "stop": None,
    "tool_calls": None,
    "function_call": None,
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}
"""By finish reason: why the answer is incomplete, None where it is complete."""
_DEFAULTS: Final[Mapping[str, Json]] = {
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": None,
    "top_p": None,
    "truncation": "disabled",
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": None,
    "user": None,
}
"""What a response says of its request, and the value where that says nothing."""
_ENVELOPE: Final = frozenset({"id", "object", "created", "model", "choices", "usage"})
_COUNTS: Final[Mapping[str, str]] = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_DETAILS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "prompt_tokens_details": ("input_tokens_details", ("cached_tokens", "cache_write_tokens")),
    "completion_tokens_details": ("output_tokens_details", ("reasoning_tokens",)),
}


class Ending(msgspec.Struct, frozen=True):
    """The status of a response, and why it is incomplete."""

    status: str
    details: dict[str, Json] | None = None


IN_PROGRESS: Final = Ending("in_progress")


def ending_of(finish: Json) -> Ending:
    """How a response ends whose completion ended so; a reason that nobody knows is passed on as the reason why."""
    if not isinstance(finish, str):
        return Ending("incomplete")
    why = _ENDS.get(finish, finish)
    return Ending("completed") if why is None else Ending("incomplete", {"reason": why})


def response_of(
    completion: Mapping[str, Json], asked: Mapping[str, Json], output: list[dict[str, Json]], ending: Ending
) -> dict[str, Json]:
    """The response; `completion` holds the envelope, and the usage where there is one."""
    echoed = {name: value for name in _DEFAULTS if (value := asked.get(name)) is not None}
    more = {name: value for name, value in completion.items() if name not in _ENVELOPE and value is not None}
    return {
        **{name: value for name, value in more.items() if name not in _DEFAULTS},
        "id": f"resp_{name_of(completion)}",
        "object": "response",
        "created_at": completion.get("created") or 0,
        "status": ending.status,
        "background": False,
        **_DEFAULTS,
        **echoed,
        "service_tier": more.get("service_tier", echoed.get("service_tier")),
        "incomplete_details": ending.details,
        "model": completion.get("model"),
        "output": output,
        "store": False,
        "usage": usage_of(completion.get("usage")),
    }


def name_of(completion: Mapping[str, Json]) -> str:
    """What the ids of a response and its items are made of: the completion's own id, or when it was made."""
    return str(completion.get("id") or completion.get("created") or "unnamed").removeprefix("chatcmpl-")


def usage_of(usage: Json) -> dict[str, Json] | None:
    """Usage in Responses' names; None where there is none. What the provider said beside the counts stays there."""
    given = as_object(usage)
    if not given:
        return None
    said: dict[str, Json] = {
        _COUNTS.get(name, name): value for name, value in given.items() if name not in _DETAILS
    }
    for name, (renamed, required) in _DETAILS.items():
        said[renamed] = dict.fromkeys(required) | as_object(given.get(name))
    return said
