"""A stream of chat chunks said as the events of one Anthropic message.

Rules for whoever edits this file:

- content blocks follow one another, each with its start, its deltas and its stop: a chat stream may mix the fragments
  of several tool calls, so what belongs to a later block waits until the one before it is complete;
- a fragment of the block that is open is passed on at once;
- what has no place in a block (annotations, audio, log probabilities) is gathered and told with the stop reason.

Pure: identifiers are the completion's own, or made from them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, cast

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.spoken.messages_blocks import without
from osmosis_bridge.native.spoken.messages_reply import (
    CHOICE,
    ENVELOPE,
    SAID,
    THOUGHTS,
    call_block,
    content_blocks,
    further,
    input_of,
    stop_of,
    thought_block,
    usage_of,
)
from osmosis_bridge.native.spoken.messages_turns import UNSIGNED
from osmosis_bridge.native.spoken.translation import encode_json

_EMPTY: Final[Mapping[str, Mapping[str, Json]]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}


class _Block:
    """A content block in the making: its start, and the deltas that still wait."""

    def __init__(self, start: dict[str, Json]) -> None:
        self.start = start
        self.waiting: list[dict[str, Json]] = []
        self.signed = self.closed = False
        self.field = THOUGHTS[0]
        self.arguments: list[str] = []

    @property
    def kind(self) -> str:
        """What it is."""
        return str(self.start["type"])

    @property
    def complete(self) -> bool:
        """Whether nothing of it can follow once another block began: of a call, when its arguments are a value."""
        if self.kind != "tool_use":
            return True
        # Read only where it may be whole: what is mixed in small pieces would be read again for each.
        ends = bool(self.arguments) and self.arguments[-1].rstrip().endswith("}")
        return ends and isinstance(input_of("".join(self.arguments)), dict)

    def take_arguments(self, text: str) -> None:
        """A fragment of a call's arguments. Raises `UpstreamFailed` for one that follows a complete value."""
        if self.closed and text.strip():
            raise UpstreamFailed(
                f"the provider went on with the arguments of {self.start['name']!r} after they were complete",
                code="invalid_upstream_reply",
            )
        if not self.closed:
            self.arguments.append(text)
            self.waiting.append({"type": "input_json_delta", "partial_json": text})


