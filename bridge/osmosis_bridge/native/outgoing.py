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
    as_object,
    at,
    objects,
    put,
    same,
    shown,
    spelled,
    strings,
    words,
)
from osmosis_bridge.native.plan import CODE, Placed, Plan, Unsupported, Wanted
from osmosis_bridge.native.rule import Check, Family
from osmosis_bridge.native.strictness import mark_strict, wants_strict, without_strict
from osmosis_bridge.native.turns import parsed

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
_DEFAULTS: Final[dict[str, Json]] = {"strict": False, "properties": {}, "required": []}
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
    """Complete `body` in place and report on every field; raises `Unsupported` with all that is refused or lost.

    `signed` says that the request carries a signature over its body, so that nothing may be put into it.
    """
    refused = dict(plan.refused) | _clashes(plan, family)
    by_itself = dict(body)
    places: list[tuple[Placed, Path]] = []
    for item in plan.placed:
        try:
            places.append((item, _put(item, body, family, signed=signed)))
        except _CannotStand as reason:
            refused.setdefault(item.field, str(reason))
    rows: list[FieldRow] = []
    try:
        rows += _strict_rows(body, plan, family)
    except _CannotStand as reason:
        refused.setdefault("tools", str(reason))
    for wanted in plan.wanted:
        try:
            rows.append(_wanted_row(wanted, body, family))
        except _CannotStand as reason:
            refused[wanted.field] = str(reason)
    if refused:
        raise Unsupported(refused, family)
    rows = [_placed_row(item, path, body) for item, path in places] + rows
    rows += [FieldRow(name, "left out", why=why) for name, why in plan.left_out.items()]
    rows += _unasked(by_itself, rows, family)
    return rows


class _CannotStand(Exception):
    """A field cannot stand in the outgoing body; says why."""


def _put(item: Placed, body: dict[str, Json], family: Family, *, signed: bool) -> Path:
    if signed:
        raise _CannotStand("the request is signed, and nothing can be added to it")
    try:
        return put(body, item.path, _own(item.value), override=item.override, alike=family.spellings)
    except Conflict as conflict:
        raise _CannotStand(f"{shown(conflict.path)} is made from the rest of the request") from None


def _own(value: Json) -> Json:
    """A copy of an object, which merging would change; anything else as it is."""
    return copy.deepcopy(as_object(value)) if isinstance(value, dict) else value


def _clashes(plan: Plan, family: Family) -> dict[str, str]:
    """Fields of the client's that say another thing than one before them in one place: neither may win in silence."""
    apart: dict[str, Json] = {}
    found: dict[str, str] = {}
    for item in plan.placed:
        try:
            put(apart, item.path, _own(item.value), alike=family.spellings)
        except Conflict as conflict:
            where = shown(conflict.path)
            found[item.field] = f"another field says something else for {where}; send one of them"
    return found


def _placed_row(item: Placed, path: Path, body: dict[str, Json]) -> FieldRow:
    found = at(body, path)
    put_there = as_object(item.value)
    if put_there:
        # Merged: more may stand there than we put.
        names = {spelled(as_object(found), name) for name in put_there}
        found = {name: inner for name, inner in as_object(found).items() if name in names}
    return field_row(item.field, path, item.asked, found)


def field_row(field: str, path: Path, value: Json, found: Json) -> FieldRow:
    """What became of a field whose `value` is `found` at `path`."""
    if not same(found, value):
        return FieldRow(field, "value changed", shown(path), value, found)
    if path == (field,):
        return FieldRow(field, "forwarded", field)
    return FieldRow(field, "moved to" if len(path) > 1 else "renamed to", shown(path))


def _wanted_row(wanted: Wanted, body: dict[str, Json], family: Family) -> FieldRow:
    lost: set[str] = set()
    said_apart = wanted.field == "tools" and family.strict_mode is not None
    value = without_strict(wanted.value) if said_apart else wanted.value
    for path in wanted.at or ((),):
        found = at(body, path) if path else _named(wanted, body)
        if found is not MISSING and _holds(wanted.check, value, found):
            return field_row(wanted.field, path or (wanted.field,), wanted.value, found)
        if wanted.check == "words" and found is not MISSING:
            lost = missing_words(value, found)
    raise _CannotStand(wanted.why or _why_lost(lost))


def _why_lost(lost: set[str]) -> str:
    if lost == {"strict"}:
        return "this model has no strict tools; leave strict out, or set it to false"
    return "it does not arrive in the request that would be sent" + (
        f" (missing there: {', '.join(word[:40] for word in sorted(lost)[:5])})" if lost else ""
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


def _holds(check: Check, value: Json, found: Json) -> bool:
    if check == "same":
        return same(found, value)
    if check == "changed":
        return found is not None
    return not missing_words(value, found)


def missing_words(value: Json, found: Json) -> set[str]:
    """The names and values within `value` that `found` does not hold."""
    lost = words(without_defaults(value), UNSAID) - words(found) - _WRAPPERS - _names_of_shape(value)
    # Bedrock has a schema as the text of it.
    for text in strings(found) if lost else ():
        if text[:1] == "{":
            lost -= words(parsed(text))
    return lost


def _names_of_shape(value: Json) -> set[str]:
    """The names that OpenAI's shape adds around a tool or a schema, and the name of a response format."""
    added = {"type", "function", "parameters", "strict", "schema", "name", "auto"}
    label = at(value, ("json_schema", "name"))
    if label is not MISSING:
        added.add(str(label).lower())
    return added - ({"strict"} if isinstance(value, list) and wants_strict(value) else set())


def without_defaults(value: Json) -> Json:
    """`value` without nulls, `strict: false`, no properties and none that is required: what is so anyway."""
    if isinstance(value, dict):
        members = cast("dict[str, Json]", value)
        return {
            name: without_defaults(inner)
            for name, inner in members.items()
            if inner is not None and not (name in _DEFAULTS and same(inner, _DEFAULTS[name]))
        }
    if isinstance(value, list):
        return [without_defaults(inner) for inner in cast("list[Json]", value)]
    return value


def _strict_rows(body: dict[str, Json], plan: Plan, family: Family) -> list[FieldRow]:
    """What became of the `strict` of tools, where the dialect has one word for all of them."""
    tools = next((item.value for item in (*plan.placed, *plan.wanted) if item.field == "tools"), None)
    try:
        said = mark_strict(body, tools, family)
    except Conflict as conflict:
        raise _CannotStand(f"{shown(conflict.path)} says otherwise than strict; send one of them") from None
    if said is None:
        return []
    moved: Became = "moved to" if len(said.at) > 1 else "renamed to"
    return [FieldRow("tools.strict", moved, shown(said.at), after=said.value, why=said.why)]


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
