"""The decision on one request before LiteLLM sees it: what it is handed, what we place ourselves, what must be found.

Pure. Raises `Refused` with `param` set for what cannot be sent; nothing has been sent to a provider then.
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
    """What happens to each field; `left_out` says by name why a field may be missing."""

    kwargs: dict[str, Json]
    placed: tuple[Placed, ...]
    wanted: tuple[Wanted, ...]
    left_out: dict[str, str]


def unsupported(field: str, family: Family, why: str) -> Refused:
    """The refusal of one field, in our words."""
    return Refused(
        f"{field} cannot be sent to this model ({family.name} dialect): {why}", code=CODE, param=field
    )


def make_plan(fields: Mapping[str, Json], family: Family, asked: Asked) -> Plan:
    """Decide on every field but the envelope (`model`, `messages`, `stream`)."""
    kwargs: dict[str, Json] = {}
    placed: list[Placed] = []
    wanted: list[Wanted] = []
    left_out: dict[str, str] = {}
    for name, value in fields.items():
        if name in _ENVELOPE:
            continue
        rule = family.rule(name, value, asked)
        if rule.act == "refuse":
            raise unsupported(name, family, rule.why)
        if rule.act == "absent":
            left_out[name] = rule.why
        elif rule.act == "place":
            placed.append(Placed(name, rule.at[0], _value(rule, value), value, rule.override))
        else:
            kwargs[name] = value
            wanted.append(Wanted(name, rule.at, value, rule.check, rule.why))
    return Plan(kwargs, tuple(placed), tuple(wanted), left_out)


def _value(rule: Rule, value: Json) -> Json:
    return value if rule.value is MISSING else rule.value
