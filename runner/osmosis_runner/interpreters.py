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
SEEN_BY_ASKED = ("PATH", "HOME", "LD_LIBRARY_PATH")
SAID_LIMIT = 120
"""Characters that are told of what a program said instead of a version."""
_VERSION = re.compile(r"(?:python|cpython)?-?(\d+(?:\.\d+){0,2})")
_TELL = "import sys; print(*sys.version_info[:3], sep='.')"
_LISTED_LINE = re.compile(r"[a-z]+-(?P<version>\d+\.\d+\.\d+[a-z0-9]*)\S*\s+(?P<path>/\S.*?)(?: -> .*)?")


class Interpreter(msgspec.Struct, frozen=True):
    """One that is installed."""

    version: str
    path: str

    def __str__(self) -> str:
        return f"{self.version} ({self.path})"


class Silent(msgspec.Struct, frozen=True):
    """A program that is called like an interpreter and does not answer as one, as a version manager's stand-in."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} ({self.why})"


class Survey(msgspec.Struct, frozen=True):
    """What the interpreters of this machine say when they are asked."""

    suiting: tuple[Interpreter, ...]
    """Of the version that is wanted, each version once, the one to take first."""
    silent: tuple[Silent, ...]
    """Programs that might have been one, asked in vain."""


class Asker(msgspec.Struct, frozen=True):
    """Asks the programs of this machine for their version, as a rollout in `folder` would run them."""

    environ: Mapping[str, str]
    folder: Path | None = None
    own: str = sys.executable

    def answers(self) -> Iterator[Interpreter | Silent]:
        """Our own interpreter, then those of the search path, each program once."""
        asked: set[str] = set()
        for program in (self.own, *_programs(self.environ)):
            real = os.path.realpath(program)
            # One program may stand in for many, and answers by the name it is called by.
            key = real if Path(real).name.startswith("python") else program
            if key not in asked:
                asked.add(key)
                yield self.answer(program)

    def answer(self, program: str) -> Interpreter | Silent:
        """What one program says of itself."""
        kept = {name: self.environ[name] for name in SEEN_BY_ASKED if name in self.environ}
        try:
            done = subprocess.run(
                [program, "-I", "-S", "-c", _TELL],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                cwd=self.folder,
                env=kept,
                timeout=ANSWERS_WITHIN_S,
                check=False,
            )
        except OSError as error:
            return Silent(program, error.strerror or type(error).__name__)
        except subprocess.TimeoutExpired:
            return Silent(program, f"no answer within {ANSWERS_WITHIN_S:g} s")
        told = done.stdout.strip()
        if done.returncode == 0 and re.fullmatch(r"\d+\.\d+\.\d+", told):
            return Interpreter(told, program)
        said = next((line.strip() for line in done.stderr.splitlines() if line.strip()), "")
        return Silent(program, f"exit code {done.returncode}" + (f": {said[:SAID_LIMIT]}" if said else ""))


def find_interpreter(asked: str, asker: Asker) -> str:
    """The path of the interpreter that `asked` names: a path, a program on PATH, or a version such as `3.12`.

    Of a version the own interpreter is taken where it is one, else the first on the search path that answers with it;
    of a program the first of that name that answers. Raises `LaunchError` naming those that do answer, and those that
    were asked in vain.
    """
    if os.sep in asked:
        return _checked_path(asked, asker)
    version = _version(asked)
    if version is None:
        return _program(asked, asker)
    others: dict[str, Interpreter] = {}
    silent: list[Silent] = []
    for answer in asker.answers():
        if isinstance(answer, Silent):
            silent.append(answer)
        elif _suits(answer, version):
            return answer.path
        else:
            others.setdefault(answer.version, answer)
    there = _shown(list(others.values())) + in_vain(_for(version, silent))
    message = (
        f"--python {asked}: no Python {version} is installed ({there}). Install one, or give another's path"
    )
    raise LaunchError(message)


def survey(asked: str | None, asker: Asker) -> Survey:
    """Which interpreters are of the version that is asked for, or of any where no version is."""
    version = _version(asked or "") or ""
    suiting: dict[str, Interpreter] = {}
    silent: list[Silent] = []
    for answer in asker.answers():
        if isinstance(answer, Silent):
            silent.append(answer)
        elif _suits(answer, version):
            suiting.setdefault(answer.version, answer)
    return Survey(tuple(suiting.values()), tuple(_for(version, silent)))


def in_vain(silent: Sequence[Silent]) -> str:
    """Which programs were asked in vain, as the end of a list."""
    return f"; asked in vain: {', '.join(map(str, silent[:LISTED]))}" if silent else ""


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


def complaint(wanted: str, found: Sequence[Interpreter], silent: Sequence[Silent] = ()) -> str:
    """That no interpreter will do: what was wanted, what there is and what to do."""
    return (
        f"no Python {wanted} is installed ({_shown(found)}{in_vain(silent)}). Install one, name another with "
        "--python, or set UV_PYTHON_DOWNLOADS=automatic to let uv download one"
    )


def _shown(found: Sequence[Interpreter]) -> str:
    shown = ", ".join(str(interpreter) for interpreter in found[:LISTED])
    more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return f"found: {shown}{more}" if found else "none was found at all"


def _version(asked: str) -> str | None:
    """The version that is asked for; None where something else is."""
    found = _VERSION.fullmatch(asked.strip().lower())
    return found[1] if found else None


def _suits(interpreter: Interpreter, version: str) -> bool:
    parts = version.split(".") if version else []
    return interpreter.version.split(".")[: len(parts)] == parts


def _for(version: str, silent: Sequence[Silent]) -> list[Silent]:
    """Those of the programs that by their names might have been of the version."""
    wanted = version.split(".")[:2]
    return [one for one in silent if _agree(Path(one.path).name.removeprefix("python").split("."), wanted)]


def _agree(named: list[str], wanted: list[str]) -> bool:
    return all(one == other or not one or not other for one, other in zip(named, wanted, strict=False))


def _checked_path(asked: str, asker: Asker) -> str:
    path = Path(asked).expanduser()
    if not path.is_file():
        why = "is a folder; name the program in its bin/" if path.is_dir() else "does not exist"
        message = f"--python {asked}: {why}"
        raise LaunchError(message)
    if not os.access(path, os.X_OK):
        message = f"--python {asked}: may not be executed"
        raise LaunchError(message)
    # The rollout starts in its own folder.
    answer = asker.answer(str(path.absolute()))
    if isinstance(answer, Silent):
        message = f"--python {asked}: does not answer as a Python does ({answer.why}); give the path of one that does"
        raise LaunchError(message)
    return answer.path


def _program(asked: str, asker: Asker) -> str:
    folders = search_path(asker.environ).split(os.pathsep)
    found = [path for folder in folders if (path := shutil.which(asked, path=folder))]
    silent: list[Silent] = []
    for path in found:
        answer = asker.answer(path)
        if isinstance(answer, Interpreter):
            return path
        silent.append(answer)
    if silent:
        message = f"--python {asked}: no program of that name answers as a Python does{in_vain(silent)}"
    else:
        message = f"--python {asked}: no such program on PATH; give a path, or a version such as 3.12"
    raise LaunchError(message)


def _programs(environ: Mapping[str, str]) -> Iterator[str]:
    for folder in search_path(environ).split(os.pathsep):
        named = [
            path for path in Path(folder).glob("python3*") if re.fullmatch(r"python3(\.\d+)?", path.name)
        ]
        for path in sorted(named, key=lambda path: (len(path.name), path.name)):
            if os.access(path, os.X_OK):
                yield str(path)


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
