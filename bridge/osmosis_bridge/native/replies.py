"""From what LiteLLM made of a reply to OpenAI's JSON, with the provider's own word on usage and on how it ended.

Pure: dictionaries in, dictionaries and bytes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.counts import READ_HERE, read_counts
from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.witness import Witness, openai_finish
from osmosis_bridge.sse import encode_event

DONE: Final = b"data: [DONE]\n\n"
encode = msgspec.json.Encoder().encode


def completion(made: dict[str, Json], witness: Witness, model: str) -> dict[str, Json]:
    """A whole reply. Raises `UpstreamFailed` where the provider ended it with an error."""
    _raise_if(ended_in_error(witness))
    choices = [
        _choice(choice, witness) for choice in cast("list[dict[str, Json]]", made.get("choices") or [])
    ]
    reply: dict[str, Json] = {
        "id": made.get("id"),
        "object": "chat.completion",
        "created": made.get("created"),
        "model": model,
        "choices": choices,
    }
    usage = usage_of(witness, made.get("usage"))
    if usage is not None:
        reply["usage"] = usage
    for name in ("service_tier", "system_fingerprint"):
        if made.get(name) is not None:
            reply[name] = made[name]
    return reply


def _choice(choice: dict[str, Json], witness: Witness) -> dict[str, Json]:
    message = _tidy(choice.get("message") or {})
    message.setdefault("role", "assistant")
    message.setdefault("content", None)
    _say_beside_tools(message, witness.message)
    _show_signatures(message)
    index = choice.get("index") or 0
    said = witness.finishes.get(index)
    finish = choice.get("finish_reason")
    if said is not None:
        finish = openai_finish(witness.dialect, said, calls_tools=bool(message.get("tool_calls")))
    kept: dict[str, Json] = {"index": index, "message": message, "finish_reason": finish}
    if choice.get("logprobs") is not None:
        kept["logprobs"] = choice["logprobs"]
    return kept


def _say_beside_tools(message: dict[str, Json], said: Mapping[str, Json]) -> None:
    """Put back the text and the plan that Cohere says before it calls tools; streams have them from LiteLLM."""
    parts = [as_object(part) for part in as_items(said.get("content"))]
    text = "".join(str(part.get("text") or "") for part in parts)
    if text and message["content"] is None:
        message["content"] = text
    if said.get("tool_plan"):
        known = as_object(message.get("provider_specific_fields"))
        message["provider_specific_fields"] = known | {"tool_plan": said["tool_plan"]}


def ended_in_error(witness: Witness) -> UpstreamFailed | None:
    """What the provider itself said went wrong, None where it said nothing of the kind."""
    if witness.error is not None:
        found = as_object(witness.error)
        message = found.get("message") if found else witness.error
        kind = found.get("type") or found.get("status") or found.get("code")
        return UpstreamFailed(
            str(message or witness.error), code=kind if isinstance(kind, str) else "upstream_error"
        )
    if witness.broken is not None:
        return UpstreamFailed(witness.broken, code="invalid_upstream_reply")
    for said in witness.finishes.values():
        if openai_finish(witness.dialect, said, calls_tools=False) == "error":
            return UpstreamFailed(
                f"the provider ended the answer with an error ({said})", code="finish_reason_error"
            )
    return None


def _raise_if(failure: UpstreamFailed | None) -> None:
    if failure is not None:
        raise failure


def usage_of(witness: Witness, made: Json) -> Json:
    """The usage to show: the provider's own counts; LiteLLM's reading only of a dialect that we do not read."""
    if witness.dialect in READ_HERE:
        return read_counts(witness.dialect, witness.counts)
    return without_nulls(made) if witness.usage and made else None


class StreamWriter:
    """Turns LiteLLM's chunks into OpenAI's events, as they come; the end waits for the provider's word on it."""

    def __init__(self, witness: Witness, model: str, *, usage_asked: bool) -> None:
        self._witness = witness
        self._model = model
        self._usage_asked = usage_asked
        self._usage: Json = None
        self._finishes: dict[int, tuple[str, dict[str, Json]]] = {}
        self._calls_tools: set[int] = set()
        self._envelope: dict[str, Json] = {}
        self.messages: dict[int, dict[str, Json]] = {}

    def chunk(self, made: dict[str, Json]) -> bytes:
        """The event for one chunk, empty where nothing of it can be passed on yet."""
        # Of the first chunk: LiteLLM gives some providers' chunks an id each.
        self._envelope = self._envelope or {
            "id": made.get("id"),
            "object": "chat.completion.chunk",
            "created": made.get("created"),
            "model": self._model,
        }
        if made.get("usage"):
            self._usage = made["usage"]
        choices: list[dict[str, Json]] = []
        for choice in cast("list[dict[str, Json]]", made.get("choices") or []):
            index = choice.get("index") or 0
            delta = _tidy(choice.get("delta") or {})
            _show_signatures(delta)
            _gather(self.messages.setdefault(index, {}), delta)
            if delta.get("tool_calls"):
                self._calls_tools.add(index)
            if choice.get("finish_reason"):
                self._finishes[index] = (choice["finish_reason"], {})
            if delta and not (delta.keys() == {"content"} and not delta["content"]):
                kept: dict[str, Json] = {"index": index, "delta": delta, "finish_reason": None}
                if choice.get("logprobs") is not None:
                    kept["logprobs"] = choice["logprobs"]
                choices.append(kept)
        return encode_event(encode(self._envelope | {"choices": choices})) if choices else b""

    def end(self) -> bytes:
        """The events that end the stream; raises `UpstreamFailed` where the provider did not end it well."""
        _raise_if(ended_in_error(self._witness))
        known = self._witness.dialect != "other"
        if known and not self._witness.ended:
            raise UpstreamFailed(
                "the provider's stream ended before it was complete", code="upstream_truncated"
            )
        finishes = {index: said for index, (said, _) in self._finishes.items()}
        for index, said in self._witness.finishes.items():
            finishes[index] = openai_finish(
                self._witness.dialect, said, calls_tools=index in self._calls_tools
            )
        if not finishes:
            raise UpstreamFailed(
                "the provider's stream ended without a finish reason", code="upstream_truncated"
            )
        empty: dict[str, Json] = {}
        choices = [
            {"index": n, "delta": empty, "finish_reason": said} for n, said in sorted(finishes.items())
        ]
        out = encode_event(encode(self._envelope | {"choices": choices}))
        usage = usage_of(self._witness, self._usage)
        if self._usage_asked and usage is not None:
            out += encode_event(encode(self._envelope | {"choices": [], "usage": usage}))
        return out + DONE


