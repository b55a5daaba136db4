"""From the columns of one row to prompt messages, label and metadata: the rules every format shares.

Empty text and null are absent. `system_prompt`, `user_prompt` and the label are strings; a number or a boolean is taken
as its JSON text exactly (`4.0` stays `4.0`, true is `true`), anything else is refused. `metadata` is an object, or its
JSON text. `messages` (a list of chat messages) may stand in place of the two prompts. Pure.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from osmosis_runner.dataset_problems import Place, Problems, Unreadable, shown
from osmosis_runner.json_lines import parse_object, parse_value
from osmosis_runner.jsontext import JsonObject, JsonValue
from osmosis_runner.row_store import RowStore

COLUMNS = ("system_prompt", "user_prompt", "messages", "ground_truth", "label", "metadata")
"""Every column that a rule reads; others are allowed and ignored."""

DEEPEST = 100
_SMALLEST_INT, _LARGEST_INT = -(2**63), 2**64 - 1
_IGNORED_LISTED = 50
_LIKENESS = 0.6
_TEXTS_KEPT = 1_000


class RowRules:
    """Judges rows one by one: keeps the good ones in `store`, notes what is wrong with the others."""

    def __init__(self, store: RowStore, problems: Problems) -> None:
        self._store = store
        self._problems = problems
        self._ignored: dict[str, None] = {}
        self._seen_columns: set[tuple[str, ...]] = set()
        self._missing_told: dict[tuple[str, tuple[str, ...]], tuple[str, str]] = {}

    @property
    def ignored_columns(self) -> tuple[str, ...]:
        """Columns met that no rule reads, in order of appearance; bounded."""
        return tuple(self._ignored)

    @property
    def column_sets(self) -> int:
        """How many different sets of columns were met; bounded."""
        return len({frozenset(names) for names in self._seen_columns})

    def judge(self, place: Place, columns: Mapping[str, object], text_of: Callable[[str], str]) -> None:
        """Keep the row or note its problems; `text_of(column)` gives a number's or boolean's JSON text."""
        names = tuple(columns)
        if names not in self._seen_columns:
            self._meet_columns(place, names)
        reader = _RowReader(place, columns, text_of, self._problems, self._missing_words)
        kept = reader.read()
        if kept is not None and place.row is not None:
            messages, label, metadata = kept
            self._store.add(place.row, messages, label, metadata)

    def _missing_words(self, column: str, names: tuple[str, ...]) -> tuple[str, str]:
        """What `missing_column` says, found once for rows of the same columns."""
        words = self._missing_told.get((column, names))
        if words is None:
            words = missing_column(column, names)
            if len(self._missing_told) < _TEXTS_KEPT:
                self._missing_told[column, names] = words
        return words

    def _meet_columns(self, place: Place, names: tuple[str, ...]) -> None:
        if len(self._seen_columns) < 1_000:
            self._seen_columns.add(names)
        for name in names:
            if name not in COLUMNS and len(self._ignored) < _IGNORED_LISTED:
                self._ignored.setdefault(name)
        for problem in misspelt_columns(names):
            self._problems.add_unreadable(place, problem)


def misspelt_columns(names: Sequence[str]) -> list[Unreadable]:
    """Return a problem for each name that differs from a known column by case or spaces only."""
    return [
        Unreadable(f"the column is called {shown(name)}", f"call it {tidy!r}, exactly", name)
        for name in names
        if (tidy := name.strip().lower().replace(" ", "_").replace("-", "_")) in COLUMNS
        and name != tidy
        and tidy not in names
    ]


def missing_column(column: str, names: Iterable[str]) -> tuple[str, str]:
    """Return what was found in place of a required column and what to do."""
    present = [name for name in names if name]
    close = difflib.get_close_matches(column, [name for name in present if name not in COLUMNS], 1, _LIKENESS)
    fix = f"rename {close[0]!r} to {column!r}" if close else f"add {column!r}, or 'metadata' with an object"
    return f"there is no {column!r}; columns are {_listed(present)}", fix


class _RowReader:
    def __init__(
        self,
        place: Place,
        columns: Mapping[str, object],
        text_of: Callable[[str], str],
        problems: Problems,
        missing_words: Callable[[str, tuple[str, ...]], tuple[str, str]],
    ) -> None:
        self._missing_words = missing_words
        self._place = place
        self._columns = columns
        self._text_of = text_of
        self._problems = problems
        self._failed = False

    def read(self) -> tuple[list[JsonObject], str | None, JsonObject | None] | None:
        """Return messages, label and metadata; None after noting what is wrong."""
        metadata = self._metadata()
        label = self._label()
        messages = self._messages(self._text("system_prompt"), self._text("user_prompt"))
        if not self._failed and not messages and metadata is None and "metadata" in self._columns:
            self._problem("metadata", "the row has neither a prompt nor metadata", "give it one of them")
        return None if self._failed else (messages, label, metadata)

    def _problem(self, column: str | None, found: str, fix: str) -> None:
        self._failed = True
        self._problems.add(self._place, column, found, fix)

    def _failed_column(self, column: str) -> bool:
        value = self._columns.get(column)
        return isinstance(value, dict | list)

    def _text(self, column: str) -> str | None:
        value = self._columns.get(column)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            return value
        if isinstance(value, int | float):
            return self._number_text(column, value)
        fix = "write one string"
        if column in {"ground_truth", "label"}:
            fix = "write one string (JSON text in a string is kept as it is), or use 'metadata'"
        self._problem(column, f"{_kind(value)} where a string belongs: {shown(value)}", fix)
        return None

    def _number_text(self, column: str, value: float) -> str | None:
        if isinstance(value, float) and not math.isfinite(value):
            self._problem(column, f"{value}, which JSON cannot hold", "write a string or leave it out")
            return None
        return self._text_of(column)

    def _label(self) -> str | None:
        truth, alias = self._text("ground_truth"), self._text("label")
        if truth is not None and alias is not None and truth != alias:
            found = f"'ground_truth' is {shown(truth)} but 'label' is {shown(alias)}"
            self._problem("label", found, "keep one of the two columns")
        label = alias if truth is None else truth
        wrong_kind = self._failed_column("ground_truth") or self._failed_column("label")
        if label is None and not wrong_kind and "metadata" not in self._columns:
            self._missing("ground_truth", ("ground_truth", "label"))
        return label

    def _missing(self, column: str, present: Sequence[str]) -> None:
        empty = next((name for name in present if name in self._columns), None)
        if empty is None:
            self._problem(column, *self._missing_words(column, tuple(self._columns)))
            return
        value = self._columns[empty]
        found = "is null" if value is None else "is empty"
        self._problem(empty, f"{empty!r} {found}", "give it a value, or give the row a 'metadata' object")

    def _messages(self, system: str | None, user: str | None) -> list[JsonObject]:
        given = self._chat_messages()
        if given and (system is not None or user is not None):
            other = "user_prompt" if user is not None else "system_prompt"
            self._problem("messages", f"{other!r} stands beside 'messages'", "keep one of the two")
        if given:
            return given
        wrong_kind = self._failed_column("user_prompt") or bool(self._columns.get("messages"))
        if user is None and not wrong_kind and "metadata" not in self._columns:
            self._missing("user_prompt", ("messages", "user_prompt"))
        prompts = (("system", system), ("user", user))
        return [{"role": role, "content": text} for role, text in prompts if text is not None]

    def _chat_messages(self) -> list[JsonObject]:
        value = self._columns.get("messages")
        if value is None or value == "":
            return []
        try:
            return chat_messages(parse_value(value) if isinstance(value, str) else value)
        except Unreadable as problem:
            self._problem(_inside("messages", problem), problem.found, problem.fix)
            return []

    def _metadata(self) -> JsonObject | None:
        value = self._columns.get("metadata")
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        try:
            if isinstance(value, str):
                value = parse_object(value)
            if not isinstance(value, dict):
                raise Unreadable(
                    f"{_kind(value)} where an object belongs: {shown(value)}", "write a JSON object"
                )
            ready = cast("JsonObject", json_ready(cast("object", value)))
        except Unreadable as problem:
            self._problem(_inside("metadata", problem), problem.found, problem.fix)
            return None
        return ready or None


def chat_messages(value: object) -> list[JsonObject]:
    """Return a `messages` value as chat messages. Raises `Unreadable` naming the message."""
    if not isinstance(value, list) or not cast("list[object]", value):
        raise Unreadable(
            f"{shown(cast('object', value))} where a list of messages belongs", "write [{role, content}, ...]"
        )
    messages: list[JsonObject] = []
    for place, entry in enumerate(cast("list[object]", value)):
        if not isinstance(entry, dict):
            raise Unreadable(f"{_kind(entry)} where a message belongs", "write {role, content}", f"[{place}]")
        message = cast("JsonObject", json_ready(cast("object", entry), f"[{place}]"))
        wrong = _message_problem(message)
        if wrong:
            raise Unreadable(wrong, "write a role and a content", f"[{place}]")
        messages.append(message)
    return messages


def json_ready(value: object, path: str = "", depth: int = 0) -> JsonValue:
    """Return `value` as JSON that every reader reads alike. Raises `Unreadable` with the path inside the value."""
    if value is None or isinstance(value, str | bool):
        return value
    if depth > DEEPEST:
        raise Unreadable(f"is nested more than {DEEPEST} levels deep", "flatten it", path)
    if isinstance(value, int):
        if not _SMALLEST_INT <= value <= _LARGEST_INT:
            raise Unreadable("an integer of more than 64 bits", "write it as a string", path)
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unreadable(f"{value}, which JSON cannot hold", "write null or a string", path)
        return value
    if isinstance(value, dict):
        return _object_ready(cast("Mapping[object, object]", value), path, depth)
    if isinstance(value, list):
        parts = cast("list[object]", value)
        return [json_ready(part, f"{path}[{place}]", depth + 1) for place, part in enumerate(parts)]
    raise Unreadable(f"a {type(value).__name__}, which JSON does not know", "write it as a string", path)


def _object_ready(value: Mapping[object, object], path: str, depth: int) -> JsonObject:
    ready: JsonObject = {}
    for key, part in value.items():
        if not isinstance(key, str):
            raise Unreadable(f"a key that is a {type(key).__name__}", "make every key a string", path)
        ready[key] = json_ready(part, f"{path}.{key}", depth + 1)
    return ready


def _message_problem(message: JsonObject) -> str | None:
    role = message.get("role")
    if not isinstance(role, str) or not role:
        return "the message has no 'role'" if role is None else f"the role is {shown(role)}"
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        return f"the content is {_kind(content)}, not text or a list of parts"
    if content is None and role in {"system", "developer", "user"}:
        return f"the {role} message has no 'content'"
    return None


def _inside(column: str, problem: Unreadable) -> str:
    return column + (problem.column or "")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else f"a {type(value).__name__}"


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(shown(name) for name in names[:20])
    return text + (f" and {len(names) - 20} more" if len(names) > 20 else "") if text else "none"
