"""The Python interpreters of this machine: where they are looked for, which one suits, what to say when none will do.

uv looks into its own folder and along PATH. A version manager keeps the interpreters that are not switched on
elsewhere, with stand-ins for them on PATH that fail; so their folders are put behind PATH. A rollout without a project
needs no uv, so its interpreter is looked for here in the same places. Blocking.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.faults import LaunchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LISTED = 6
"""How many interpreters a message names."""

ANSWERS_WITHIN_S = 20.0
_VERSION = re.compile(r"(?:python|cpython)?-?(\d+(?:\.\d+){0,2})")
_TELL = "import sys; print(*sys.version_info[:3], sep='.')"
_LISTED_LINE = re.compile(r"[a-z]+-(?P<version>\d+\.\d+\.\d+[a-z0-9]*)\S*\s+(?P<path>/\S.*?)(?: -> .*)?")


class Interpreter(msgspec.Struct, frozen=True):
    """One that is installed."""

    version: str
    path: str

    def __str__(self) -> str:
        return f"{self.version} ({self.path})"


def find_interpreter(asked: str, environ: Mapping[str, str], own: str = sys.executable) -> str:
    """The path of the interpreter that `asked` names: a path, a program on PATH, or a version such as `3.12`.

    Of a version the own interpreter is taken where it is one, else the first on the search path that answers with it.
    Raises `LaunchError` naming those that do answer.
    """
    if os.sep in asked:
        return _checked_path(asked)
    wanted = _VERSION.fullmatch(asked.strip().lower())
    if wanted is None:
        found = shutil.which(asked, path=search_path(environ))
        if found is None:
            message = f"--python {asked}: no such program on PATH; give a path, or a version such as 3.12"
            raise LaunchError(message)
        return found
    parts = wanted[1].split(".")
    others: dict[str, Interpreter] = {}
    for interpreter in _answering(environ, own):
        if interpreter.version.split(".")[: len(parts)] == parts:
            return interpreter.path
        others.setdefault(interpreter.version, interpreter)
    there = _shown(list(others.values()))
    message = (
        f"--python {asked}: no Python {wanted[1]} is installed ({there}). Install one, or give another's path"
    )
    raise LaunchError(message)


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
    return (
        f"no Python {wanted} is installed ({_shown(found)}). Install one, name another with --python, or set "
        f"UV_PYTHON_DOWNLOADS=automatic to let uv download one"
    )


def _shown(found: Sequence[Interpreter]) -> str:
    shown = ", ".join(str(interpreter) for interpreter in found[:LISTED])
    more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return f"found: {shown}{more}" if found else "none was found at all"


def _checked_path(asked: str) -> str:
    path = Path(asked).expanduser()
    if not path.is_file():
        why = "is a folder; name the program in its bin/" if path.is_dir() else "does not exist"
        message = f"--python {asked}: {why}"
        raise LaunchError(message)
    if not os.access(path, os.X_OK):
        message = f"--python {asked}: may not be executed"
        raise LaunchError(message)
    # The rollout starts in its own folder.
    return str(path.absolute())


def _answering(environ: Mapping[str, str], own: str) -> Iterator[Interpreter]:
    """Our own interpreter, then those of the search path that say their version, each program once."""
    asked: set[str] = set()
    for program in (own, *_programs(environ)):
        real = os.path.realpath(program)
        if real in asked:
            continue
        asked.add(real)
        version = _version_of(program, environ)
        if version is not None:
            yield Interpreter(version, program)


def _programs(environ: Mapping[str, str]) -> Iterator[str]:
    for folder in search_path(environ).split(os.pathsep):
        named = [
            path for path in Path(folder).glob("python3*") if re.fullmatch(r"python3(\.\d+)?", path.name)
        ]
        for path in sorted(named, key=lambda path: (len(path.name), path.name)):
            if os.access(path, os.X_OK):
                yield str(path)


def _version_of(program: str, environ: Mapping[str, str]) -> str | None:
    """What an interpreter says of itself; None for one that says nothing, as a stand-in of a version manager."""
    kept = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
    try:
        done = subprocess.run(
            [program, "-I", "-S", "-c", _TELL],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=kept,
            timeout=ANSWERS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = done.stdout.strip()
    return told if done.returncode == 0 and re.fullmatch(r"\d+\.\d+\.\d+", told) else None


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
