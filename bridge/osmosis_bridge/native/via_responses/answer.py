"""A response as a chat completion, whole or as chunks.

Rules for whoever edits this file:

- what chat completions has no place for (reasoning that must come back, the order of items, what OpenAI's own tools
  did) is kept as the items it came in, in `provider_specific_fields` of the message;
- a response that is neither complete nor incomplete is no answer.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.via_responses.items import OUTPUT

_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "function_call": ("function", "arguments"),
    "custom_tool_call": ("custom", "input"),
}
_FINISHES: Final[Mapping[str, str]] = {"max_output_tokens": "length"}
_COUNTS: Final[Mapping[str, str]] = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}
_PLAIN: Final = frozenset(
    {"id", "type", "role", "status", "content", "call_id", "name", "arguments", "input"}
)
"""The members of messages and calls that a chat message says, or that mean nothing to it."""
_TEXT_DELTAS: Final[Mapping[str, str]] = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning_content",
    "response.reasoning_text.delta": "reasoning_content",
}
_ARGUMENTS: Final = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})


def completion_of(response: Mapping[str, Json]) -> dict[str, Json]:
    """A whole response. Raises `UpstreamFailed` where it is no answer."""
    output = [as_object(item) for item in as_items(response.get("output"))]
    choice: dict[str, Json] = {
        "index": 0,
        "message": message_of(output),
        "finish_reason": finish_of(response),
    }
    logprobs = [token for part in _parts(output) for token in as_items(part.get("logprobs"))]
    if logprobs:
        choice["logprobs"] = {"content": logprobs, "refusal": None}
    made = _envelope(response, "chat.completion") | {"choices": [choice]}
    usage = usage_of(response.get("usage"))
    return made if usage is None else made | {"usage": usage}


def _envelope(response: Mapping[str, Json], kind: str) -> dict[str, Json]:
    created = response.get("created_at")
    made: dict[str, Json] = {
        "id": response.get("id"),
        "object": kind,
        "created": int(created) if isinstance(created, int | float) else created,
        "model": response.get("model"),
    }
    tier = response.get("service_tier")
    return made if tier is None else made | {"service_tier": tier}


def message_of(output: list[dict[str, Json]]) -> dict[str, Json]:
    """The assistant's message that the items are."""
    texts = {name: _joined(_parts(output), name) for name in ("text", "refusal")}
    message: dict[str, Json] = {"role": "assistant", "content": texts["text"] or None}
    thought = reasoning_text(output)
    notes = [nested_annotation(note) for part in _parts(output) for note in as_items(part.get("annotations"))]
    calls = [call_of(item) for item in output if item.get("type") in _CALLS]
    kept = kept_items(output)
    more = {
        "refusal": texts["refusal"],
        "reasoning_content": thought,
        "annotations": notes,
        "tool_calls": calls,
        "provider_specific_fields": {OUTPUT: kept} if kept else None,
    }
    return message | {name: value for name, value in more.items() if value}


