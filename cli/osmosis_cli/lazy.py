"""Commands that are imported only when they are used, so that starting the bridge never pays for the runner or rich.

`load` is the one place that imports by a dotted name. This file knows nothing of any particular command.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import ClassVar, cast

import click
import msgspec

from osmosis_cli.invocation import Invocation

SIMILAR = 0.5


class Deferred(msgspec.Struct, frozen=True):
    """A command not yet imported: `target` is `module:attribute`, `summary` its line in the list of commands."""

    target: str
    summary: str


def load(target: str) -> object:
    """The attribute that `module:attribute` names; the attribute may be dotted."""
    module, _, attribute = target.partition(":")
    found: object = importlib.import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    return found


class LazyGroup(click.Group):
    """A group of `Deferred` commands; it notes the commands reached in the `Invocation` and suggests a close name."""

    deferred: ClassVar[Mapping[str, Deferred]] = {}
    """Commands by name, in the order they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order they were given."""
        return [*self.deferred, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now when it is deferred."""
        if cmd_name not in self.deferred:
            return super().get_command(ctx, cmd_name)
        return cast("click.Command", load(self.deferred[cmd_name].target))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands for `--help`, written without importing any of them."""
        rows = [(name, command.summary) for name, command in self.deferred.items()]
        rows += [(name, command.get_short_help_str()) for name, command in self.commands.items()]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` begin with; raises a usage error with the closest name when there is none."""
        name = args[0]
        invocation = ctx.find_object(Invocation)
        if invocation is not None:
            invocation.reached.append(name)
        if self.get_command(ctx, name) is None:
            raise click.UsageError(self._unknown(ctx, name), ctx=ctx)
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: click.Context, name: str) -> str:
        # What is said with every usage error names --help.
        if name == "help":
            return "There is no command 'help'."
        known = self.list_commands(ctx)
        close = difflib.get_close_matches(name, known, n=1, cutoff=SIMILAR)
        advice = f"Did you mean '{close[0]}'?" if close else f"Commands: {', '.join(known)}."
        return f"No such command {name!r}. {advice}"
