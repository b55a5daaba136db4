"""OpenAI Responses, said as chat completions and back.

Rules for whoever edits this file:

- nothing is kept of a call: what asks for it (`store: true`, `previous_response_id`, `background`, ...) is refused;
- what is the default of Responses, and of chat completions as well, is left out, and the report says so;
- a field nobody knows keeps its name, so that the provider's own table decides on it.

The conversation is for `responses_input.py`, tools and formats for `responses_tools.py`, answers for
`responses_events.py`. Pure. Raises `Refused` naming the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from osmosis_bridge.native.jsontree import Json, as_items, as_object, same
from osmosis_bridge.native.spoken.responses_events import ResponseWriter, encode_events
from osmosis_bridge.native.spoken.responses_input import invalid, read_input
from osmosis_bridge.native.spoken.responses_tools import read_choice, read_text, read_tools
from osmosis_bridge.native.spoken.translation import Translation, cannot_say

_NOTHING_KEPT: Final = "nothing is stored between calls; send the whole conversation as input"
_REFUSED: Final[Mapping[str, str]] = {
    "previous_response_id": _NOTHING_KEPT,
    "conversation": _NOTHING_KEPT,
    "prompt": "a stored prompt is OpenAI's; send its text as instructions or input",
    "background": "an answer is given when it is asked for",
    "background_options": "an answer is given when it is asked for",
    "context_management": "nothing is compacted on the way; shorten the input instead",
    "access_programs": "they are OpenAI's",
    "image": "chat completions has no place for it",
    "messages": "Responses has no such field; the conversation is input",
    "functions": "Responses has no such field; send tools",
    "function_call": "Responses has no such field; send tool_choice",
    "audio": "Responses answers in text",
}
_ONLY: Final[Mapping[str, tuple[Json, str, str]]] = {
    "store": (False, "nothing is stored", "nothing is stored; leave it out, or set it to false"),
    "truncation": ("disabled", "nothing is cut", "nothing is cut on the way; shorten the input instead"),
    "n": (1, "one answer is what there is", "Responses gives one answer a call"),
    "modalities": (["text"], "text is the default", "Responses answers in text"),
}
"""By field: the value that is so anyway, why, and why no other can be sent."""
_INCLUDED: Final[Mapping[str, str]] = {
    "reasoning.encrypted_content": "what a client needs to send reasoning back is always in the reply",
}
_LOGPROBS: Final = "message.output_text.logprobs"
_REASONING: Final[Mapping[str, Json]] = {
    "summary": "auto",
    "generate_summary": "auto",
    "context": "auto",
    "mode": "standard",
}
"""What `reasoning` may hold beside the effort: what is so anyway."""


class ResponsesTranslation(Translation):
    """One request of Responses."""

    def __init__(
        self,
        request: dict[str, Json],
        sources: Mapping[str, str],
        left_out: Mapping[str, str],
        asked: Mapping[str, Json],
    ) -> None:
        self.request = request
        self.sources = sources
        self.left_out = left_out
        self._writer = ResponseWriter(asked)

    def reply(self, completion: Mapping[str, Json]) -> dict[str, Json]:
        """A response."""
        return self._writer.whole(completion)

    def chunk(self, chunk: Mapping[str, Json]) -> bytes:
        """Events such as `response.output_text.delta`."""
        return encode_events(self._writer.take(chunk))

    def end(self) -> bytes:
        """The events that close what is open, and `response.completed` or `response.incomplete`."""
        return encode_events(self._writer.end())


def translate_responses(fields: Mapping[str, Json]) -> ResponsesTranslation:
    """A request of Responses as the chat request that says the same."""
    said = _Said(fields)
    for name, value in fields.items():
        why = _REFUSED.get(name)
        if why is not None:
            if value not in (None, False):
                raise cannot_say(name, why)
            said.leave_out(name, "that is so anyway")
            continue
        reader = _READERS.get(name)
        if reader is not None:
            reader(value, said)
        elif name not in _ENVELOPE:
            said.put(name, name, value)
    conversation = read_input(fields.get("instructions"), fields.get("input"))
    request = {
        "model": fields.get("model"),
        "messages": conversation.messages,
        "stream": fields.get("stream") is True,
        **said.request,
    }
    if request["stream"]:
        request["stream_options"] = {"include_usage": True}
    sources = {"messages": "input"} | said.sources | conversation.sources
    return ResponsesTranslation(request, sources, said.left_out, fields)


class _Said:
    """The chat request in the making, but for its envelope."""

    def __init__(self, asked: Mapping[str, Json]) -> None:
        self.asked = asked
        self.request: dict[str, Json] = {}
        self.sources: dict[str, str] = {}
        self.left_out: dict[str, str] = {}

    def put(self, field: str, source: str, value: Json) -> None:
        """Say a field; raises `Refused` where another one says something else for it."""
        if field in self.request and not same(self.request[field], value):
            raise cannot_say(
                source, f"{self.sources.get(field, field)} says something else; send one of them"
            )
        self.request[field] = value
        if field != source:
            self.sources[field] = source

    def leave_out(self, source: str, why: str) -> None:
        """Say nothing, since that means the same."""
        self.left_out[source] = why


def _only(name: str) -> Callable[[Json, _Said], None]:
    wanted, why, otherwise = _ONLY[name]

    def read(value: Json, said: _Said) -> None:
        if value is not None and not same(value, wanted):
            raise cannot_say(name, otherwise)
        said.leave_out(name, why)

    return read


def _renamed(name: str, field: str) -> Callable[[Json, _Said], None]:
    def read(value: Json, said: _Said) -> None:
        if value is None:
            said.leave_out(name, "null is the default")
        else:
            said.put(field, name, value)

    return read


def _tools(value: Json, said: _Said) -> None:
    tools = read_tools(value)
    if tools:
        said.put("tools", "tools", tools)
    else:
        said.leave_out("tools", "an empty list is no tools")


def _tool_choice(value: Json, said: _Said) -> None:
    if value is None or (value in ("auto", "none") and not said.asked.get("tools")):
        said.leave_out(
            "tool_choice", "it stands for nothing without tools" if value else "null is the default"
        )
        return
    said.put("tool_choice", "tool_choice", read_choice(value))


def _parallel(value: Json, said: _Said) -> None:
    if value is None or not said.asked.get("tools"):
        said.leave_out("parallel_tool_calls", "it stands for nothing without tools")
    else:
        said.put("parallel_tool_calls", "parallel_tool_calls", value)


def _text(value: Json, said: _Said) -> None:
    found = read_text(value)
    for field, inner in found.items():
        said.put(field, "text.format" if field == "response_format" else "text.verbosity", inner)
    if not found:
        said.leave_out("text", "text is the default")


def _reasoning(value: Json, said: _Said) -> None:
    if value is None:
        said.leave_out("reasoning", "null is the default")
        return
    if not isinstance(value, dict):
        raise invalid("reasoning", "must be an object")
    members = {name: inner for name, inner in as_object(value).items() if inner is not None}
    for name, inner in members.items():
        if name == "effort":
            said.put("reasoning_effort", "reasoning.effort", inner)
        elif name not in _REASONING or not same(inner, _REASONING[name]):
            raise cannot_say(
                f"reasoning.{name}", "what the model shows of its reasoning is passed on as it comes"
            )
        else:
            said.leave_out(
                f"reasoning.{name}", "what the model shows of its reasoning is passed on as it comes"
            )
    if not members:
        said.leave_out("reasoning", "an empty object is the default")


def _include(value: Json, said: _Said) -> None:
    if value is not None and not isinstance(value, list):
        raise invalid("include", "must be a list")
    for n, name in enumerate(as_items(value)):
        if name == _LOGPROBS:
            said.put("logprobs", "include", True)
        elif not isinstance(name, str) or name not in _INCLUDED:
            raise cannot_say(
                f"include[{n}]", f"{name!r} is of a tool or a store that this model does not have"
            )
        else:
            said.leave_out("include", _INCLUDED[name])
    if not value:
        said.leave_out("include", "an empty list is the default")


def _top_logprobs(value: Json, said: _Said) -> None:
    if value is None or same(value, 0):
        said.leave_out("top_logprobs", "none is the default")
        return
    said.put("logprobs", "top_logprobs", True)
    said.put("top_logprobs", "top_logprobs", value)


def _stream_options(value: Json, said: _Said) -> None:
    if value is not None and not isinstance(value, dict):
        raise invalid("stream_options", "must be an object")
    for name, inner in as_object(value).items():
        if inner not in (None, False) and not (name == "include_usage" and inner is True):
            raise cannot_say(
                f"stream_options.{name}", "the events of this model's answers have no such option"
            )
    said.leave_out("stream_options", "that is so anyway")


def _max_tool_calls(value: Json, said: _Said) -> None:
    said.leave_out("max_tool_calls", "it limits OpenAI's own tools, of which there are none here")


def _empty_is_default(name: str) -> Callable[[Json, _Said], None]:
    def read(value: Json, said: _Said) -> None:
        if value is None or value == {}:
            said.leave_out(name, "an empty object is the default")
        else:
            said.put(name, name, value)

    return read


_ENVELOPE: Final = frozenset({"model", "input", "instructions", "stream"})
_READERS: Final[Mapping[str, Callable[[Json, _Said], None]]] = {
    **{name: _only(name) for name in _ONLY},
    "max_output_tokens": _renamed("max_output_tokens", "max_tokens"),
    "temperature": _renamed("temperature", "temperature"),
    "top_p": _renamed("top_p", "top_p"),
    "user": _renamed("user", "user"),
    "safety_identifier": _renamed("safety_identifier", "safety_identifier"),
    "prompt_cache_key": _renamed("prompt_cache_key", "prompt_cache_key"),
    "prompt_cache_retention": _renamed("prompt_cache_retention", "prompt_cache_retention"),
    "service_tier": _renamed("service_tier", "service_tier"),
    "metadata": _empty_is_default("metadata"),
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _parallel,
    "text": _text,
    "reasoning": _reasoning,
    "include": _include,
    "top_logprobs": _top_logprobs,
    "stream_options": _stream_options,
    "max_tool_calls": _max_tool_calls,
}