def _gather(message: dict[str, Json], delta: Mapping[str, Json]) -> None:
    """Put a stream's message together, as far as `memory.py` asks for it."""
    if isinstance(delta.get("content"), str):
        message["content"] = (message.get("content") or "") + delta["content"]
    for name in ("thinking_blocks",):
        for block in cast("list[Json]", delta.get(name) or []):
            gather_block(message.setdefault(name, []), block)
    for call in cast("list[dict[str, Json]]", delta.get("tool_calls") or []):
        if call.get("id"):
            kept = {name: call[name] for name in ("id", "provider_specific_fields") if name in call}
            message.setdefault("tool_calls", []).append(kept)
    fields = delta.get("provider_specific_fields")
    if isinstance(fields, dict) and "thought_signatures" in fields:
        message.setdefault("provider_specific_fields", {})["thought_signatures"] = fields[
            "thought_signatures"
        ]


def gather_block(blocks: list[dict[str, Json]], piece: dict[str, Json]) -> None:
    """Anthropic's thinking comes as pieces of text and then a signature, which ends a block."""
    kind = piece.get("type", "thinking")
    if (
        kind != "thinking"
        or not blocks
        or blocks[-1].get("type") != "thinking"
        or blocks[-1].get("signature")
    ):
        blocks.append({"type": kind})
    block = blocks[-1]
    for name in ("thinking", "data"):
        if piece.get(name):
            block[name] = (block.get(name) or "") + piece[name]
    if piece.get("signature"):
        block["signature"] = piece["signature"]


def _show_signatures(message: dict[str, Json]) -> None:
    """Gemini's thought signatures also where Google's own OpenAI endpoint shows them."""
    for call in cast("list[dict[str, Json]]", message.get("tool_calls") or []):
        signature = as_object(call.get("provider_specific_fields")).get("thought_signature")
        if signature:
            call["extra_content"] = {"google": {"thought_signature": signature}}


def _tidy(message: Json) -> dict[str, Json]:
    """A message or a delta without nulls, and without LiteLLM's second copy of what stands in it."""
    kept = cast("dict[str, Json]", without_nulls(message))
    for name in ("images", "thinking_blocks", "annotations"):
        if kept.get(name) == []:
            del kept[name]
    annex = kept.pop("provider_specific_fields", None)
    rest = {
        name: inner for name, inner in as_object(annex).items() if name not in kept and inner not in ([], {})
    }
    if rest:
        kept["provider_specific_fields"] = rest
    return kept


def without_nulls(value: Json) -> Json:
    """`value` without members that are null."""
    if isinstance(value, dict):
        members = cast("dict[str, Json]", value)
        return {name: without_nulls(inner) for name, inner in members.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in cast("list[Json]", value)]
    return value
