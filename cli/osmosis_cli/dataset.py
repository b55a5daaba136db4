"""The group `osmosis dataset`: names of commands only; each is imported when it is used."""

from __future__ import annotations

from typing import ClassVar

import click

from osmosis_cli.lazy import Deferred, LazyGroup


class DatasetCommands(LazyGroup):
    """The commands below `osmosis dataset`."""

    deferred: ClassVar = {
        "validate": Deferred(
            "osmosis_cli.dataset_validate:validate_command",
            "Say what is wrong with a dataset, or that it is in order.",
        ),
    }


@click.group("dataset", cls=DatasetCommands)
def dataset_group() -> None:
    """Check a file of rows before it is used."""
