"""The commands below `osmosis bridge`."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from osmosis_cli.bridge import BridgeCommands, bridge_group


@pytest.mark.parametrize("name", BridgeCommands.deferred)
def test_each_command_is_there_under_its_name(name: str) -> None:
    with click.Context(bridge_group) as ctx:
        command = bridge_group.get_command(ctx, name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_serving_imports_neither_the_runner_nor_what_draws_tables() -> None:
    program = (
        "import sys; from osmosis_cli.main import run; "
        "code = run(['bridge', 'serve', '--help'], {}, (sys.stdin, sys.stdout, sys.stderr)); "
        "heavy = ('osmosis_runner', 'osmosis_cli.tables', 'rich.progress', 'litellm'); "
        "heavy = [name for name in heavy if name in sys.modules]; "
        "print(code, heavy, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == "0 []\n"
    assert "Usage: osmosis bridge serve" in done.stdout
