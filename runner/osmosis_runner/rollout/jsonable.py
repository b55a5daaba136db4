"""Values of unknown code made fit for JSON. Pure.

What has no place in JSON is turned into the nearest thing that has (numbers of other libraries, tuples), and
left out where there is none: a measurement must not cost a rollout its reward.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, cast

_LEFT_OUT = object()
_MAX_DEPTH = 100


def json_ready(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """The value with everything JSON cannot say left out; None when nothing is left."""
    fitted = _fit(value, 0)
    return None if fitted is _LEFT_OUT else fitted


def _fit(value: object, depth: int) -> object:
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is str:
        return _text(cast("str", value))
    if kind is float:
        return value if math.isfinite(cast("float", value)) else _LEFT_OUT
    if depth >= _MAX_DEPTH:
        return _LEFT_OUT
    if isinstance(value, Mapping):
        return _fit_mapping(cast("Mapping[object, object]", value), depth)
    if isinstance(value, (list, tuple)):
        items = [_fit(item, depth + 1) for item in cast("list[object]", value)]
        return [item for item in items if item is not _LEFT_OUT]
    return _fit_foreign(value, depth)


def _fit_mapping(value: Mapping[object, object], depth: int) -> dict[str, object]:
    fitted: dict[str, object] = {}
    for key, item in value.items():
        name = key if isinstance(key, str) else _number_key(key)
        if name is None:
            continue
        kept = _fit(item, depth + 1)
        if kept is not _LEFT_OUT:
            fitted[_text(name)] = kept
    return fitted


def _number_key(key: object) -> str | None:
    return str(key) if isinstance(key, numbers.Real) and key is not True and key is not False else None


def _fit_foreign(value: object, depth: int) -> object:
    if isinstance(value, str):
        return _text(str(value))
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else _LEFT_OUT
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _fit(dump(mode="json"), depth + 1)
    return _LEFT_OUT


def _text(text: str) -> str:
    """The text, with lone surrogates (which UTF-8 cannot carry) replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
