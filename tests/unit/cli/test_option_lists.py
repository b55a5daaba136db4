"""Options as a list."""

from __future__ import annotations

import click

from osmosis_cli.option_lists import with_options


def test_options_are_listed_in_their_order() -> None:
    @click.command()
    @with_options((click.argument("one"), click.option("--two"), click.option("--three")))
    def command(**_: str) -> None:
        """Nothing."""

    assert [parameter.name for parameter in command.params] == ["one", "two", "three"]
