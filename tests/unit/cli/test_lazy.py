"""Commands imported when they are used."""

from __future__ import annotations

import sys
from typing import ClassVar

import click
import pytest

from osmosis_cli.lazy import Deferred, LazyGroup, load


class Commands(LazyGroup):
    deferred: ClassVar = {
        "list": Deferred("osmosis_cli.eval:eval_group", "List things."),
        "absent": Deferred("no_such_module_anywhere:command", "Never imported by help."),
    }


GROUP = Commands("things", no_args_is_help=False)


def test_an_attribute_is_loaded_by_its_dotted_name() -> None:
    assert load("osmosis_cli.output:Format.JSON") == "json"


def test_help_lists_commands_in_order_without_importing_them() -> None:
    with click.Context(GROUP, info_name="things") as ctx:
        text = GROUP.get_help(ctx)
    assert text.index("List things.") < text.index("Never imported by help.")
    assert "no_such_module_anywhere" not in sys.modules


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("lisst", "No such command 'lisst'. Did you mean 'list'?"),
        ("zzz", "No such command 'zzz'. Commands: list, absent."),
        ("help", "There is no command 'help'."),
    ],
)
def test_an_unknown_command_gets_the_closest_name(typed: str, said: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        GROUP.main([typed], prog_name="things", standalone_mode=False)
    assert caught.value.format_message() == said
