"""The commands below `osmosis eval`."""

from __future__ import annotations

import click
import pytest

from osmosis_cli.eval import EvalCommands, eval_group


@pytest.mark.parametrize("name", EvalCommands.deferred)
def test_each_command_is_there_under_its_name(name: str) -> None:
    with click.Context(eval_group) as ctx:
        command = eval_group.get_command(ctx, name)
    assert command is not None
    assert command.name == name
    assert command.help
