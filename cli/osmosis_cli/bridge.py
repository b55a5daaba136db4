"""The group `osmosis bridge`: names of commands only, so that `serve` starts without the runner and without rich."""

from __future__ import annotations

from typing import ClassVar

import click

from osmosis_cli.lazy import Deferred, LazyGroup


class BridgeCommands(LazyGroup):
    """The commands below `osmosis bridge`."""

    deferred: ClassVar = {
        "serve": Deferred("osmosis_bridge.__main__:serve", "Serve the proxy until it is stopped."),
        "explain": Deferred(
            "osmosis_cli.explain:explain", "Show what would become of each field of a request."
        ),
        "bearer": Deferred("osmosis_cli.bearer:bearer", "Print the bearer that is good for one rollout."),
        "conformance": Deferred(
            "osmosis_cli.conformance:conformance",
            "Try a bridge with good and broken replies and report what it does.",
        ),
    }


@click.group("bridge", cls=BridgeCommands)
def bridge_group() -> None:
    """The OpenAI-compatible proxy that agents call."""
