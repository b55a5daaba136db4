"""Anthropic Messages, said as chat completions: the fields of a request.

A field with an equal is said under its name; one that chat completions have no place for is refused by name; every
other field keeps its name, so that the provider's own table decides on it (`thinking`, `top_k`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from osmosis_bridge.native.jsontree import Json, as_items, as_object, same
from osmosis_bridge.native.spoken.messages_blocks import objects_of, without
from osmosis_bridge.native.spoken.messages_events import MessageEvents
from osmosis_bridge.native.spoken.messages_reply import message_of
from osmosis_bridge.native.spoken.messages_turns import say_conversation
from osmosis_bridge.native.spoken.translation import Translation, cannot_say

_CHOICES: Final[Mapping[Json, Json]] = {"auto": "auto", "any": "required", "none": "none"}
_DEFAULT: Final = "it is the default"


class Messages(Translation):
    """One request to `/messages`."""

    def __init__(self, fields: Mapping[str, Json]) -> None:
        said = say_conversation(fields.get("system"), fields.get("messages"))
        stream = fields.get("stream") is True
        chat = _Request(fields)
        for name, value in fields.items():
            chat.say(name, value)
        if stream:
            options = as_object(chat.fields.get("stream_options"))
            chat.fields["stream_options"] = {**options, "include_usage": True}
        self.request = {"model": fields.get("model"), "messages": said.turns, "stream": stream, **chat.fields}
        self.sources = {**chat.sources, **said.sources}
        self.left_out = chat.left_out
        self._stops = frozenset(stop for stop in as_items(chat.fields.get("stop")) if isinstance(stop, str))
        self._events = MessageEvents(self._stops)

    def reply(self, completion: Mapping[str, Json]) -> dict[str, Json]:
        """The message."""
        return message_of(completion, self._stops)

    def chunk(self, chunk: Mapping[str, Json]) -> bytes:
        """The events of one chunk."""
        return self._events.chunk(chunk)

    def end(self) -> bytes:
        """The events that end the message."""
        return self._events.end()


class _Request:
    """The fields of the chat request, one by one; `sources` and `left_out` as a translation has them."""

    def __init__(self, written: Mapping[str, Json]) -> None:
        self._written = written
        self.fields: dict[str, Json] = {}
        self.sources: dict[str, str] = {}
        self.left_out: dict[str, str] = {}

    def say(self, name: str, value: Json) -> None:
        """Say one field; raises `Refused` where it cannot be."""
        if name in _ENVELOPE:
            return
        sayer = _SAYERS.get(name)
        if sayer is None:
            self.put(name, value, name)
        elif value is None:
            self.left_out[name] = "null is the default"
        else:
            sayer(self, name, value)

    def put(self, name: str, value: Json, source: str) -> None:
        """Write a field of the chat request that the client wrote at `source`."""
        earlier = self.fields.get(name)
        if name in self.fields and not same(earlier, value):
            raise cannot_say(source, f"{self.sources.get(name, name)} says something else; send one of them")
        self.fields[name] = value
        if source != name:
            self.sources[name] = source

    def wants_tools(self) -> bool:
        """Whether the client sends tools."""
        return bool(self._written.get("tools"))


_Sayer = Callable[[_Request, str, Json], None]


def _refused(why: str) -> _Sayer:
    def refuse(request: _Request, name: str, value: Json) -> None:
        if value not in ([], {}):
            raise cannot_say(name, why)
        request.left_out[name] = "it is empty"

    return refuse


def _say_stops(request: _Request, name: str, value: Json) -> None:
    if value == []:
        request.left_out[name] = "an empty list is none"
    else:
        request.put("stop", value, name)


def _say_metadata(request: _Request, name: str, value: Json) -> None:
    if not isinstance(value, dict):
        raise cannot_say(name, "it is no object")
    members = without(as_object(value))
    for other in members.keys() - {"user_id"}:
        raise cannot_say(f"{name}.{other}", "of metadata user_id alone is known")
    if "user_id" in members:
        request.put("user", members["user_id"], f"{name}.user_id")
    else:
        request.left_out[name] = "it says nothing"


def _say_tools(request: _Request, name: str, value: Json) -> None:
    if not isinstance(value, list):
        raise cannot_say(name, "it is no list")
    tools = [_say_tool(tool, f"tools[{n}]") for n, tool in enumerate(objects_of(value, name))]
    request.put("tools", tools, name)


def _say_tool(tool: dict[str, Json], place: str) -> dict[str, Json]:
    kind = tool.get("type")
    if kind not in (None, "custom"):
        raise cannot_say(f"{place}.type", f"{kind} is a tool that Anthropic runs or knows; send custom tools")
    function = without(tool, "type", "input_schema", "cache_control")
    if tool.get("input_schema") is not None:
        function["parameters"] = tool["input_schema"]
    said: dict[str, Json] = {"type": "function", "function": function}
    mark = tool.get("cache_control")
    return said if mark is None else said | {"cache_control": mark}


def _say_tool_choice(request: _Request, name: str, value: Json) -> None:
    choice = as_object(value)
    kind = choice.get("type")
    rest = without(choice, "type", "disable_parallel_tool_use", *(("name",) if kind == "tool" else ()))
    for other in rest:
        raise cannot_say(f"{name}.{other}", "chat completions have no place for it")
    if kind == "tool":
        request.put("tool_choice", {"type": "function", "function": {"name": choice.get("name")}}, name)
    elif isinstance(kind, str) and kind in _CHOICES:
        request.put("tool_choice", _CHOICES[kind], name)
    else:
        raise cannot_say(f"{name}.type", f"it is {kind!r}, and none of auto, any, tool and none")
    if choice.get("disable_parallel_tool_use") is not None:
        parallel = not choice["disable_parallel_tool_use"]
        if not parallel or not request.wants_tools():
            request.put("parallel_tool_calls", parallel, f"{name}.disable_parallel_tool_use")


def _say_tier(request: _Request, name: str, value: Json) -> None:
    """`standard_only` is what OpenAI calls the tier `default`; `auto` is what happens anyway."""
    if value == "auto":
        request.left_out[name] = _DEFAULT
    else:
        request.put(name, "default" if value == "standard_only" else value, name)


def _say_output(request: _Request, name: str, value: Json) -> None:
    if not isinstance(value, dict):
        raise cannot_say(name, "it is no object")
    config = without(as_object(value))
    for other in config.keys() - {"effort", "format"}:
        raise cannot_say(f"{name}.{other}", "chat completions have no place for it")
    if not config:
        request.left_out[name] = "it says nothing"
    if "effort" in config:
        request.put("reasoning_effort", config["effort"], f"{name}.effort")
    if "format" in config:
        _say_format(request, f"{name}.format", config["format"])


def _say_format(request: _Request, name: str, value: Json) -> None:
    members = as_object(value)
    if members.get("type") != "json_schema" or not isinstance(members.get("schema"), dict):
        raise cannot_say(name, "it is no json_schema with a schema")
    for other in without(members, "type", "schema", "name"):
        raise cannot_say(f"{name}.{other}", "chat completions have no place for it")
    schema = {"name": members.get("name") or "answer", "schema": members["schema"], "strict": True}
    request.put("response_format", {"type": "json_schema", "json_schema": schema}, name)


def _say_number(request: _Request, name: str, value: Json) -> None:
    if value != 1:
        raise cannot_say(name, "a message is one answer")
    request.left_out[name] = _DEFAULT


_ENVELOPE: Final = frozenset({"model", "system", "messages", "stream"})
_NO_PLACE: Final = "chat completions have nothing like it"
_SAYERS: Final[Mapping[str, _Sayer]] = {
    "stop_sequences": _say_stops,
    "metadata": _say_metadata,
    "tools": _say_tools,
    "tool_choice": _say_tool_choice,
    "service_tier": _say_tier,
    "output_config": _say_output,
    "output_format": _say_format,
    "n": _say_number,
    "container": _refused(_NO_PLACE),
    "mcp_servers": _refused(_NO_PLACE),
    "context_management": _refused(_NO_PLACE),
}
