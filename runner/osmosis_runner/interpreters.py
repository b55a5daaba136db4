"""The Python interpreters of this machine: where uv shall look for them, and what to say when none will do.

uv looks into its own folder and along PATH. A version manager keeps the interpreters that are not switched on
elsewhere, with stand-ins for them on PATH that fail; so their folders are put behind PATH.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LISTED = 6
"""How many interpreters a message names."""

_LISTED_LINE = re.compile(r"[a-z]+-(?P<version>\d+\.\d+\.\d+[a-z0-9]*)\S*\s+(?P<path>/\S.*?)(?: -> .*)?")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One that is installed."""

    version: str
    path: str

    def __str__(self) -> str:
        return f"{self.version} ({self.path})"


def search_path(environ: Mapping[str, str], own_prefix: str = sys.base_prefix) -> str:
    """PATH, then the folders in which version managers keep interpreters, then that of our own."""
    behind = [*_managed(environ), Path(own_prefix) / "bin"]
    named = environ.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([*filter(None, named), *(str(folder) for folder in behind)]))


def read_list(lines: Iterable[str]) -> list[Interpreter]:
    """The interpreters that `uv python list --only-installed` names: each version once, in its order."""
    found: dict[str, Interpreter] = {}
    for line in lines:
        match = _LISTED_LINE.fullmatch(line.strip())
        if match is not None:
            found.setdefault(match["version"], Interpreter(match["version"], match["path"]))
    return list(found.values())


def complaint(wanted: str, found: Sequence[Interpreter]) -> str:
    """That no interpreter will do: what was wanted, what there is and what to do."""
    shown = ", ".join(str(interpreter) for interpreter in found[:LISTED])
    more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    there = f"found: {shown}{more}" if found else "none was found at all"
    return (
        f"no Python {wanted} is installed ({there}). Install one, name another with --python, or set "
        f"UV_PYTHON_DOWNLOADS=automatic to let uv download one"
    )


def _managed(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME") or "/nonexistent")
    shared = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    keeps = (
        Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions",
        Path(environ.get("ASDF_DATA_DIR") or home / ".asdf") / "installs" / "python",
        Path(environ.get("MISE_DATA_DIR") or shared / "mise") / "installs" / "python",
    )
    for keep in keeps:
        for folder in sorted(keep.glob("*"), key=_newest_first):
            # A virtual environment that is kept there is somebody's, not an installation.
            if (folder / "bin" / "python3").exists() and not (folder / "pyvenv.cfg").exists():
                yield folder / "bin"


def _newest_first(folder: Path) -> tuple[list[int], str]:
    numbers = [-int(part) if part.isdigit() else 1 for part in folder.name.split(".")]
    return numbers, folder.name
