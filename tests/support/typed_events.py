"""Replies and streams of Responses and Messages as their providers write them, for tests of those dialects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MODEL = "up/real"
"""The name by which these replies call their model."""

RESPONSES_USAGE = {
    "input_tokens": 20, "input_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 3}, "output_tokens": 8,
    "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 28,
}  # fmt: skip
START_USAGE = {
    "input_tokens": 5, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1,
    "service_tier": "standard",
}  # fmt: skip


def event(kind: str, **fields: object) -> bytes:
    """One event under its name."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def numbered(*events: tuple[str, dict[str, object]]) -> list[bytes]:
    """Events of Responses, with their sequence numbers."""
    return [event(kind, sequence_number=n, **fields) for n, (kind, fields) in enumerate(events)]


# --- Responses


def response(status: str = "completed", output: Sequence[object] = (), **fields: object) -> dict[str, Any]:
    """A response as it stands at some moment."""
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": None,
        "incomplete_details": None, "instructions": None, "max_output_tokens": None, "model": MODEL,
        "output": list(output), "parallel_tool_calls": True, "previous_response_id": None, "temperature": 1.0,
        "tool_choice": "auto", "tools": [], "top_p": 1.0, "metadata": {}, "usage": None, **fields,
    }  # fmt: skip


def text_item(text: str) -> dict[str, Any]:
    """An output item that says something."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def call_item(name: str, arguments: str, call_id: str = "call_1") -> dict[str, Any]:
    """An output item that calls a function."""
    return {
        "id": "fc_1", "type": "function_call", "status": "completed", "call_id": call_id, "name": name,
        "arguments": arguments,
    }  # fmt: skip


def text_events(*words: str, index: int = 0) -> list[tuple[str, dict[str, object]]]:
    """The events of one text item, from its beginning to its end."""
    item = text_item("".join(words))
    place: dict[str, object] = {"item_id": item["id"], "output_index": index}
    part: dict[str, object] = {**place, "content_index": 0}
    empty = {**item, "status": "in_progress", "content": []}
    bare = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return [
        ("response.output_item.added", {"output_index": index, "item": empty}),
        ("response.content_part.added", {**part, "part": bare}),
        *(("response.output_text.delta", {**part, "delta": word, "logprobs": []}) for word in words),
        ("response.output_text.done", {**part, "text": "".join(words), "logprobs": []}),
        ("response.content_part.done", {**part, "part": item["content"][0]}),
        ("response.output_item.done", {"output_index": index, "item": item}),
    ]


def call_events(
    name: str, pieces: Sequence[str], call_id: str = "call_1", index: int = 0
) -> list[tuple[str, dict[str, object]]]:
    """The events of one function call, its arguments in pieces."""
    item = call_item(name, "".join(pieces), call_id)
    place: dict[str, object] = {"item_id": item["id"], "output_index": index}
    added = {**item, "status": "in_progress", "arguments": ""}
    return [
        ("response.output_item.added", {"output_index": index, "item": added}),
        *(("response.function_call_arguments.delta", {**place, "delta": piece}) for piece in pieces),
        ("response.function_call_arguments.done", {**place, "name": name, "arguments": item["arguments"]}),
        ("response.output_item.done", {"output_index": index, "item": item}),
    ]


def responses_stream(*middle: tuple[str, dict[str, object]], **fields: object) -> list[bytes]:
    """A whole stream around these events; `fields` are those of the completed response."""
    items = [shown["item"] for kind, shown in middle if kind == "response.output_item.done"]
    return numbered(
        ("response.created", {"response": response("in_progress")}),
        ("response.in_progress", {"response": response("in_progress")}),
        *middle,
        ("response.completed", {"response": response("completed", items, usage=RESPONSES_USAGE, **fields)}),
    )


RESPONSES = responses_stream(*text_events("he", "llo"))
"""The answer `hello`, complete."""


# --- Messages


def message(content: Sequence[object] = (), **fields: object) -> dict[str, Any]:
    """A message."""
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": list(content),
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {**START_USAGE, "output_tokens": 15}, **fields,
    }  # fmt: skip


def block_events(index: int, start: Mapping[str, object], *deltas: Mapping[str, object]) -> list[bytes]:
    """The events of one content block."""
    return [
        event("content_block_start", index=index, content_block=start),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def said(index: int, *words: str) -> list[bytes]:
    """A text block."""
    return block_events(
        index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": w} for w in words)
    )


def thought(index: int, text: str, signature: str) -> list[bytes]:
    """A thinking block with its signature."""
    return block_events(
        index,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": text},
        {"type": "signature_delta", "signature": signature},
    )


def used(index: int, name: str, *pieces: str, call_id: str = "toolu_1") -> list[bytes]:
    """A block that uses a tool, its input in pieces of JSON."""
    return block_events(
        index,
        {"type": "tool_use", "id": call_id, "name": name, "input": {}},
        *({"type": "input_json_delta", "partial_json": piece} for piece in pieces),
    )


def message_start(**usage: object) -> bytes:
    """The event a stream begins with."""
    return event(
        "message_start", message=message(stop_reason=None, usage={**START_USAGE, **usage}, content=[])
    )


def message_delta(stop_reason: str | None = "end_turn", **usage: object) -> bytes:
    """The event that says why a message stopped, and what it cost."""
    return event(
        "message_delta",
        delta={"stop_reason": stop_reason, "stop_sequence": None},
        usage={"output_tokens": 15, **usage},
    )


PING = event("ping")
MESSAGE_STOP = event("message_stop")


def messages_stream(*blocks: list[bytes], stop_reason: str = "end_turn") -> list[bytes]:
    """A whole stream around these blocks."""
    middle = [piece for block in blocks for piece in block]
    return [message_start(), PING, *middle, message_delta(stop_reason), MESSAGE_STOP]


MESSAGES = messages_stream(thought(0, "hm", "c2ln"), said(1, "he", "llo"))
"""The answer `hello` after a thought, complete."""