def _parts(output: list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    for item in output:
        if item.get("type") == "message":
            yield from map(as_object, as_items(item.get("content")))


def _joined(parts: Iterator[dict[str, Json]], name: str) -> str:
    return "".join(str(part.get(name) or "") for part in parts)


def reasoning_text(output: list[dict[str, Json]]) -> str:
    """What the model shows of its reasoning: its summaries, or the text itself where that is shown."""
    pieces: list[str] = []
    for item in output:
        if item.get("type") == "reasoning":
            shown = as_items(item.get("summary")) or as_items(item.get("content"))
            pieces += [str(as_object(part).get("text") or "") for part in shown]
    return "\n\n".join(piece for piece in pieces if piece)


def call_of(item: Mapping[str, Json]) -> dict[str, Json]:
    """A call as a message has it."""
    kind, said = _CALLS[str(item.get("type"))]
    inner: dict[str, Json] = {"name": item.get("name"), said: item.get(said) or ""}
    return {"id": item.get("call_id"), "type": kind, kind: inner}


def nested_annotation(note: Json) -> dict[str, Json]:
    """A note on a text, its members one level deeper as chat completions has them."""
    members = as_object(note)
    kind = str(members.get("type"))
    return {"type": kind, kind: {name: value for name, value in members.items() if name != "type"}}


def kept_items(output: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """The items, where a chat message cannot say all that they do; else none."""
    said = {"message", *_CALLS}
    plain = all(
        item.get("type") in said
        and all(value in (None, [], {}) for name, value in item.items() if name not in _PLAIN)
        for item in output
    )
    kinds = [item.get("type") for item in output]
    ordered = kinds.count("message") <= 1 and "message" not in kinds[1:]
    return [] if plain and ordered else output


def finish_of(response: Mapping[str, Json]) -> str:
    """Chat completions' word for how a response ended. Raises `UpstreamFailed` where it did not end well."""
    status = response.get("status")
    if status == "incomplete":
        reason = str(as_object(response.get("incomplete_details")).get("reason") or "incomplete")
        return _FINISHES.get(reason, reason)
    if status not in ("completed", None):
        raise UpstreamFailed(
            f"the provider's response is {status!r}, which is no answer", code="invalid_upstream_reply"
        )
    calls = any(as_object(item).get("type") in _CALLS for item in as_items(response.get("output")))
    return "tool_calls" if calls else "stop"


def usage_of(usage: Json) -> dict[str, Json] | None:
    """Usage under chat completions' names; None where there is none."""
    given = as_object(usage)
    return {_COUNTS.get(name, name): value for name, value in given.items()} or None


class _Call(msgspec.Struct):
    """A call in a stream: which it is, what its text is called, and whether any of it was told."""

    index: int
    kind: str
    said: str
    told: bool


class ChunkWriter:
    """Turns a response's events into chunks; `message` is what they say together, once they have ended."""

    def __init__(self, *, usage_asked: bool) -> None:
        self._usage_asked = usage_asked
        self._envelope: dict[str, Json] = {}
        self._calls: dict[Json, _Call] = {}
        self._ended = False
        self._thought: Json = None
        self.message: dict[str, Json] = {}

    def take(self, event: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
        """The chunks that one event becomes."""
        kind = str(event.get("type"))
        if not self._envelope and isinstance(event.get("response"), dict):
            self._envelope = _envelope(as_object(event["response"]), "chat.completion.chunk")
            yield self._chunk({"role": "assistant", "content": ""})
        if kind in _TEXT_DELTAS:
            yield from self._text(_TEXT_DELTAS[kind], event)
        elif kind == "response.output_item.added":
            yield from self._item(as_object(event.get("item")), event.get("output_index"))
        elif kind in _ARGUMENTS:
            yield from self._arguments(event.get("output_index"), str(event.get("delta") or ""))
        elif kind == "response.output_item.done":
            yield from self._item_done(as_object(event.get("item")), event.get("output_index"))
        elif kind == "response.output_text.annotation.added":
            yield self._chunk({"annotations": [nested_annotation(event.get("annotation"))]})
        elif kind in _ENDS:
            yield from self._finish(as_object(event.get("response")))

    def end(self) -> None:
        """The stream is over. Raises `UpstreamFailed` where the response did not end."""
        if not self._ended:
            raise UpstreamFailed(
                "the provider's stream ended before it was complete", code="upstream_truncated"
            )

    def _chunk(self, delta: dict[str, Json], **more: Json) -> dict[str, Json]:
        return self._envelope | {"choices": [{"index": 0, "delta": delta, "finish_reason": None} | more]}

    def _text(self, name: str, event: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
        text = str(event.get("delta") or "")
        if name == "reasoning_content":
            part = (event.get("output_index"), event.get("summary_index"), event.get("content_index"))
            # As between the parts of a whole reply.
            text = text if self._thought in (None, part) else f"\n\n{text}"
            self._thought = part
        logprobs = as_items(event.get("logprobs"))
        more: dict[str, Json] = {"logprobs": {"content": logprobs, "refusal": None}} if logprobs else {}
        if text:
            yield self._chunk({name: text}, **more)

    def _item(self, item: Mapping[str, Json], place: Json) -> Iterator[dict[str, Json]]:
        kind = str(item.get("type"))
        if kind not in _CALLS or place in self._calls:
            return
        call = self._calls[place] = _Call(
            len(self._calls), *_CALLS[kind], told=bool(item.get(_CALLS[kind][1]))
        )
        yield self._chunk({"tool_calls": [{"index": call.index} | call_of(item)]})

    def _arguments(self, place: Json, text: str) -> Iterator[dict[str, Json]]:
        call = self._calls.get(place)
        if call is not None and text:
            call.told = True
            yield self._chunk({"tool_calls": [{"index": call.index, call.kind: {call.said: text}}]})

    def _item_done(self, item: Mapping[str, Json], place: Json) -> Iterator[dict[str, Json]]:
        """A call that was not told piece by piece."""
        yield from self._item(item, place)
        call = self._calls.get(place)
        if call is not None and not call.told:
            yield from self._arguments(place, str(item.get(call.said) or ""))

    def _finish(self, response: dict[str, Json]) -> Iterator[dict[str, Json]]:
        finish = finish_of(response)
        self._ended = True
        self.message = message_of([as_object(item) for item in as_items(response.get("output"))])
        fields = self.message.get("provider_specific_fields")
        if fields:
            yield self._chunk({"provider_specific_fields": fields})
        yield self._chunk({}, finish_reason=finish)
        usage = usage_of(response.get("usage"))
        if self._usage_asked and usage is not None:
            empty: list[Json] = []
            yield self._envelope | {"choices": empty, "usage": usage}
