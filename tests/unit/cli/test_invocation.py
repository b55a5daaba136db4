"""What a command is given."""

from __future__ import annotations

from pathlib import Path

from osmosis_cli.invocation import Invocation
from osmosis_typed import environment, output


def test_each_invocation_has_its_own_path_of_commands() -> None:
    one, other = (Invocation(output()[0], environment(), Path("/")) for _ in range(2))
    one.reached.append("eval")
    assert other.reached == []
