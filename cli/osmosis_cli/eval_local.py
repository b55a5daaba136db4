"""`osmosis eval list` and `repair`: runs on this machine, read from their directories.

It knows what to say of a stored run; what its files mean is in `stored.py` and in the runner.
"""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click

from osmosis_cli import tables
from osmosis_cli.figures import UNKNOWN, counted, percent
from osmosis_cli.flags import FILE
from osmosis_cli.invocation import Invocation
from osmosis_cli.measures import none_succeeded, number
from osmosis_cli.output import Json, ListResult, OperationResult
from osmosis_cli.refusals import refusals
from osmosis_cli.stored import (
    StoredRun,
    read_run,
    remake_metrics,
)
from osmosis_cli.workspace import find_run, find_workspace, output_root, runs_of
from osmosis_runner.lock import Owner, RunLock
from osmosis_runner.repair import repair

OUTPUT = click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="DIR",
    help="Folder that holds run directories, otherwise .osmosis/evals of the workspace.",
)
LISTED = 50
COLUMNS = ("Name", "Status", "Rollout", "Model", "Items", "Pass Rate", "Created")


@click.command("list")
@OUTPUT
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=LISTED,
    show_default=True,
    metavar="N",
    help="Runs to list at most; 0 lists all.",
)
@click.pass_obj
def list_command(invocation: Invocation, output: Path | None, limit: int) -> int:
    """List the runs of this workspace, the newest first."""
    root = output_root(invocation.cwd if output else find_workspace(invocation.cwd), output, invocation.cwd)
    with refusals():
        every = sorted((read_run(path) for path in runs_of(root)), key=_created, reverse=True)
    runs = every[:limit] if limit else every
    more = len(every) - len(runs)
    result = ListResult(
        title="Runs",
        columns=COLUMNS,
        rows=tuple(_list_row(run, _created(run)[0] or UNKNOWN) for run in runs),
        shown=tuple(_list_row(run, _moment(_created(run)[0])) for run in runs),
        droppable=("Rollout", "Model", "Created", "Items", "Status", "Pass Rate"),
        items=tuple(run_fields(run) for run in runs),
        extra={
            "output_root": str(root),
            "total_count": len(every),
            "has_more": more > 0,
        },
        empty=f"There are no runs in {root}.",
    )
    code = tables.show(invocation.out, result)
    if more:
        invocation.out.note(f"and {more:,} more (--limit 0 lists all)")
    return code


@click.command("repair")
@click.argument("run")
@OUTPUT
@click.pass_obj
def repair_command(invocation: Invocation, run: str, output: Path | None) -> int:
    """Repair the journal of RUN, keeping every good line and the damaged file beside it.

    Items whose line was lost are pending again: running the same command with --name does them anew. The figures
    are made anew from what is kept.
    """
    path = find_run(run, invocation.cwd, output)
    owner = Owner(os.getpid(), socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds"))
    with refusals(), RunLock.acquire(path.parent, path.name, owner):
        done = repair(path / "events.jsonl")
        whole = done.backup is None
        if not whole:
            remake_metrics(read_run(path))
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


def _created(run: StoredRun) -> tuple[str, str]:
    return (run.manifest.created_at if run.manifest else "", run.name)


def _moment(created_at: str) -> str:
    """An ISO 8601 time to the minute, as people read it; what is none stands as it is."""
    try:
        return datetime.fromisoformat(created_at).astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")
    except ValueError:
        return created_at or UNKNOWN


def _list_row(run: StoredRun, created: str) -> tuple[str, ...]:
    measured = number(run.summary, "completed_samples") and not none_succeeded(run.summary)
    done = int(number(run.summary, "total_samples") or 0)
    return (
        run.name,
        run.status,
        run.text("rollout", "name") or UNKNOWN,
        run.text("model_path") or UNKNOWN,
        f"{done:,}/{run.total_items:,}",
        percent(number(run.summary, "pass_rate") if measured else None),
        created,
    )


def run_fields(run: StoredRun) -> dict[str, Json]:
    """One run for programs."""
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
