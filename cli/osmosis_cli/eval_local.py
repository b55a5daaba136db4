"""`osmosis eval list`, `show` and `repair`: runs on this machine, read from their directories.

It knows what to say of a stored run; what its files mean is in `stored.py` and in the runner.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click
import msgspec

from osmosis_cli import tables
from osmosis_cli.figures import UNKNOWN, counted, duration, percent
from osmosis_cli.flags import FILE
from osmosis_cli.invocation import Invocation
from osmosis_cli.measures import measure_rows, number
from osmosis_cli.output import DetailResult, Json, ListResult, OperationResult, Section
from osmosis_cli.refusals import refusals
from osmosis_cli.stored import (
    StoredRun,
    current_summary,
    item_line,
    prompts_of,
    read_journal,
    read_run,
)
from osmosis_cli.workspace import find_run, find_workspace, output_root, runs_of
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.lock import Owner, RunLock
from osmosis_runner.repair import repair
from osmosis_runner.replay import Replay

OUTPUT = click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="DIR",
    help="Folder that holds run directories, otherwise .osmosis/evals of the workspace.",
)
LISTED = 20
COLUMNS = ("Name", "Status", "Rollout", "Model", "Items", "Pass Rate", "Created")


@click.command("list")
@OUTPUT
@click.pass_obj
def list_command(invocation: Invocation, output: Path | None) -> int:
    """List the runs of this workspace, the newest first."""
    root = output_root(invocation.cwd if output else find_workspace(invocation.cwd), output, invocation.cwd)
    with refusals():
        runs = sorted((read_run(path) for path in runs_of(root)), key=_created, reverse=True)
    result = ListResult(
        title="Runs",
        columns=COLUMNS,
        rows=tuple(_list_row(run) for run in runs),
        items=tuple(_list_item(run) for run in runs),
        extra={"output_root": str(root)},
        empty=f"There are no runs in {root}.",
    )
    return tables.show(invocation.out, result)


@click.command("show")
@click.argument("run")
@OUTPUT
@click.option(
    "--status",
    type=click.Choice(["success", "failed", "skipped"]),
    help="Items of this status only.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=LISTED,
    show_default=True,
    metavar="N",
    help="Items to list at most; 0 lists all.",
)
@click.pass_obj
def show_command(
    invocation: Invocation, run: str, output: Path | None, status: str | None, limit: int
) -> int:
    """Show what RUN has come to: its figures, then its items.

    RUN is the name of a run or the path of its directory. Works on finished, stopped and running runs alike.
    """
    with refusals():
        stored = read_run(find_run(run, invocation.cwd, output))
        journal = read_journal(stored)
        result = _detail(stored, journal, status, limit)
    return tables.show(invocation.out, result)


@click.command("repair")
@click.argument("run")
@OUTPUT
@click.pass_obj
def repair_command(invocation: Invocation, run: str, output: Path | None) -> int:
    """Repair the journal of RUN, keeping every good line and the damaged file beside it.

    Items whose line was lost are pending again: running the same command with --name does them anew.
    """
    path = find_run(run, invocation.cwd, output)
    owner = Owner(os.getpid(), socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds"))
    with refusals(), RunLock.acquire(path.parent, path.name, owner):
        done = repair(path / "events.jsonl")
    whole = done.backup is None
    result = OperationResult(
        operation="eval.repair",
        status="unchanged" if whole else "repaired",
        message=f"The journal of {path.name!r} is whole; nothing was changed."
        if whole
        else f"Repaired the journal of {path.name!r}: {counted(done.kept, 'line')} kept, "
        f"{len(done.dropped):,} dropped. The damaged file is kept: {done.backup}",
        resource={
            "run_name": path.name,
            "output_path": str(path),
            "kept": done.kept,
            "dropped_lines": list(done.dropped),
            "backup": str(done.backup) if done.backup else None,
        },
    )
    return tables.show(invocation.out, result)


def _detail(run: StoredRun, journal: Replay, status: str | None, limit: int) -> DetailResult:
    records = sorted(journal.latest.values(), key=lambda record: record.item)
    chosen = [record for record in records if status in (None, record.status)]
    listed = chosen[:limit] if limit else chosen
    summary = current_summary(run)
    data: dict[str, Json] = {
        **_list_item(run),
        "recorded": len(records),
        "pending": max(run.total_items - len(records), 0),
        "inputs": cast("Json", run.manifest.inputs if run.manifest else {}),
        "metrics": cast("Json", summary),
        "items": [cast("Json", msgspec.to_builtins(record)) for record in listed],
        "total_count": len(chosen),
        "has_more": len(listed) < len(chosen),
    }
    return DetailResult(
        title=f"Run {run.name}",
        rows=tuple(_detail_rows(run, records, measure_rows(summary))),
        sections=_items_section(run, listed, len(chosen), status),
        data=data,
    )


def _detail_rows(
    run: StoredRun, records: Sequence[JournalRecord], measures: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    owner = f" by process {run.owner.pid} on {run.owner.host} since {run.owner.since}" if run.owner else ""
    active = number(run.metrics, "eval_run", "duration_ms")
    rows = [
        ("Name", run.name),
        ("Status", f"{run.status}{owner}"),
        ("Damage", run.damage),
        ("Rollout", run.text("rollout", "name")),
        ("Model", run.text("model_path")),
        ("Work Items", _items_text(run, records)),
        *measures,
        ("Created", run.manifest.created_at if run.manifest else ""),
        ("Active Time", duration(active / 1000) if active is not None else ""),
        ("Output", str(run.directory.path)),
    ]
    return [(label, text) for label, text in rows if text]


def _items_text(run: StoredRun, records: Sequence[JournalRecord]) -> str:
    counts = Counter(record.status for record in records)
    done = f"{len(records):,}/{run.total_items:,} complete"
    told = [done, f"{counts['success']:,} ok", f"{counts['failed']:,} failed"]
    if counts["skipped"]:
        told.append(f"{counts['skipped']:,} skipped")
    return " · ".join(told)


def _items_section(
    run: StoredRun, listed: Sequence[JournalRecord], total: int, status: str | None
) -> tuple[Section, ...]:
    if not listed:
        return ()
    prompts = prompts_of(run, {record.row_index for record in listed})
    lines = [item_line(record, prompts.get(record.row_index, "")) for record in listed]
    if len(listed) < total:
        lines.append(f"and {total - len(listed):,} more (--limit 0 lists all)")
    return (Section(f"Items ({status})" if status else "Items", tuple(lines)),)


def _created(run: StoredRun) -> tuple[str, str]:
    return (run.manifest.created_at if run.manifest else "", run.name)


def _list_row(run: StoredRun) -> tuple[str, ...]:
    scored = number(run.summary, "completed_samples")
    done = int(number(run.summary, "total_samples") or 0)
    return (
        run.name,
        run.status,
        run.text("rollout", "name") or UNKNOWN,
        run.text("model_path") or UNKNOWN,
        f"{done:,}/{run.total_items:,}",
        percent(number(run.summary, "pass_rate") if scored else None),
        run.manifest.created_at if run.manifest else UNKNOWN,
    )


def _list_item(run: StoredRun) -> dict[str, Json]:
    return {
        "name": run.name,
        "status": run.status,
        "local_run_id": run.manifest.local_run_id if run.manifest else None,
        "created_at": run.manifest.created_at if run.manifest else None,
        "rollout": run.text("rollout", "name") or None,
        "model": run.text("model_path") or None,
        "total_work_items": run.total_items,
        "summary": cast("Json", run.summary),
        "damage": run.damage or None,
        "output_path": str(run.directory.path),
    }