class MessageEvents:
    """Makes the events of one message of chunks; `stops` are the stop sequences that were asked for."""

    def __init__(self, stops: Collection[str]) -> None:
        self._stops = stops
        self._started = False
        self._id = "message"
        self._blocks: list[_Block] = []
        self._calls: dict[Json, _Block] = {}
        self._shown = 0
        self._open = False
        self._finish: Json = None
        self._stopped_by: Json = None
        self._usage: Json = None
        self._beside: dict[str, Json] = {}

    def chunk(self, chunk: Mapping[str, Json]) -> bytes:
        """The events of one chunk, as far as they can be told."""
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        out = b""
        choices = as_items(chunk.get("choices"))
        if choices and not self._started:
            out = self._begin(chunk)
        gather(self._beside, further(chunk, ENVELOPE))
        for choice in choices:
            self._take(as_object(choice))
        return out + self._tell()

    def end(self) -> bytes:
        """The last events. Raises `UpstreamFailed` where no chunk said why the answer ended."""
        if self._finish is None:
            raise UpstreamFailed(
                "the provider's stream ended without a finish reason", code="upstream_truncated"
            )
        out = self._tell(last=True)
        calls = any(block.kind == "tool_use" for block in self._blocks)
        reason, sequence = stop_of(self._finish, self._stopped_by, self._stops, calls=calls)
        delta = {**self._beside, "stop_reason": reason, "stop_sequence": sequence}
        out += _event("message_delta", delta=delta, usage=usage_of(self._usage))
        return out + _event("message_stop")

    def _begin(self, chunk: Mapping[str, Json]) -> bytes:
        self._started = True
        self._id = str(chunk.get("id") or self._id)
        empty: list[Json] = []
        # What has been counted so far; the counts come with the last events.
        usage = {"input_tokens": 0, "output_tokens": 0}
        message = {
            "id": self._id, "type": "message", "role": "assistant", "model": chunk.get("model"), "content": empty,
            "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        return _event("message_start", message=message)

    def _take(self, choice: Mapping[str, Json]) -> None:
        if choice.get("index") not in (None, 0):
            raise UpstreamFailed(
                "the provider gave several answers, and a message holds one", code="invalid_upstream_reply"
            )
        delta = as_object(choice.get("delta"))
        for block in (*_thoughts(delta), *content_blocks(delta.get("content"))):
            self._take_block(block)
        if delta.get("refusal"):
            self._take_block({"type": "text", "text": str(delta["refusal"])})
        for call in as_items(delta.get("tool_calls")):
            self._take_call(as_object(call))
        self._finish = choice.get("finish_reason") or self._finish
        self._stopped_by = choice.get("stop_reason") or self._stopped_by
        gather(self._beside, further(choice, CHOICE))
        gather(self._beside, further(delta, SAID))

    def _take_block(self, piece: dict[str, Json]) -> None:
        """A piece of text or thought: of the last block where that is of its kind, else the first of a new one."""
        kind = str(piece.get("type"))
        if kind not in _EMPTY:
            self._blocks.append(_Block(piece))
            return
        last = self._blocks[-1] if self._blocks else None
        if last is None or last.kind != kind or last.signed:
            last = _Block(dict(_EMPTY[kind]))
            self._blocks.append(last)
        if piece.get(kind):
            last.waiting.append({"type": f"{kind}_delta", kind: piece[kind]})
        last.field = piece.get("field", last.field)
        if not str(piece.get("signature") or UNSIGNED).startswith(UNSIGNED):
            last.waiting.append({"type": "signature_delta", "signature": piece["signature"]})
            last.signed = True

    def _take_call(self, call: Mapping[str, Json]) -> None:
        function = as_object(call.get("function"))
        index = call.get("index") or 0
        block = self._calls.get(index)
        given = call.get("id")
        if block is None or (given and function.get("name") and given != block.start["id"]):
            made_id = f"{self._id}-{len(self._blocks)}"
            block = self._calls[index] = _Block(call_block(call, made_id, {}))
            self._blocks.append(block)
        elif not block.start["name"] and isinstance(function.get("name"), str):
            block.start["name"] = function["name"]
        arguments = function.get("arguments")
        if arguments:
            block.take_arguments(arguments if isinstance(arguments, str) else encode_json(arguments).decode())

    def _tell(self, *, last: bool = False) -> bytes:
        """What of the blocks can be told; all of it with `last`."""
        out = b""
        while self._shown < len(self._blocks):
            block = self._blocks[self._shown]
            if not self._open:
                if block.kind == "tool_use" and not block.start["name"] and not last:
                    return out
                out += _event("content_block_start", index=self._shown, content_block=block.start)
                self._open = True
            for delta in block.waiting:
                out += _event("content_block_delta", index=self._shown, delta=delta)
            block.waiting.clear()
            followed = self._shown + 1 < len(self._blocks)
            if not last and not (followed and block.complete):
                return out
            if block.kind == "thinking" and not block.signed:
                unsigned = thought_block("", block.field)["signature"]
                signature = {"type": "signature_delta", "signature": unsigned}
                out += _event("content_block_delta", index=self._shown, delta=signature)
            out += _event("content_block_stop", index=self._shown)
            self._open, block.closed = False, True
            self._shown += 1
        return out


def gather(into: dict[str, Json], more: Mapping[str, Json]) -> None:
    """Put pieces of a stream together: lists and objects grow, of anything else the last one stands."""
    for name, value in more.items():
        known = into.get(name)
        if isinstance(known, list) and isinstance(value, list):
            into[name] = [*cast("list[Json]", known), *cast("list[Json]", value)]
        elif isinstance(known, dict) and isinstance(value, dict):
            merged = dict(as_object(known))
            gather(merged, as_object(value))
            into[name] = merged
        else:
            into[name] = value


def _thoughts(delta: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The pieces of thought in a delta: of blocks where it has them, else of its text."""
    blocks = [as_object(block) for block in as_items(delta.get("thinking_blocks"))]
    if blocks:
        return [{**without(block, "index"), "type": block.get("type", "thinking")} for block in blocks]
    return [
        {"type": "thinking", "thinking": delta[field], "field": field}
        for field in THOUGHTS
        if isinstance(delta.get(field), str) and delta[field]
    ][:1]


def _event(kind: str, **members: Json) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + encode_json({"type": kind, **members}) + b"\n\n"
