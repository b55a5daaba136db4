"""Results and plans drawn with rich, as text for the stream they are meant for.

It knows rich and the shapes of `output.py`; it prints nothing itself. What does not fit a narrow screen is drawn
without a frame or without columns that matter less; a name, a path or a command is never broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TextIO

import msgspec
from rich.cells import cell_len
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
from osmosis_cli.spelling import spelled, wrapped

UNBOUNDED = 200
"""Columns of a stream that is no terminal: wide enough that paths and messages keep to one line."""
FRAME, BETWEEN = 4, 3
"""Columns that a table's outer frame takes, and what stands between two of its columns."""
LEAST_VALUE = 24
"""Columns that a value wants beside its label, or the table is drawn as lines."""


class Screen(msgspec.Struct, frozen=True):
    """What text is drawn for: its width in columns, whether it is a terminal, and the encoding written there."""

    width: int
    terminal: bool = False
    encoding: str | None = None

    def text(self, line: str, style: str = "") -> Text:
        """One line of text, spelled and wrapped for this screen."""
        return Text("\n".join(self.lines(line)), style=style)

    def lines(self, line: str, indent: str = "  ") -> list[str]:
        """The lines that one line of text takes here."""
        return wrapped(self.cell(line), self.width if self.terminal else None, indent)

    def cell(self, text: str) -> str:
        """`text` on one line, spelled for this screen."""
        return spelled(one_line(text), self.encoding)


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


def screen_of(stream: TextIO) -> Screen:
    """What `stream` can show."""
    return Screen(console_on(stream).width, stream.isatty(), stream.encoding)


def show(out: Output, result: Result) -> int:
    """Write `result` in the format of `out`; returns its exit code."""
    return out.show(result, draw(result, out.stdout) if out.format is Format.RICH else "")


def show_facts(out: Output, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Write a table of facts for people."""
    out.say_drawn(rendered([facts(title, rows, screen_of(out.stdout))], out.stdout))


def draw(result: Result, stream: TextIO) -> str:
    """`result` as tables and lines, coloured where `stream` is a terminal that can."""
    return rendered(parts_of(result, screen_of(stream)), stream)


def parts_of(result: Result, screen: Screen) -> list[RenderableType]:
    """What `result` is drawn as, one below the other."""
    match result:
        case ListResult():
            return listing(result, screen) if result.rows else [screen.text(result.empty)]
        case DetailResult():
            head = facts(result.title, result.rows, screen)
            return [head, *_tail(result.sections, result.next_steps, screen)]
        case OperationResult():
            table = [facts(result.title, result.rows, screen)] if result.rows else []
            sections = [_section(section, screen) for section in result.sections]
            return [*sections, *table, screen.text(result.message), *_tail((), result.next_steps, screen)]


def rendered(parts: Iterable[RenderableType], stream: TextIO) -> str:
    """What rich would write to `stream` for `parts`, one below the other."""
    console = console_on(stream)
    with console.capture() as capture:
        for part in parts:
            # A line is left to the terminal to wrap, so that a command or a path can be copied whole.
            console.print(part, soft_wrap=isinstance(part, Text))
    return capture.get()


def facts(title: str, rows: Iterable[tuple[str, str]], screen: Screen) -> Table | Text:
    """A table of label and value; lines where a word of a value would not fit beside its label."""
    cells = [(screen.cell(label), screen.cell(value)) for label, value in rows]
    labels = max((cell_len(label) for label, _ in cells), default=0)
    longest = max((cell_len(word) for _, value in cells for word in value.split()), default=0)
    room = screen.width - labels - FRAME - BETWEEN
    if room < max(longest, LEAST_VALUE):
        lines = [line for label, value in cells for line in screen.lines(f"{label}: {value}")]
        return Text.assemble((screen.cell(title), "bold"), *(f"\n{line}" for line in lines))
    table = Table(title=screen.cell(title), title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in cells:
        table.add_row(Text(label), Text(value))
    return table


def listing(result: ListResult, screen: Screen) -> list[RenderableType]:
    """A table with one line a thing; columns that find no room are left out, and their names told below it."""
    rows = [[screen.cell(cell) for cell in row] for row in result.shown or result.rows]
    kept = _fitting(result, rows, screen.width)
    if kept is None:
        lines = [" ".join(row) for row in rows]
        return [Text(screen.cell(result.title), style="bold"), Text("\n".join(lines))]
    table = Table(title=screen.cell(result.title), title_justify="left", title_style="bold")
    for index in kept:
        table.add_column(Text(result.columns[index]), no_wrap=True)
    for row in rows:
        table.add_row(*(Text(row[index]) for index in kept))
    missing = [name for index, name in enumerate(result.columns) if index not in kept]
    if not missing:
        return [table]
    return [table, screen.text(f"No room for {', '.join(missing)}; --plain shows all.", "dim")]


def _fitting(result: ListResult, rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """The columns that fit side by side, by index; None where even those that must stand do not."""
    kept = list(range(len(result.columns)))
    widths = [
        max(cell_len(cell) for cell in (name, *(row[index] for row in rows)))
        for index, name in enumerate(result.columns)
    ]
    for name in (*result.droppable, None):
        if sum(widths[index] for index in kept) + FRAME + BETWEEN * (len(kept) - 1) <= width:
            return kept
        if name is not None:
            kept.remove(result.columns.index(name))
    return None


def _section(section: Section, screen: Screen) -> Text:
    text = Text(screen.cell(section.title), style="bold")
    for line in section.lines:
        for part in screen.lines(f"  {line}", "    "):
            text.append(f"\n{part}", style="not bold")
    return text


def _tail(sections: Iterable[Section], steps: Iterable[NextStep], screen: Screen) -> list[RenderableType]:
    parts: list[RenderableType] = [_section(section, screen) for section in sections]
    return parts + [
        Text.assemble(f"{screen.cell(step.label)}: ", (screen.cell(step.command), "bold")) for step in steps
    ]
