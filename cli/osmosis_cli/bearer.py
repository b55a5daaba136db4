"""`osmosis bridge bearer`: the bearer that is good for one rollout, for whoever hands bearers out by hand."""

from __future__ import annotations

import click

from osmosis_bridge.bearers import ROLLOUT_ID_RULE, rollout_bearer, valid_rollout_id
from osmosis_bridge.config import TOKEN_VARIABLE, ConfigError, read_token
from osmosis_cli.errors import CLIError
from osmosis_cli.invocation import Invocation
from osmosis_cli.output import OperationResult


@click.command("bearer")
@click.argument("rollout_id", metavar="ROLLOUT_ID")
@click.pass_obj
def bearer(invocation: Invocation, rollout_id: str) -> int:
    """Print the bearer that is good for one rollout of the bridge whose OSMOSIS_BRIDGE_TOKEN is set.

    Whoever holds it may call in the name of that rollout and read its usage, until the rollout is closed, and nothing
    else. No bridge is asked. With --json it is `resource.bearer`.
    """
    try:
        token = read_token(invocation.environ)
    except ConfigError as error:
        raise CLIError(f"{error}.") from None
    if token is None:
        raise CLIError(
            f"{TOKEN_VARIABLE} is not set, and a rollout's bearer is derived from it.",
            fix="Set it to what the bridge was started with; a bridge that was started without it asks for no bearer.",
        )
    if not valid_rollout_id(rollout_id):
        raise CLIError(f"{rollout_id!r} is not a rollout id.", fix=f"A rollout id is {ROLLOUT_ID_RULE}.")
    told = rollout_bearer(token, rollout_id)
    result = OperationResult(
        "bridge.bearer", "success", told, resource={"rollout_id": rollout_id, "bearer": told}
    )
    return invocation.out.show(result, told)
