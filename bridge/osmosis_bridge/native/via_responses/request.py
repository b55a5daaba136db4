"""A chat request said as Responses, and the way back for its answer.

Rules for whoever edits this file:

- what is the default of chat completions and not of Responses is said: nothing is stored, tools are not strict;
- what Responses has no field for is refused by name; null, and the default of such a field, are left out;
- a field nobody knows goes as it is, for OpenAI to answer to.

Pure. Raises `Refused` naming the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from osmosis_bridge.native.jsontree import Json, as_items, as_object, same
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.replies import DONE
from osmosis_bridge.native.spoken.translation import Translation, cannot_say, encode_json
from osmosis_bridge.native.via_responses.answer import ChunkWriter, completion_of
from osmosis_bridge.native.via_responses.choice import reasons
from osmosis_bridge.native.via_responses.items import input_of, list_at, object_at
from osmosis_bridge.sse import encode_event

_NO_FIELD: Final = "OpenAI's Responses has no such parameter, and chat completions does not take this request"
_ENVELOPE: Final = frozenset({"model", "messages", "stream", "stream_options"})
_DEFAULTS: Final[Mapping[str, tuple[Json, ...]]] = {
    "n": (1,),
    "logprobs": (False,),
    "frequency_penalty": (0, 0.0),
    "presence_penalty": (0, 0.0),
    "logit_bias": ({},),
    "stop": ([],),
    "modalities": (["text"],),
    "seed": (),
    "audio": (),
    "prediction": (),
    "functions": ([],),
    "function_call": (),
    "web_search_options": (),
}
"""The fields of chat completions without an equal, each with the values that say nothing."""
_SEALED: Final = "reasoning.encrypted_content"
_LOGPROBS: Final = "message.output_text.logprobs"


class ViaResponses(Translation):
    """One chat request on its way to Responses; `why` says why it goes there, `rows` what became of each field.

    `keep` is called with the assistant's message before its last bytes are given out.
    """

    keep: Callable[[Mapping[str, Json]], None] | None = None

    def __init__(self, said: _Said, why: str, fields: Mapping[str, Json]) -> None:
        self.request = said.request
        self.sources = said.sources
        self.left_out = said.left_out
        self.why = why
        self._writer = ChunkWriter(
            usage_asked=as_object(fields.get("stream_options")).get("include_usage") is True
        )

    def reply(self, completion: Mapping[str, Json]) -> dict[str, Json]:
        """A response as a chat completion."""
        made = completion_of(completion)
        self._keep(made["choices"][0]["message"])
        return made

    def chunk(self, chunk: Mapping[str, Json]) -> bytes:
        """An event of a response as chunks."""
        return b"".join(encode_event(encode_json(made)) for made in self._writer.take(chunk))

    def end(self) -> bytes:
        """What ends the stream. Raises `UpstreamFailed` where the response did not."""
        self._writer.end()
        self._keep(self._writer.message)
        return DONE

    def _keep(self, message: Mapping[str, Json]) -> None:
        if self.keep is not None:
            self.keep(message)

    def rows(self, fields: Mapping[str, Json]) -> tuple[FieldRow, ...]:
        """What became of each field."""
        rows = [FieldRow("messages", "renamed to", "input", why=self.why)]
        for name, value in fields.items():
            if name in _ENVELOPE:
                continue
            at = self.sources.get(name)
            if at is None:
                rows.append(FieldRow(name, "left out", why=self.left_out[name]))
            elif at != name:
                rows.append(FieldRow(name, "moved to" if "." in at else "renamed to", at))
            elif same(value, self.request.get(name)):
                rows.append(FieldRow(name, "forwarded", name))
            else:
                rows.append(FieldRow(name, "value changed", name, value, self.request.get(name)))
        named = {at.partition(".")[0] for at in self.sources.values()} | {"model", "input", "stream"}
        rows += [
            FieldRow(name, "set by the translator", name, after=value)
            for name, value in self.request.items()
            if name not in named
        ]
        return tuple(rows)


def say_as_responses(fields: Mapping[str, Json], model: str, why: str) -> ViaResponses:
    """The request to Responses that says the same. Raises `Refused` for what it cannot say."""
    said = _Said()
    for name, value in fields.items():
        if name in _ENVELOPE:
            continue
        if name in _DEFAULTS:
            _default_only(name, value, said)
        elif name in _READERS:
            _READERS[name](value, said)
        else:
            said.put(name, name, value)
    said.request = {
        "model": model,
        "input": input_of(fields.get("messages")),
        "stream": fields.get("stream") is True,
        **said.request,
    }
    options = {
        name: value
        for name, value in as_object(fields.get("stream_options")).items()
        if name != "include_usage"
    }
    if options:
        said.request["stream_options"] = options
    # The default of chat completions; Responses would keep what it was not told to forget.
    if said.request.setdefault("store", False) is None:
        said.request["store"] = False
    if reasons(model) and said.request["store"] is False:
        include = as_items(said.request.get("include"))
        said.request["include"] = [*include, *([] if _SEALED in include else [_SEALED])]
    return ViaResponses(said, why, fields)


class _Said:
    """The request in the making; `sources` says where each field of the client's went."""

    def __init__(self) -> None:
        self.request: dict[str, Json] = {}
        self.sources: dict[str, str] = {}
        self.left_out: dict[str, str] = {}

    def put(self, name: str, at: str, value: Json) -> None:
        """Say a field at a place; raises `Refused` where another one says something else there."""
        place, _, inner = at.partition(".")
        if inner:
            whole = as_object(self.request.get(place))
            if inner in whole and not same(whole[inner], value):
                raise cannot_say(name, f"another field says something else for {at}; send one of them")
            self.request[place] = whole | {inner: value}
        elif isinstance(value, dict) and isinstance(self.request.get(place), dict):
            for key, member in as_object(value).items():
                self.put(name, f"{place}.{key}", member)
        elif place in self.request and not same(self.request[place], value):
            raise cannot_say(name, f"another field says something else for {at}; send one of them")
        else:
            self.request[place] = value
        self.sources[name] = at

    def leave_out(self, name: str, why: str) -> None:
        """Say nothing, since that means the same."""
        self.left_out[name] = why


