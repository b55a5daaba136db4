"""The commands below `osmosis dataset`."""

from __future__ import annotations

import click
import pytest

from osmosis_cli.dataset import DatasetCommands, dataset_group


@pytest.mark.parametrize("name", DatasetCommands.deferred)
def test_each_command_is_there_under_its_name(name: str) -> None:
    with click.Context(dataset_group) as ctx:
        command = dataset_group.get_command(ctx, name)
    assert command is not None
    assert command.name == name
    assert command.help
