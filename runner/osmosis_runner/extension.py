"""Whether what is asked for now only adds to a run: more attempts a row, more rows behind those it has. Pure.

Items are told apart by the position of their row among the selected ones, so a row may be added only behind the last.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from osmosis_runner.errors import SelectionError
from osmosis_runner.jsontext import JsonObject, JsonValue
from osmosis_runner.selection import Selection, parse_rows


class Extension(msgspec.Struct, frozen=True):
    """What is added to a run."""

    rows_before: int
    """Selected rows that the run had."""
    attempts_before: int
    """Attempts a row that it had."""
    selected_before: str
    """`selected_source_rows` as it was."""

    def to_json(self, at: str) -> JsonObject:
        """What the manifest tells of it; `at` is ISO 8601."""
        return {"at": at, "n": self.attempts_before, "selected_source_rows": self.selected_before}


def extension_of(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> Extension | None:
    """What `new` inputs add to `old` ones in attempts and rows, whatever else differs; None when they add nothing."""
    attempts, wanted = _whole(old.get("n")), _whole(new.get("n"))
    before, now = _selection(old), _selection(new)
    if attempts is None or wanted is None or before is None or now is None:
        return None
    same = wanted == attempts and now == before
    if same or wanted < attempts or not begins_with(now, before):
        return None
    return Extension(len(before), attempts, before.compact())


def widened(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> JsonObject:
    """The old inputs with the new attempts and rows in their place: what the rest is compared with."""
    dataset = old.get("dataset")
    asked = new.get("dataset")
    rows: JsonObject = dict(dataset) if isinstance(dataset, Mapping) else {}
    if isinstance(asked, Mapping):
        rows["selected_source_rows"] = asked.get("selected_source_rows")
    return {**old, "n": new.get("n"), "dataset": rows}


def begins_with(selection: Selection, start: Selection) -> bool:
    """Whether the first rows of a selection are exactly those of `start`."""
    end = start.last + 1
    head = tuple((first, min(stop, end)) for first, stop in selection.ranges if first < end)
    return head == start.ranges


def _selection(inputs: Mapping[str, JsonValue]) -> Selection | None:
    dataset = inputs.get("dataset")
    text = dataset.get("selected_source_rows") if isinstance(dataset, Mapping) else None
    try:
        return parse_rows(text) if isinstance(text, str) else None
    except SelectionError:
        return None


def _whole(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
