"""The group `osmosis eval`: names of commands only; each is imported when it is used."""

from __future__ import annotations

from typing import ClassVar

import click

from osmosis_cli.lazy import Deferred, LazyGroup


class EvalCommands(LazyGroup):
    """The commands below `osmosis eval`."""

    deferred: ClassVar = {
        "run": Deferred("osmosis_cli.eval_run:run_command", "Run an agent over a dataset and score it."),
        "list": Deferred("osmosis_cli.eval_local:list_command", "List the runs of this workspace."),
        "show": Deferred("osmosis_cli.eval_show:show_command", "Show what a run has come to, item by item."),
        "repair": Deferred(
            "osmosis_cli.eval_local:repair_command", "Repair the journal of a run that was damaged."
        ),
    }


@click.group("eval", cls=EvalCommands)
def eval_group() -> None:
    """Evaluate an agent over a dataset, and look at the results."""
