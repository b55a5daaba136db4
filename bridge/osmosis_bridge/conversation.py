"""What a request and its reply say, as chat messages, whatever dialect they are in. Pure.

Used for looking back at a rollout that failed, never on the way of a call: odd values are passed over, nothing raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from osmosis_bridge.sse import EventSplitter, EventTooLarge

Message = dict[str, Any]
"""One message in the shape of chat completions."""


def asked(dialect: str, body: bytes) -> list[Message]:
    """The messages of a request."""
    fields = _object(_value(body))
    if dialect == "responses":
        return _of_responses(fields)
    if dialect == "completions":
        prompt = fields.get("prompt")
        prompts = cast("list[Any]", prompt) if isinstance(prompt, list) else [prompt]
        return [{"role": "user", "content": text} for text in prompts if isinstance(text, str)]
    messages = [message for message in map(_object, _list(fields.get("messages"))) if message]
    if dialect != "messages":
        return messages
    system = fields.get("system")
    first: list[Message] = [] if system is None else [{"role": "system", "content": system}]
    return [*first, *(part for message in messages for part in _of_blocks(message))]


def answered(dialect: str, reply: bytes, *, stream: bool) -> list[Message]:
    """The messages of a reply, as far as it goes; empty when it says nothing."""
    if stream:
        events = list(_events(reply))
        return _FOLDS.get(dialect, _fold_chat)(events)
    fields = _object(_value(reply))
    if dialect == "responses":
        return _of_items(_list(fields.get("output")))
    if dialect == "messages":
        return _of_blocks({"role": "assistant", "content": fields.get("content")})
    choice = _object(next(iter(_list(fields.get("choices"))), None))
    if dialect == "completions":
        return _said({"role": "assistant", "content": choice.get("text")})
    return _said(_object(choice.get("message")))


def _of_responses(fields: Message) -> list[Message]:
    said: list[Message] = []
    if isinstance(fields.get("instructions"), str):
        said.append({"role": "system", "content": fields["instructions"]})
    given = fields.get("input")
    if isinstance(given, str):
        return [*said, {"role": "user", "content": given}]
    return [*said, *_of_items(_list(given))]


def _of_items(items: Iterable[Any]) -> list[Message]:
    """Items of the responses dialect: messages, calls of functions and what they gave."""
    said: list[Message] = []
    for item in map(_object, items):
        kind = item.get("type", "message")
        if kind == "message" and "role" in item:
            said.append({"role": item["role"], "content": item.get("content")})
        elif kind == "function_call":
            call = {"id": item.get("call_id"), "type": "function", "function": _named(item, "arguments")}
            said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "function_call_output":
            said.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        elif kind != "reasoning" and item:
            said.append({"role": "assistant", "content": None, "item": item})
    return said


def _of_blocks(message: Message) -> list[Message]:
    """One message of the messages dialect: its results of tools first, then what it says and calls."""
    content = message.get("content")
    if not isinstance(content, list):
        return _said(message)
    blocks = [_object(block) for block in cast("list[Any]", content)]
    results: list[Message] = [
        {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    calls = [
        {"id": block.get("id"), "type": "function", "function": _named(block, "input")}
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    thoughts = [str(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
    others = [block for block in blocks if block.get("type") not in ("tool_result", "tool_use", "thinking")]
    said: Message = {"role": message.get("role"), "content": others}
    if thoughts:
        said["reasoning_content"] = "\n".join(thoughts)
    if calls:
        said["tool_calls"] = calls
    return [*results, said] if others or thoughts or calls else results


def _named(source: Message, arguments: str) -> Message:
    return {"name": source.get("name"), "arguments": source.get(arguments)}


def _fold_chat(events: list[Message]) -> list[Message]:
    """The first choice of a stream of chunks; of a stream of `completions` its text."""
    message: Message = {"role": "assistant", "content": None}
    calls: dict[Any, Message] = {}
    for event in events:
        for choice in map(_object, _list(event.get("choices"))):
            if choice.get("index", 0) != 0:
                continue
            delta = _object(choice.get("delta"))
            _append(message, "content", choice.get("text"))
            for name in ("content", "refusal", "reasoning_content", "reasoning"):
                _append(message, name, delta.get(name))
            for call in map(_object, _list(delta.get("tool_calls"))):
                _add_call(calls.setdefault(call.get("index", 0), {"function": {}}), call)
    if calls:
        message["tool_calls"] = list(calls.values())
    return _said(message)


def _add_call(known: Message, delta: Message) -> None:
    for name in ("id", "type"):
        if delta.get(name) is not None:
            known[name] = delta[name]
    function = _object(delta.get("function"))
    for name in ("name", "arguments"):
        _append(known["function"], name, function.get(name))


def _fold_blocks(events: list[Message]) -> list[Message]:
    """A stream of the messages dialect."""
    blocks: dict[Any, Message] = {}
    for event in events:
        block = blocks.setdefault(event.get("index", 0), {}) if "index" in event else {}
        if event.get("type") == "content_block_start":
            block |= {
                name: value for name, value in _object(event.get("content_block")).items() if value != {}
            }
        delta = _object(event.get("delta"))
        _append(block, "text", delta.get("text"))
        _append(block, "thinking", delta.get("thinking"))
        _append(block, "input", delta.get("partial_json"))
    return _of_blocks({"role": "assistant", "content": list(blocks.values())})


def _fold_items(events: list[Message]) -> list[Message]:
    """A stream of the responses dialect: its items as they were completed, and the text of one that was not."""
    done: list[Any] = []
    text: Message = {"role": "assistant", "content": None}
    for event in events:
        if event.get("type") == "response.output_item.done":
            done.append(event.get("item"))
            text = {"role": "assistant", "content": None}
        elif event.get("type") == "response.output_text.delta":
            _append(text, "content", event.get("delta"))
    return [*_of_items(done), *_said(text)]


_FOLDS = {"messages": _fold_blocks, "responses": _fold_items}


def _append(target: Message, name: str, piece: object) -> None:
    if isinstance(piece, str):
        before = target.get(name)
        target[name] = before + piece if isinstance(before, str) else piece


def _said(message: Message) -> list[Message]:
    """The message, unless it says nothing."""
    return [message] if any(message.get(name) for name in message if name != "role") else []


def _events(reply: bytes) -> Iterator[Message]:
    splitter = EventSplitter()
    try:
        events = [*splitter.feed(reply), splitter.finish()]
    except EventTooLarge:
        return
    for event in events:
        if event is not None and event.data is not None:
            yield _object(_value(event.data))


def _value(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _object(value: object) -> Message:
    return cast("Message", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
