"""Results and plans drawn with rich, as text for the stream they are meant for.

It knows rich and the shapes of `output.py`; it prints nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from osmosis_cli.output import (
    DetailResult,
    Format,
    ListResult,
    NextStep,
    OperationResult,
    Result,
    Section,
    one_line,
)
from osmosis_cli.render import Output

UNBOUNDED = 200
"""Columns of a stream that is no terminal: wide enough that paths and messages keep to one line."""


def console_on(stream: TextIO) -> Console:
    """A rich console that writes to `stream` and fits it."""
    return Console(
        file=stream,
        width=None if stream.isatty() else UNBOUNDED,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def show(out: Output, result: Result) -> int:
    """Write `result` in the format of `out`; returns its exit code."""
    return out.show(result, draw(result, out.stdout) if out.format is Format.RICH else "")


def draw(result: Result, stream: TextIO) -> str:
    """`result` as tables and lines, coloured where `stream` is a terminal that can."""
    match result:
        case ListResult():
            parts: list[RenderableType] = [listing(result) if result.rows else Text(result.empty)]
        case DetailResult():
            parts = [facts(result.title, result.rows), *_tail(result.sections, result.next_steps)]
        case OperationResult():
            table = [facts(result.title, result.rows)] if result.rows else []
            sections = [_section(section) for section in result.sections]
            parts = [*sections, *table, Text(one_line(result.message)), *_tail((), result.next_steps)]
    return rendered(parts, stream)


def rendered(parts: Iterable[RenderableType], stream: TextIO) -> str:
    """What rich would write to `stream` for `parts`, one below the other."""
    console = console_on(stream)
    with console.capture() as capture:
        for part in parts:
            # A line is left to the terminal to wrap, so that a command or a path can be copied whole.
            console.print(part, soft_wrap=isinstance(part, Text))
    return capture.get()


def facts(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """A table of label and value."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(Text(label), Text(one_line(value)))
    return table


def listing(result: ListResult) -> Table:
    """A table with one line a thing."""
    table = Table(title=result.title, title_justify="left", title_style="bold")
    for column in result.columns:
        table.add_column(Text(column), overflow="fold")
    for row in result.rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table


def _section(section: Section) -> Text:
    text = Text(section.title, style="bold")
    for line in section.lines:
        text.append(f"\n  {one_line(line)}", style="not bold")
    return text


def _tail(sections: Iterable[Section], steps: Iterable[NextStep]) -> list[RenderableType]:
    parts: list[RenderableType] = [_section(section) for section in sections]
    return parts + [Text.assemble(f"{step.label}: ", (step.command, "bold")) for step in steps]
