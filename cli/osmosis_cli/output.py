"""What a command has to say, as values, and the JSON and plain text made of them (SPEC.md a.2).

Pure: nothing here prints, and nothing here knows rich. The three shapes are an operation that was carried out,
the detail of one thing, and a list of things.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias, cast

import msgspec

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Any JSON value, read only."""

SCHEMA_VERSION = 1
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_BLANK = re.compile(r"[\t\r\n]+")


class Format(StrEnum):
    """How a command shows its result: for people, for line tools, for programs."""

    RICH = "rich"
    PLAIN = "plain"
    JSON = "json"


class Section(msgspec.Struct, frozen=True):
    """A headed block of text lines below the main table."""

    title: str
    lines: tuple[str, ...]


class NextStep(msgspec.Struct, frozen=True):
    """A command the user may type next: `label` says what it does, `command` is typed as it stands."""

    label: str
    command: str


class OperationResult(msgspec.Struct, frozen=True):
    """Something was done: `operation` is its dotted name, `rows` what a person sees, `resource` what a program gets."""

    operation: str
    status: str
    message: str
    title: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    resource: Mapping[str, Json] = msgspec.field(default_factory=dict[str, Json])
    next_steps: tuple[NextStep, ...] = ()
    exit_code: int = 0


class DetailResult(msgspec.Struct, frozen=True):
    """One thing described: `rows` are label and value for people, `data` the same and more for programs."""

    title: str
    rows: tuple[tuple[str, str], ...]
    data: Mapping[str, Json]
    sections: tuple[Section, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    exit_code: int = 0


class ListResult(msgspec.Struct, frozen=True):
    """Things listed: `rows` hold one cell per column, `items` the same things for programs."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    items: tuple[Json, ...]
    extra: Mapping[str, Json] = msgspec.field(default_factory=dict[str, Json])
    empty: str = "Nothing to list."
    exit_code: int = 0
    shown: tuple[tuple[str, ...], ...] = ()
    """`rows` as people read them, where that differs."""
    droppable: tuple[str, ...] = ()
    """Columns that a narrow screen can do without, the first one first."""


Result: TypeAlias = OperationResult | DetailResult | ListResult


def document(result: Result) -> Mapping[str, Json]:
    """The one JSON document that stands for `result` on stdout."""
    head: dict[str, Json] = {"schema_version": SCHEMA_VERSION}
    match result:
        case OperationResult():
            body: dict[str, Json] = {"status": result.status, "operation": result.operation}
            if result.resource:
                body["resource"] = result.resource
            body["message"] = result.message
            if result.next_steps:
                body["next_steps_structured"] = _steps(result.next_steps)
            return head | body
        case DetailResult():
            return head | {"data": result.data}
        case ListResult():
            total = len(result.items)
            page: dict[str, Json] = {"total_count": total, "has_more": False, "next_offset": None}
            return head | {"items": result.items} | page | dict(result.extra)


def error_document(
    command: str, version: str, error: tuple[str, str], details: Mapping[str, Json]
) -> dict[str, Json]:
    """The JSON error envelope; `error` is its code and its message, `command` the path reached without `osmosis`."""
    code, message = error
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command or "<root>",
        "cli_version": version,
        "error": {"code": code, "message": message, "details": details},
    }


def warning_document(version: str, code: str, message: str) -> dict[str, Json]:
    """The JSON warning envelope."""
    warning: dict[str, Json] = {"code": code, "message": message}
    return {"schema_version": SCHEMA_VERSION, "cli_version": version, "warning": warning}


def plain_lines(result: Result) -> list[str]:
    """The lines of `result` for line tools: no colour, no frame, one fact a line."""
    match result:
        case OperationResult():
            facts = [f"{label}: {one_line(value)}" for label, value in result.rows]
            return [one_line(result.message), *facts, *_tail(result.sections, result.next_steps)]
        case DetailResult():
            facts = [f"{label}: {one_line(value)}" for label, value in result.rows]
            return [*facts, *_tail(result.sections, result.next_steps)]
        case ListResult():
            return ["\t".join(one_line(cell) for cell in row) for row in result.rows]


def one_line(text: str) -> str:
    """`text` without tabs, line ends and control characters: it can neither break a line nor drive a terminal."""
    return _CONTROL.sub("", _BLANK.sub(" ", text))


def printable(text: str) -> str:
    """`text` with its lines and tabs kept and every other control character removed."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def encode(value: Json) -> str:
    """`value` as one line of RFC 8259 JSON in ASCII; a number that is not finite becomes null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Json) -> Json:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast("Mapping[str, Json]", value).items()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [_finite(item) for item in cast("Sequence[Json]", value)]


def _steps(steps: Iterable[NextStep]) -> list[Json]:
    return [{"label": step.label, "command": step.command} for step in steps]


def _tail(sections: Iterable[Section], steps: Iterable[NextStep]) -> list[str]:
    lines: list[str] = []
    for section in sections:
        lines += [f"{section.title}:", *(f"  {one_line(line)}" for line in section.lines)]
    return lines + [f"{step.label}: {step.command}" for step in steps]
