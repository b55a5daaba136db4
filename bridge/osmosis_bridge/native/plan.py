"""The decision on one request before LiteLLM sees it: what it is handed, what we place ourselves, what must be found.

Pure. What cannot be sent is collected, so that one refusal (`Unsupported`) names all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import MISSING, Json, Path
from osmosis_bridge.native.rule import Asked, Check, Family, Rule

CODE: Final = "unsupported_parameter"
_ENVELOPE: Final = frozenset({"model", "messages", "stream"})


class Unsupported(Refused):
    """What of a request cannot be sent: `fields` says why, by name or place; the first is the error's `param`."""

    def __init__(self, fields: Mapping[str, str], family: Family | None = None) -> None:
        first, *others = fields
        dialect = "" if family is None else f" ({family.name} dialect)"
        told = "; ".join(f"{field}: {why}" for field, why in fields.items())
        name = f"{len(fields)} fields" if others else first
        message = f"{name} cannot be sent to this model{dialect}: {told if others else fields[first]}"
        super().__init__(message, code=CODE, param=first)
        self.fields: Final = dict(fields)
        self.family: Final = family


class Placed(msgspec.Struct, frozen=True):
    """A value that we write into the outgoing body; `asked` is the client's, where ours differs."""

    field: str
    path: Path
    value: Json
    asked: Json
    override: bool


class Wanted(msgspec.Struct, frozen=True):
    """A field that LiteLLM translates, where the outgoing body must hold it, and why it may not."""

    field: str
    at: tuple[Path, ...]
    value: Json
    check: Check
    why: str = ""


class Plan(msgspec.Struct, frozen=True):
    """What happens to each field; `left_out` says by name why one may be missing, `refused` why one cannot be sent."""

    kwargs: dict[str, Json]
    placed: tuple[Placed, ...]
    wanted: tuple[Wanted, ...]
    left_out: dict[str, str]
    refused: dict[str, str] = {}


def make_plan(fields: Mapping[str, Json], family: Family, asked: Asked) -> Plan:
    """Decide on every field but the envelope (`model`, `messages`, `stream`)."""
    kwargs: dict[str, Json] = {}
    placed: list[Placed] = []
    wanted: list[Wanted] = []
    left_out: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, value in fields.items():
        if name in _ENVELOPE:
            continue
        rule = family.rule(name, value, asked)
        if rule.act == "refuse":
            refused[name] = rule.why
        elif rule.act == "absent":
            left_out[name] = rule.why
        elif rule.act == "place":
            placed.append(Placed(name, rule.at[0], _value(rule, value), value, rule.override))
        else:
            kwargs[name] = value
            wanted.append(Wanted(name, rule.at, value, rule.check, rule.why))
    return Plan(kwargs, tuple(placed), tuple(wanted), left_out, refused)


def _value(rule: Rule, value: Json) -> Json:
    return value if rule.value is MISSING else rule.value
