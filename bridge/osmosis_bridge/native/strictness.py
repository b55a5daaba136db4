"""Tools whose arguments must hold to their schemas: OpenAI's `strict`, and where each dialect says the same.

A dialect says it on each tool, for all tools of a call at once, or not at all. Pure.
"""

from __future__ import annotations

from typing import cast

import msgspec

from osmosis_bridge.native.jsontree import MISSING, Json, Path, as_items, as_object, at, put, same
from osmosis_bridge.native.rule import Family, StrictMode


class Strictness(msgspec.Struct, frozen=True):
    """What stands in the outgoing body for the `strict` of tools, where the dialect has one word for all of them."""

    at: Path
    value: Json
    why: str


def wants_strict(tools: Json) -> bool:
    """Whether one of these tools asks that its arguments hold to its schema."""
    return bool(_strict_names(tools))


def _strict_names(tools: Json) -> list[Json]:
    """The names of the tools that ask for it, on themselves or on their function."""
    found = [
        part for tool in map(as_object, as_items(tools)) for part in (tool, as_object(tool.get("function")))
    ]
    return [part.get("name") for part in found if part.get("strict") is True]


def without_strict(tools: Json) -> Json:
    """These tools without the word, on a tool itself and on its function."""
    return [_without(tool) for tool in as_items(tools)]


def _without(tool: Json) -> Json:
    if not isinstance(tool, dict):
        return tool
    kept = {name: value for name, value in cast("dict[str, Json]", tool).items() if name != "strict"}
    if isinstance(kept.get("function"), dict):
        function = as_object(kept["function"])
        kept["function"] = {name: value for name, value in function.items() if name != "strict"}
    return kept


def mark_strict(body: dict[str, Json], tools: Json, family: Family) -> Strictness | None:
    """Say in `body`, in place, that the tools which ask for it are strict; what was said for all of them, if so.

    Raises `Conflict` where something stands in that place that says otherwise.
    """
    if not wants_strict(tools):
        return None
    if family.strict_mode is not None:
        return _set_mode(body, family.strict_mode, alike=family.spellings)
    if family.strict_tools_at is not None:
        strict = _strict_names(tools)
        for tool in as_items(at(body, family.strict_tools_at)):
            if as_object(tool).get("name") in strict:
                tool["strict"] = True
    return None


def _set_mode(body: dict[str, Json], mode: StrictMode, *, alike: bool) -> Strictness:
    found = at(body, mode.at)
    if found in mode.enough:
        return Strictness(mode.at, found, "it holds to the schemas by itself, or calls no tool")
    over = found is MISSING or any(same(found, value) for value in mode.over)
    path = put(body, mode.at, mode.value, override=over, alike=alike)
    return Strictness(path, mode.value, "the provider has it for all tools of a call at once")
