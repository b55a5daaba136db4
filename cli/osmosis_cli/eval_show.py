"""`osmosis eval show`: what a run has come to, its items, and one item in full.

It knows what is asked of a stored run; how an item reads is in `item_view.py`, what the files mean in `stored.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypedDict, Unpack, cast

import click
import msgspec

from osmosis_cli import tables
from osmosis_cli.errors import CLIError, Code
from osmosis_cli.eval_local import OUTPUT, run_fields
from osmosis_cli.figures import counted, duration, value
from osmosis_cli.invocation import Invocation
from osmosis_cli.item_view import Item, item_result
from osmosis_cli.measures import measure_rows, number
from osmosis_cli.option_lists import with_options
from osmosis_cli.output import DetailResult, Json, NextStep, Section
from osmosis_cli.refusals import refusals
from osmosis_cli.stored import (
    StoredRun,
    current_summary,
    folders_of,
    item_line,
    prompts_of,
    read_run,
    standing,
    trajectory_of,
)
from osmosis_cli.workspace import find_run
from osmosis_runner.journal import repair_command
from osmosis_runner.journal_index import JournalIndex
from osmosis_runner.journal_record import JournalRecord, Status

LISTED = 20


class ShowFlags(TypedDict):
    """What was typed after `osmosis eval show`."""

    run: str
    output: Path | None
    row: int | None
    run_index: int | None
    status: Status | None
    failed: bool
    reward_below: float | None
    limit: int


class Wanted(msgspec.Struct, frozen=True):
    """Which items are listed, and how many of them at most; 0 for all."""

    status: Status | None = None
    reward_below: float | None = None
    limit: int = LISTED

    @property
    def title(self) -> str:
        """What a list of them is called."""
        below = None if self.reward_below is None else f"reward below {value(self.reward_below)}"
        told = ", ".join(part for part in (self.status, below) if part)
        return f"Items ({told})" if told else "Items"


OPTIONS = (
    click.argument("run"),
    OUTPUT,
    click.option(
        "--row",
        type=click.IntRange(min=0),
        metavar="N",
        help="Show this row's item in full: messages, tool calls, tokens a call, reward, error and files.",
    ),
    click.option(
        "--run",
        "run_index",
        type=click.IntRange(min=0),
        metavar="K",
        show_default="0",
        help="Which attempt at --row, counted from 0, where a row runs several times.",
    ),
    click.option(
        "--status",
        type=click.Choice(["success", "failed", "skipped"]),
        help="Items of this status only.",
    ),
    click.option("--failed", is_flag=True, help="The same as --status failed."),
    click.option("--reward-below", type=float, metavar="X", help="Items with a reward under X only."),
    click.option(
        "--limit",
        type=click.IntRange(min=0),
        default=LISTED,
        show_default=True,
        metavar="N",
        help="Items to list at most; 0 lists all.",
    ),
)


@click.command("show")
@with_options(OPTIONS)
@click.pass_obj
def show_command(invocation: Invocation, **flags: Unpack[ShowFlags]) -> int:
    """Show what RUN has come to: its figures, then its items; or, with --row, one item in full.

    RUN is the name of a run or the path of its directory. Works on finished, stopped and running runs alike.
    """
    wanted = wanted_items(flags)
    stored = read_run(find_run(flags["run"], invocation.cwd, flags["output"]))
    with refusals(), JournalIndex(stored.directory.events) as journal:
        if flags["row"] is None:
            result = _detail(stored, journal, wanted, flags)
        else:
            result = _one(stored, journal, (flags["row"], flags["run_index"] or 0))
    return tables.show(invocation.out, result)


def wanted_items(flags: ShowFlags) -> Wanted:
    """The items that the flags name; raises a usage error for flags that contradict each other."""
    narrowing = {
        "--status": flags["status"] is not None,
        "--failed": flags["failed"],
        "--reward-below": flags["reward_below"] is not None,
    }
    typed = [name for name, given in narrowing.items() if given]
    if flags["row"] is None and flags["run_index"] is not None:
        raise click.UsageError("--run needs --row, the row whose attempt it is.")
    if flags["row"] is not None and typed:
        raise click.UsageError(f"--row shows one item, so there is nothing for {typed[0]} to choose from.")
    if flags["failed"] and flags["status"] not in (None, "failed"):
        raise click.UsageError(f"--failed and --status {flags['status']} exclude each other.")
    return Wanted("failed" if flags["failed"] else flags["status"], flags["reward_below"], flags["limit"])


def _one(run: StoredRun, journal: JournalIndex, place: tuple[int, int]) -> DetailResult:
    record = journal.record(place)
    if record is None:
        raise CLIError(
            f"Run {run.name!r} has no record of row {place[0]}, run {place[1]}.",
            fix=f"{_known(journal)} Without --row they are listed.",
            code=Code.NOT_FOUND,
        )
    path, trajectory = trajectory_of(run, record)
    files = (("Trajectory File", path), *folders_of(run, record)) if path else folders_of(run, record)
    prompt = "" if trajectory else prompts_of(run, {record.row_index}).get(record.row_index, "")
    return item_result(Item(run.name, record, trajectory, prompt, files))


def _known(journal: JournalIndex) -> str:
    items = journal.items()
    if not items:
        return "Nothing is recorded yet."
    return f"{counted(len(items), 'item')} of rows {items[0][0]} to {items[-1][0]} are recorded."


def _detail(run: StoredRun, journal: JournalIndex, wanted: Wanted, flags: ShowFlags) -> DetailResult:
    chosen = journal.items(wanted.status, wanted.reward_below)
    listed = [*journal.records(chosen[: wanted.limit] if wanted.limit else chosen)]
    summary = current_summary(run, journal)
    data: dict[str, Json] = {
        **run_fields(run),
        "status": standing(run, journal),
        "recorded": len(journal),
        "pending": max(run.total_items - len(journal), 0),
        "inputs": cast("Json", run.manifest.inputs if run.manifest else {}),
        "metrics": cast("Json", summary),
        "items": [cast("Json", msgspec.to_builtins(record)) for record in listed],
        "total_count": len(chosen),
        "has_more": len(listed) < len(chosen),
    }
    return DetailResult(
        title=f"Run {run.name}",
        rows=tuple(_detail_rows(run, journal, measure_rows(summary))),
        sections=_items_section(run, listed, len(chosen), wanted.title),
        next_steps=(*_repair(run), *_next_steps(listed, flags)),
        data=data,
    )


def _detail_rows(
    run: StoredRun, journal: JournalIndex, measures: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    owner = f" by process {run.owner.pid} on {run.owner.host} since {run.owner.since}" if run.owner else ""
    active = number(run.metrics, "eval_run", "duration_ms")
    rows = [
        ("Name", run.name),
        ("Status", f"{standing(run, journal)}{owner}"),
        ("Damage", run.damage),
        ("Rollout", run.text("rollout", "name")),
        ("Model", run.text("model_path")),
        ("Work Items", _items_text(run, journal)),
        *measures,
        ("Created", run.manifest.created_at if run.manifest else ""),
        ("Active Time", duration(active / 1000) if active is not None else ""),
        ("Output", str(run.directory.path)),
    ]
    return [(label, text) for label, text in rows if text]


def _items_text(run: StoredRun, journal: JournalIndex) -> str:
    counts = journal.counts()
    done = f"{len(journal):,}/{run.total_items:,} complete"
    told = [done, f"{counts['success']:,} ok", f"{counts['failed']:,} failed"]
    if counts["skipped"]:
        told.append(f"{counts['skipped']:,} skipped")
    return " · ".join(told)


def _items_section(
    run: StoredRun, listed: Sequence[JournalRecord], total: int, title: str
) -> tuple[Section, ...]:
    if not listed:
        return ()
    prompts = prompts_of(run, {record.row_index for record in listed})
    lines = [item_line(record, prompts.get(record.row_index, "")) for record in listed]
    if len(listed) < total:
        lines.append(f"and {total - len(listed):,} more (--limit 0 lists all)")
    return (Section(title, tuple(lines)),)


def _repair(run: StoredRun) -> tuple[NextStep, ...]:
    return (NextStep("Repair the journal", repair_command(run.directory.path)),) if run.torn else ()


def _next_steps(listed: Sequence[JournalRecord], flags: ShowFlags) -> tuple[NextStep, ...]:
    """How to see one of the items: the worst, which is what is looked for."""
    if not listed:
        return ()
    worst = min(listed, key=lambda record: (record.status == "success", record.reward or 0.0))
    words = ["osmosis", "eval", "show", flags["run"], "--row", str(worst.row_index)]
    words += ["--run", str(worst.run_index)] if any(record.run_index for record in listed) else []
    words += ["--output", str(flags["output"])] if flags["output"] else []
    return (NextStep("View an item", shlex.join(words)),)
