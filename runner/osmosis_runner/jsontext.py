"""JSON values, and their text for files.

Knows nothing of runs. Refuses what JSON cannot say (NaN, infinities, lone surrogates) instead of changing it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

JsonValue: TypeAlias = "Mapping[str, JsonValue] | Sequence[JsonValue] | str | int | float | bool | None"
"""Any JSON value; `msgspec.json.decode` gives dicts and lists."""

JsonObject: TypeAlias = "dict[str, JsonValue]"
"""A JSON object."""


class NotJson(ValueError):
    """A value cannot be written as JSON; the message names the path inside the value."""


def pretty(value: JsonValue) -> bytes:
    """Return the text of `value` for a file: two-space indent, keys in their order, final newline.

    Raises `NotJson` for NaN, infinities, lone surrogates and values JSON does not know.
    """
    refuse_unwritable(value)
    return (json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode()


def refuse_unwritable(value: JsonValue) -> None:
    """Raise `NotJson` naming the first part of `value` that JSON text cannot hold exactly."""
    pending: list[tuple[str, JsonValue]] = [("$", value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, str):
            _refuse_surrogates(path, item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise NotJson(f"{path} is {item!r}, which JSON cannot hold")
        elif isinstance(item, Mapping):
            pending.extend(_members(path, item))
        elif isinstance(item, list | tuple):
            pending.extend((f"{path}[{place}]", part) for place, part in enumerate(item))
        elif item is not None and not isinstance(cast("object", item), int):
            raise NotJson(f"{path} is a {type(item).__name__}, which JSON does not know")


def _members(path: str, item: Mapping[str, JsonValue]) -> Iterable[tuple[str, JsonValue]]:
    for key, part in item.items():
        _refuse_surrogates(path, key)
        yield f"{path}.{key}", part


def _refuse_surrogates(path: str, text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotJson(f"{path} holds half a surrogate pair at character {error.start}") from None
