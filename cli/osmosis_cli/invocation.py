"""What one invocation of `osmosis` carries to its command: where to write, what environment, which folder.

It is click's context object. It knows nothing of any command.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from osmosis_cli.environment import Environment
from osmosis_cli.render import Output


class Invocation(msgspec.Struct, frozen=True):
    """The surroundings of a command; `reached` collects the names of commands on the way to it."""

    out: Output
    environ: Environment
    cwd: Path
    reached: list[str] = msgspec.field(default_factory=list[str])
