"""JSON kept exactly: every number keeps its text, every object its order.

Knows nothing of completions. The suite judges proxies with it, so it shares no code with the bridge.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias, cast


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number as it was written, so that `1.10` and `1.1` differ."""

    text: str


Exact: TypeAlias = "bool | str | Number | list[Exact] | dict[str, Exact] | None"
"""A JSON value whose numbers are `Number`."""


def parse(text: str | bytes) -> Exact:
    """Parse JSON; ValueError on anything that is not JSON, `NaN` and bad UTF-8 included."""
    plain = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        value = json.loads(plain, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply to be read") from None
    return cast(Exact, value)


def parsed_or_none(text: str | bytes) -> Exact:
    """`parse`, with None for what is not JSON."""
    try:
        return parse(text)
    except ValueError:
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def show(value: Exact, limit: int = 200) -> str:
    """Compact JSON of `value` for a message, cut at `limit` characters."""
    text = _written(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _written(value: Exact) -> str:
    if isinstance(value, Number):
        return value.text
    if isinstance(value, list):
        return "[" + ",".join(_written(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_written(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def difference(want: Exact, got: Exact, place: str = "$", *, loose: bool = False) -> str | None:
    """The first place where two values differ, number text and member order counted; None if equal.

    `loose`: members that were added, nulls that were left out, the order of members and the spelling of equal numbers
    do not count.
    """
    if isinstance(want, dict) and isinstance(got, dict):
        return _object_difference(want, got, place, loose=loose)
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return f"{place}: {len(want)} items wanted, {len(got)} seen"
        pairs = enumerate(zip(want, got, strict=True))
        return next((d for i, (a, b) in pairs if (d := difference(a, b, f"{place}[{i}]", loose=loose))), None)
    if type(want) is type(got) and want == got:
        return None
    if (
        loose
        and isinstance(want, Number)
        and isinstance(got, Number)
        and Decimal(want.text) == Decimal(got.text)
    ):
        return None
    return f"{place}: {show(want, 80)} wanted, {show(got, 80)} seen"


def _object_difference(
    want: dict[str, Exact], got: dict[str, Exact], place: str, *, loose: bool
) -> str | None:
    missing = [name for name in want if name not in got and not (loose and want[name] is None)]
    if missing:
        return f"{place}.{missing[0]}: lost"
    added = [name for name in got if name not in want]
    if added and not loose:
        return f"{place}.{added[0]}: added, {show(got[added[0]], 60)}"
    if list(want) != list(got) and not loose:
        return f"{place}: members reordered to {', '.join(got)}"
    found = (
        difference(want[name], got[name], f"{place}.{name}", loose=loose) for name in want if name in got
    )
    return next((place for place in found if place), None)


def at(value: Exact, *path: str | int) -> Exact:
    """The value at a path of names and indexes, None where there is nothing."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        elif isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def members(value: Exact) -> dict[str, Exact]:
    """The members of an object, none for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Exact) -> list[Exact]:
    """The items of a list, none for anything else."""
    return value if isinstance(value, list) else []


def integer(value: Exact) -> int | None:
    """A whole number, None for anything else."""
    if isinstance(value, Number) and value.text.lstrip("-").isdigit():
        return int(value.text)
    return None


def strings(value: Exact) -> Iterator[str]:
    """Every string inside a value, names of members included, escapes undone."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from strings(item)
