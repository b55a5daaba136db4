"""A chat completion said as an Anthropic message: its content blocks, why it stopped, its usage.

What the message has no place for keeps its name beside it. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from math import isfinite
from typing import Final, NoReturn

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.spoken.messages_blocks import without
from osmosis_bridge.native.spoken.messages_turns import UNSIGNED

_STOPS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
THOUGHTS: Final = ("reasoning_content", "reasoning")
ENVELOPE: Final = frozenset({"id", "object", "created", "model", "choices", "usage"})
"""What of a completion is said elsewhere in a message, or says nothing of the answer."""
CHOICE: Final = frozenset({"index", "message", "delta", "finish_reason", "stop_reason"})
"""The same of a choice."""
SAID: Final = frozenset(
    {"role", "content", "refusal", "tool_calls", "thinking_blocks", "provider_specific_fields", *THOUGHTS}
)
"""What of an assistant's message becomes content blocks; `provider_specific_fields` are kept by `memory.py`."""
CALL: Final = frozenset({"id", "type", "index", "function", "provider_specific_fields"})
"""What of a tool call is said in its block."""


def message_of(completion: Mapping[str, Json], stops: Collection[str]) -> dict[str, Json]:
    """The message that a whole completion is; `stops` are the stop sequences that were asked for."""
    choices = as_items(completion.get("choices"))
    if len(choices) != 1:
        raise UpstreamFailed(
            f"the provider gave {len(choices)} answers, and a message holds one",
            code="invalid_upstream_reply",
        )
    choice = as_object(choices[0])
    said = as_object(choice.get("message"))
    content = _blocks(said, str(completion.get("id") or "message"))
    calls = any(block["type"] == "tool_use" for block in content)
    reason, sequence = stop_of(choice.get("finish_reason"), choice.get("stop_reason"), stops, calls=calls)
    message: dict[str, Json] = {
        "id": completion.get("id") or "message",
        "type": "message",
        "role": "assistant",
        "model": completion.get("model"),
        "content": content,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": usage_of(completion.get("usage")),
    }
    beside = further(completion, ENVELOPE) | further(choice, CHOICE) | further(said, SAID)
    return {**beside, **message}


def further(members: Mapping[str, Json], said: Collection[str]) -> dict[str, Json]:
    """What is said nowhere else."""
    return {
        name: value for name, value in members.items() if name not in said and value not in (None, [], {})
    }


def stop_of(
    finish: Json, stopped_by: Json, stops: Collection[str], *, calls: bool
) -> tuple[Json, str | None]:
    """Stop reason and stop sequence; `stopped_by` is what some servers say beside their finish reason."""
    if finish in (None, "", "stop") and isinstance(stopped_by, str) and stopped_by in stops:
        return "stop_sequence", stopped_by
    if finish == "stop" and calls:
        return "tool_use", None
    return (_STOPS.get(finish, finish) if isinstance(finish, str) else finish), None


def usage_of(usage: Json) -> dict[str, Json]:
    """Anthropic's counts of OpenAI's: what was read from and written to a cache is no part of the input.

    What was not counted is null; nothing is made up.
    """
    given = as_object(usage)
    prompt, completion = given.get("prompt_tokens"), given.get("completion_tokens")
    details = as_object(given.get("prompt_tokens_details"))
    read, written = details.get("cached_tokens"), details.get("cache_write_tokens")
    cached = (read or 0) + (written or 0)
    fits = isinstance(prompt, int) and cached <= prompt
    counts: dict[str, Json] = {
        "input_tokens": prompt - cached if isinstance(prompt, int) and fits else prompt,
        "output_tokens": completion,
    }
    if fits and read is not None:
        counts["cache_read_input_tokens"] = read
    if fits and written is not None:
        counts["cache_creation_input_tokens"] = written
    thought = as_object(given.get("completion_tokens_details")).get("reasoning_tokens")
    if thought is not None:
        counts["output_tokens_details"] = {"thinking_tokens": thought}
    total = given.get("total_tokens")
    if total is not None and total != (prompt or 0) + (completion or 0):
        counts["total_tokens"] = total
    if given.get("cost") is not None:
        counts["cost"] = given["cost"]
    return counts


def thought_block(text: str, field: str) -> dict[str, Json]:
    """A thought that came without a signature; its own says in which field."""
    return {"type": "thinking", "thinking": text, "signature": UNSIGNED + field}


def call_block(call: Mapping[str, Json], made_id: str, given: Json) -> dict[str, Json]:
    """A tool call with its input; `made_id` is its name where the provider gave it none."""
    name = as_object(call.get("function")).get("name")
    return {
        "type": "tool_use",
        "id": call.get("id") or made_id,
        "name": name if isinstance(name, str) else "",
        "input": given,
        **further(call, CALL),
    }


def input_of(arguments: Json) -> Json:
    """The value of a call's arguments; the text itself where that is no JSON, for nothing a model wrote is lost."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    if not arguments.strip():
        return {}
    try:
        return json.loads(arguments, parse_constant=_no_json, parse_float=_number)
    except (ValueError, RecursionError):
        return arguments


def _no_json(text: str) -> NoReturn:
    raise ValueError(text)


def _number(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _no_json(text)


def _blocks(said: Mapping[str, Json], answer_id: str) -> list[dict[str, Json]]:
    blocks = _thoughts(said)
    blocks += content_blocks(said.get("content"))
    if said.get("refusal"):
        blocks.append(_text(said["refusal"]))
    for n, call in enumerate(as_items(said.get("tool_calls"))):
        found = as_object(call)
        arguments = as_object(found.get("function")).get("arguments")
        blocks.append(call_block(found, f"{answer_id}-{n}", input_of(arguments)))
    return blocks


def content_blocks(content: Json) -> list[dict[str, Json]]:
    """The blocks of what a message or a delta says: text, or parts of it, among them thoughts in words."""
    if isinstance(content, str):
        return [_text(content)] if content else []
    return [_part(part) for part in as_items(content)]


def _part(part: Json) -> dict[str, Json]:
    if not isinstance(part, dict):
        return _text(part)
    members = as_object(part)
    thought = members.get("thinking")
    if members.get("type") != "thinking" or members.get("signature"):
        return members
    texts = [str(as_object(inner).get("text") or "") for inner in as_items(thought)]
    return thought_block(thought if isinstance(thought, str) else "".join(texts), THOUGHTS[0])


def _text(text: Json) -> dict[str, Json]:
    return {"type": "text", "text": str(text)}


def _thoughts(said: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Signed thoughts as they are; else the text of a thought."""
    blocks = [without(as_object(block), "index") for block in as_items(said.get("thinking_blocks"))]
    if blocks:
        return [_part(block) for block in blocks]
    for field in THOUGHTS:
        if isinstance(said.get(field), str) and said[field]:
            return [thought_block(said[field], field)]
    return []
