"""What one invocation of `osmosis` carries to its command: where to write, what environment, which folder.

It is click's context object. It knows nothing of any command.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from osmosis_cli.environment import Environment
from osmosis_cli.render import Output


@dataclass(frozen=True, slots=True)
class Invocation:
    """The surroundings of a command; `reached` collects the names of commands on the way to it."""

    out: Output
    environ: Environment
    cwd: Path
    reached: list[str] = field(default_factory=list[str])
