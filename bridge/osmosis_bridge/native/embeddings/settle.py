"""The outgoing body of a request for embeddings: filled with texts and fields, and looked through before it is sent.

Every text of the input stands in it, in its order and alone; so does every field, or it is refused by name. Pure.
"""

from __future__ import annotations

import copy

from osmosis_bridge.native.embeddings.families import EACH, Embeds
from osmosis_bridge.native.jsontree import (
    MISSING,
    Conflict,
    Json,
    Path,
    as_items,
    at,
    nodes,
    put,
    same,
    shown,
)
from osmosis_bridge.native.outgoing import FieldRow, field_row
from osmosis_bridge.native.plan import Placed, Plan, Unsupported

_LOST = "it does not arrive in the request that would be sent"


def settle_texts(body: dict[str, Json], texts: list[str], plan: Plan, embeds: Embeds) -> list[FieldRow]:
    """Complete `body` in place and report on every field; raises `Unsupported` with all that cannot stand in it."""
    refused = dict(plan.refused)
    by_itself = set(body)
    if not embeds.signed:
        filled = embeds.fill(body, texts)
        body.clear()
        body.update(filled)
    if embeds.texts(body) != texts:
        refused.setdefault("input", _LOST)
    apart: dict[str, Json] = {}
    for item in plan.placed:
        try:
            put(apart, item.path, copy.deepcopy(item.value))
            for place in _places(body, item.path):
                put(*place, copy.deepcopy(item.value), override=item.override)
        except Conflict as conflict:
            refused[item.field] = (
                f"another field says something else for {_shown(item.path or conflict.path)}"
            )
    for wanted in plan.wanted:
        if not same(at(body, wanted.at[0]), wanted.value):
            refused[wanted.field] = wanted.why or _LOST
    if refused:
        raise Unsupported(refused, embeds.dialect)
    rows = [_input_row(body, texts)]
    rows += [_placed_row(item, body) for item in plan.placed]
    rows += [field_row(wanted.field, wanted.at[0], wanted.value, wanted.value) for wanted in plan.wanted]
    rows += [FieldRow(name, "left out", why=why) for name, why in plan.left_out.items()]
    return rows + _unasked(by_itself, rows, body)


def _places(body: dict[str, Json], path: Path) -> list[tuple[dict[str, Json], Path]]:
    """The objects within `body`, and the path in each, that a path with `*` leads to."""
    if EACH not in path:
        return [(body, path)]
    star = path.index(EACH)
    return [(item, path[star + 1 :]) for item in as_items(at(body, path[:star]))]


def _placed_row(item: Placed, body: dict[str, Json]) -> FieldRow:
    tree, path = _places(body, item.path)[0]
    found = at(tree, path)
    row = field_row(item.field, item.path, item.asked, found if found is not MISSING else item.value)
    return row if EACH not in item.path else _renamed(row, item)


def _renamed(row: FieldRow, item: Placed) -> FieldRow:
    return FieldRow(row.field, row.became, _shown(item.path), row.before, row.after)


def _shown(path: Path) -> str:
    return shown(path).replace(f".{EACH}", "[]")


def _input_row(body: dict[str, Json], texts: list[str]) -> FieldRow:
    """Which member of the body holds the texts."""
    place = next((name for name, value in body.items() if name != "model" and _holds(value, texts[0])), None)
    if place == "input":
        return FieldRow("input", "forwarded", place)
    return FieldRow(
        "input", "renamed to" if body.get(place or "") in (texts, texts[0]) else "moved to", place
    )


def _holds(value: Json, text: str) -> bool:
    return any(node == text for node in nodes(value))


def _unasked(by_itself: set[str], rows: list[FieldRow], body: dict[str, Json]) -> list[FieldRow]:
    """What LiteLLM set at the top level without being asked."""
    known = {(row.at or "").split(".")[0].removesuffix("[]") for row in rows} | {"model"}
    return [
        FieldRow(name, "set by the translator", name, after=body[name])
        for name in body
        if name in by_itself and name not in known and body[name] not in ({}, [])
    ]