def _default_only(name: str, value: Json, said: _Said) -> None:
    if name == "logprobs" and value is True:
        said.put("logprobs", "include", [_LOGPROBS])
    elif value is None or any(same(value, default) for default in _DEFAULTS[name]):
        said.leave_out(name, "that is the default")
    else:
        raise cannot_say(name, _NO_FIELD)


def _moved(name: str, at: str) -> Callable[[Json, _Said], None]:
    def read(value: Json, said: _Said) -> None:
        if value is None:
            said.leave_out(name, "null is the default")
        else:
            said.put(name, at, value)

    return read


def _format(value: Json, said: _Said) -> None:
    if value is None:
        said.leave_out("response_format", "null is the default")
        return
    members = object_at(value, "response_format")
    inner = object_at(members.get("json_schema", {}), "response_format.json_schema")
    form = _flattened(_rest(members, "json_schema"), inner, {}, "response_format")
    said.put("response_format", "text.format", form)


def _rest(members: Mapping[str, Json], *read: str) -> dict[str, Json]:
    return {name: value for name, value in members.items() if name not in read}


def _tools(value: Json, said: _Said) -> None:
    tools = [_flat(object_at(tool, f"tools[{n}]"), f"tools[{n}]") for n, tool in enumerate(as_items(value))]
    if tools:
        said.put("tools", "tools", tools)
    elif value is None or value == []:
        said.leave_out("tools", "an empty list is no tools")
    else:
        raise cannot_say("tools", "it must be a list")


def _flat(tool: Mapping[str, Json], place: str) -> dict[str, Json]:
    """A tool without the level that chat completions has more; a function is strict only where that was asked for."""
    kind = tool.get("type")
    if not isinstance(kind, str) or kind not in tool:
        return dict(tool)
    inner = object_at(tool[kind], f"{place}.{kind}")
    flat = _flattened({"type": kind}, inner, _rest(tool, "type", str(kind)), place)
    if kind == "function" and flat.get("strict") is None:
        flat["strict"] = False
    if kind == "function":
        flat.setdefault("parameters", None)
    form = as_object(flat.get("format"))
    if "grammar" in form:
        flat["format"] = _flattened(
            _rest(form, "grammar"),
            object_at(form["grammar"], f"{place}.format.grammar"),
            {},
            f"{place}.format",
        )
    return flat


def _tool_choice(value: Json, said: _Said) -> None:
    members = as_object(value)
    if value is None:
        said.leave_out("tool_choice", "null is the default")
        return
    if members.get("type") == "allowed_tools":
        at = "tool_choice.allowed_tools"
        allowed = object_at(members.get("allowed_tools"), at)
        tools = [
            _named(object_at(tool, f"{at}.tools[{n}]"), f"{at}.tools[{n}]")
            for n, tool in enumerate(list_at(allowed.get("tools"), f"{at}.tools"))
        ]
        value = _flattened(_rest(members, "allowed_tools"), allowed | {"tools": tools}, {}, "tool_choice")
    elif members:
        value = _named(members, "tool_choice")
    said.put("tool_choice", "tool_choice", value)


def _flattened(
    first: Mapping[str, Json], inner: Mapping[str, Json], last: Mapping[str, Json], place: str
) -> dict[str, Json]:
    """Members of two levels in one; `Refused` where one would stand in another's place."""
    for name in inner:
        if name in first or name in last:
            raise cannot_say(f"{place}.{name}", "it stands there twice; Responses has one place for it")
    return {**first, **inner, **last}


def _named(choice: Mapping[str, Json], place: str) -> dict[str, Json]:
    kind = choice.get("type")
    if not isinstance(kind, str) or kind not in choice:
        return dict(choice)
    return _flattened(_rest(choice, kind), object_at(choice[kind], f"{place}.{kind}"), {}, place)


_READERS: Final[Mapping[str, Callable[[Json, _Said], None]]] = {
    "max_tokens": _moved("max_tokens", "max_output_tokens"),
    "max_completion_tokens": _moved("max_completion_tokens", "max_output_tokens"),
    "reasoning_effort": _moved("reasoning_effort", "reasoning.effort"),
    "verbosity": _moved("verbosity", "text.verbosity"),
    "response_format": _format,
    "tools": _tools,
    "tool_choice": _tool_choice,
    **{
        name: _moved(name, name)
        for name in (
            "temperature",
            "top_p",
            "top_logprobs",
            "user",
            "metadata",
            "parallel_tool_calls",
            "service_tier",
        )
    },
}
