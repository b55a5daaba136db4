"""Tools, the choice among them, and the form of the answer: Responses' flat shapes as chat completions' nested ones.

Pure. Raises `Refused` naming the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.spoken.responses_input import beside, invalid
from osmosis_bridge.native.spoken.translation import cannot_say

_CHOICES: Final = frozenset({"auto", "none", "required"})
_NO_EQUAL: Final = ("defer_loading", "allowed_callers", "output_schema", "async")
_BUILT_IN: Final = (
    "it is a tool of OpenAI's own, which this model does not have; only tools of type function can be sent"
)


def read_tools(tools: Json) -> list[Json]:
    """The tools as chat completions has them; empty where there are none."""
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise invalid("tools", "must be a list")
    return [_tool(tool, f"tools[{n}]") for n, tool in enumerate(as_items(tools))]


def _tool(tool: Json, place: str) -> dict[str, Json]:
    members = as_object(tool)
    kind = members.get("type")
    if kind == "function":
        said = ("name", "description", "parameters", "strict")
    elif kind == "custom":
        said = ("name", "description", "format")
    elif isinstance(kind, str):
        raise cannot_say(f"{place}.type", f"{kind!r}: {_BUILT_IN}")
    else:
        raise invalid(f"{place}.type", "must be text")
    if not isinstance(members.get("name"), str):
        raise invalid(f"{place}.name", "must be text")
    for name in _NO_EQUAL:
        if members.get(name) not in (None, False):
            raise cannot_say(f"{place}.{name}", "chat completions has no such member of a tool")
    inner = {name: members[name] for name in said if members.get(name) is not None}
    if "format" in inner:
        inner["format"] = _grammar_within(inner["format"], f"{place}.format")
    read = {"type", *said, *_NO_EQUAL}
    rest = {name: value for name, value in members.items() if name not in read and value is not None}
    return beside({"type": kind, kind: inner}, rest, place)


def _grammar_within(form: Json, place: str) -> dict[str, Json]:
    if not isinstance(form, dict):
        raise invalid(place, "must be an object")
    given = as_object(form)
    if given.get("type") != "grammar":
        return dict(given)
    return {"type": "grammar", "grammar": {name: value for name, value in given.items() if name != "type"}}


def read_choice(choice: Json) -> Json:
    """`tool_choice` as chat completions has it."""
    if choice in _CHOICES if isinstance(choice, str) else False:
        return choice
    members = as_object(choice)
    kind = members.get("type")
    if kind in ("function", "custom"):
        return _named(members, "tool_choice")
    if kind == "allowed_tools":
        tools = members.get("tools")
        if not isinstance(tools, list):
            raise invalid("tool_choice.tools", "must be a list")
        for other in members.keys() - {"type", "mode", "tools"}:
            raise cannot_say(f"tool_choice.{other}", "chat completions has no place for it")
        allowed = [
            _named(as_object(tool), f"tool_choice.tools[{n}]") for n, tool in enumerate(as_items(tools))
        ]
        return {"type": kind, kind: {"mode": members.get("mode"), "tools": allowed}}
    if isinstance(kind, str):
        raise cannot_say("tool_choice.type", f"{kind!r}: {_BUILT_IN}")
    raise invalid("tool_choice", "must be auto, none, required or an object that names a tool")


def _named(choice: Mapping[str, Json], place: str) -> dict[str, Json]:
    kind, name = choice.get("type"), choice.get("name")
    if kind not in ("function", "custom"):
        raise cannot_say(f"{place}.type", f"{kind!r}: {_BUILT_IN}")
    if not isinstance(name, str):
        raise invalid(f"{place}.name", "must be text")
    for other in choice.keys() - {"type", "name"}:
        raise cannot_say(f"{place}.{other}", "chat completions has no place for it")
    return {"type": kind, kind: {"name": name}}


def read_text(text: Json) -> dict[str, Json]:
    """The fields of chat completions that `text` is: `response_format`, `verbosity`."""
    if text is None:
        return {}
    if not isinstance(text, dict):
        raise invalid("text", "must be an object")
    members = as_object(text)
    for name in members.keys() - {"format", "verbosity"}:
        raise cannot_say(f"text.{name}", "chat completions has no place for it")
    said: dict[str, Json] = {}
    if members.get("format") is not None:
        form = _form(members["format"])
        if form is not None:
            said["response_format"] = form
    if members.get("verbosity") is not None:
        said["verbosity"] = members["verbosity"]
    return said


def _form(form: Json) -> Json:
    members = as_object(form)
    kind = members.get("type")
    if kind == "json_schema":
        inner = {name: value for name, value in members.items() if name != "type" and value is not None}
        return {"type": kind, kind: inner}
    if kind not in ("text", "json_object"):
        raise cannot_say("text.format.type", f"chat completions has no format {kind!r}")
    for name in members.keys() - {"type"}:
        raise cannot_say(f"text.format.{name}", "chat completions has no place for it")
    return None if kind == "text" else dict(members)
