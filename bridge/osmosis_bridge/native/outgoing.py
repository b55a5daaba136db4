"""The post-condition: does what LiteLLM would send hold every field that was asked for? And what became of each.

`settle` completes the outgoing body with what we place ourselves and then looks for every field where its rule says it
must stand. What is not there is refused by name, before anything is sent. Pure.
"""

from __future__ import annotations

import copy
from typing import Final, Literal, cast

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import (
    MISSING,
    Conflict,
    Json,
    Path,
    as_items,
    as_object,
    at,
    objects,
    put,
    same,
    shown,
    spelled,
    words,
)
from osmosis_bridge.native.plan import CODE, Placed, Plan, Wanted, unsupported
from osmosis_bridge.native.rule import Family

Became = Literal["forwarded", "renamed to", "moved to", "value changed", "left out", "set by the translator"]

UNSAID: Final = frozenset(
    {
        "$comment",
        "$id",
        "$schema",
        "additionalProperties",
        "default",
        "deprecated",
        "examples",
        "readOnly",
        "title",
    }
)
"""Names within a JSON schema that describe and do not constrain a call; a dialect may have no place for them."""
_WRAPPERS: Final = frozenset({"json_schema", "function", "object", "true", "false"})


class FieldRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one field, and where it stands in the outgoing body."""

    field: str
    became: Became
    at: str | None = None
    before: Json = None
    after: Json = None
    why: str | None = None


def settle(body: dict[str, Json], plan: Plan, family: Family, *, signed: bool) -> list[FieldRow]:
    """Complete `body` in place and report on every field; raises `Refused` for the first that is lost.

    `signed` says that the request carries a signature over its body, so that nothing may be put into it.
    """
    if signed and plan.placed:
        raise unsupported(
            plan.placed[0].field, family, "the request is signed, and nothing can be added to it"
        )
    by_itself = dict(body)
    _check_apart(plan, family)
    places = [_put(item, body, family) for item in plan.placed]
    _mark_strict(body, plan, family)
    rows = [_placed_row(item, path, body) for item, path in zip(plan.placed, places, strict=True)]
    rows += [_wanted_row(wanted, body, family) for wanted in plan.wanted]
    rows += [FieldRow(name, "left out", why=why) for name, why in plan.left_out.items()]
    rows += _unasked(by_itself, rows, family)
    return rows


def _put(item: Placed, body: dict[str, Json], family: Family) -> Path:
    try:
        return put(body, item.path, _own(item.value), override=item.override, alike=family.spellings)
    except Conflict as conflict:
        why = f"{shown(conflict.path)} is made from the rest of the request"
        raise unsupported(item.field, family, why) from None


def _own(value: Json) -> Json:
    """A copy of an object, which merging would change; anything else as it is."""
    return copy.deepcopy(as_object(value)) if isinstance(value, dict) else value


def _check_apart(plan: Plan, family: Family) -> None:
    """Two fields of the client's that would say different things in one place: neither may win in silence."""
    apart: dict[str, Json] = {}
    for item in plan.placed:
        try:
            put(apart, item.path, _own(item.value), alike=family.spellings)
        except Conflict as conflict:
            why = f"another field says something else for {shown(conflict.path)}; send one of them"
            raise unsupported(item.field, family, why) from None


def _placed_row(item: Placed, path: Path, body: dict[str, Json]) -> FieldRow:
    found = at(body, path)
    put_there = as_object(item.value)
    if put_there:
        # Merged: more may stand there than we put.
        names = {spelled(as_object(found), name) for name in put_there}
        found = {name: inner for name, inner in as_object(found).items() if name in names}
    return _row(item.field, path, item.asked, found)


def _row(field: str, path: Path, value: Json, found: Json) -> FieldRow:
    if not same(found, value):
        return FieldRow(field, "value changed", shown(path), value, found)
    if path == (field,):
        return FieldRow(field, "forwarded", field)
    return FieldRow(field, "moved to" if len(path) > 1 else "renamed to", shown(path))


def _wanted_row(wanted: Wanted, body: dict[str, Json], family: Family) -> FieldRow:
    for path in wanted.at or ((),):
        found = at(body, path) if path else _named(wanted, body)
        if found is not MISSING and _holds(wanted, found):
            return _row(wanted.field, path or (wanted.field,), wanted.value, found)
    raise unsupported(
        wanted.field, family, wanted.why or "it does not arrive in the request that would be sent"
    )


def _named(wanted: Wanted, body: dict[str, Json]) -> Json:
    """The value under the field's name, or its camel-case form, wherever it stands; the body, for a check of words."""
    if wanted.check == "words":
        return body
    head, *tail = wanted.field.split("_")
    names = (wanted.field, head + "".join(part.title() for part in tail))
    for members in objects(body):
        for name in names:
            if name in members and same(members[name], wanted.value):
                return members[name]
    return MISSING


def _holds(wanted: Wanted, found: Json) -> bool:
    if wanted.check == "same":
        return same(found, wanted.value)
    if wanted.check == "changed":
        return found is not None
    return not missing_words(wanted.value, found)


def missing_words(value: Json, found: Json) -> set[str]:
    """The names and values within `value` that `found` does not hold."""
    return words(without_false_strict(value), UNSAID) - words(found) - _WRAPPERS - _names_of_shape(value)


def _names_of_shape(value: Json) -> set[str]:
    """The names that OpenAI's shape adds around a tool or a schema, and the name of a response format."""
    added = {"type", "function", "parameters", "strict", "schema", "name", "auto"}
    label = at(value, ("json_schema", "name"))
    if label is not MISSING:
        added.add(str(label).lower())
    return added - ({"strict"} if isinstance(value, list) and wants_strict(value) else set())


def wants_strict(tools: Json) -> bool:
    """Whether `strict: true` stands anywhere in these tools."""
    return any(node.get("strict") is True for node in objects(tools))


def without_false_strict(value: Json) -> Json:
    """`value` without `strict: false` and nulls, which say what is so anyway."""
    if isinstance(value, dict):
        members = cast("dict[str, Json]", value)
        return {
            name: without_false_strict(inner)
            for name, inner in members.items()
            if inner is not None and not (name == "strict" and inner is False)
        }
    if isinstance(value, list):
        return [without_false_strict(inner) for inner in cast("list[Json]", value)]
    return value


def _mark_strict(body: dict[str, Json], plan: Plan, family: Family) -> None:
    """Set `strict` on the tools that ask for it, where LiteLLM loses it and the dialect has it."""
    if family.strict_tools_at is None:
        return
    asked = next((wanted.value for wanted in plan.wanted if wanted.field == "tools"), None)
    strict = [node.get("name") for node in objects(asked) if node.get("strict") is True]
    for tool in as_items(at(body, family.strict_tools_at)) if strict else ():
        if as_object(tool).get("name") in strict:
            tool["strict"] = True


def _unasked(body: dict[str, Json], rows: list[FieldRow], family: Family) -> list[FieldRow]:
    """What LiteLLM set at the top level without being asked, the conversation and the envelope excepted."""
    known = {(row.at or "").split(".")[0] for row in rows} | {"model", "stream", *family.messages_at}
    return [
        FieldRow(name, "set by the translator", name, after=value)
        for name, value in body.items()
        if name not in known and value not in ({}, [])
    ]


def not_a_call(path: str) -> Refused:
    """LiteLLM wanted to ask something else first, with a request of its own."""
    return Refused(
        f"to send this, LiteLLM would make a request of its own first ({path}), which is not done; send images and "
        "files inline as data URLs, and leave provider-side caches out",
        code=CODE,
        param="messages",
    )
