"""Which folder is the workspace, and where its runs are kept.

A workspace is the nearest folder upward that holds `rollouts/` and `configs/`. It need not be under git. This file
knows nothing of what a config says.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from osmosis_cli.errors import CLIError, Code
from osmosis_runner.rundir import is_run

MARKS = ("rollouts", "configs")
RUNS = Path(".osmosis") / "evals"
CONFIGS = Path("configs") / "eval"


def find_workspace(*starts: Path) -> Path:
    """The workspace that the first of `starts` lies in, else the next one's; raises CLIError where none does."""
    for start in starts:
        for folder in (start, *start.parents):
            if all((folder / mark).is_dir() for mark in MARKS):
                return folder
    raise CLIError(
        f"No workspace found in {starts[-1]} or the folders above it.",
        fix="A workspace is a folder that holds rollouts/ and configs/. Change into one, or create both folders.",
        code=Code.WORKSPACE_REQUIRED,
    )


def find_config(given: Path, cwd: Path) -> Path:
    """The absolute path of the config the user named; raises CLIError when it is not a .toml file that exists."""
    path = (cwd / given.expanduser()).resolve()
    if path.suffix != ".toml":
        raise CLIError(f"Config {given} does not end in .toml.", fix=_similar(given, path.parent))
    if not path.exists():
        raise CLIError(
            f"Config {given} does not exist.", fix=_similar(given, path.parent), code=Code.NOT_FOUND
        )
    if not path.is_file():
        raise CLIError(f"Config {given} is not a file.", fix=_similar(given, path.parent))
    return path


def output_root(workspace: Path, given: Path | None, cwd: Path) -> Path:
    """The absolute folder that holds run directories."""
    return (cwd / given.expanduser()).resolve() if given else workspace / RUNS


def find_run(run: str, cwd: Path, given_root: Path | None) -> Path:
    """The run directory that a name or a path stands for; raises CLIError when there is none.

    A path of several segments, or one segment naming a run directory in the current folder, is taken as it is;
    any other single segment is a name under the output root.
    """
    direct = (cwd / Path(run).expanduser()).resolve()
    is_path = len(Path(run).parts) > 1 or Path(run).is_absolute() or run in (".", "..")
    if is_path or is_run(direct):
        return _checked(direct, run, ())
    root = output_root(cwd if given_root else find_workspace(cwd), given_root, cwd)
    return _checked(root / run, run, (path.name for path in runs_of(root)))


def runs_of(root: Path) -> list[Path]:
    """The run directories of an output root, by name; empty where there is no such folder."""
    try:
        # A name that begins with a dot is a lock, or a directory in the making.
        return sorted(path for path in root.iterdir() if not path.name.startswith(".") and is_run(path))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CLIError(f"{root} cannot be listed: {error.strerror or error}.") from None


def _checked(path: Path, run: str, known: Iterable[str]) -> Path:
    if is_run(path):
        return path
    close = difflib.get_close_matches(run, list(known), n=1, cutoff=0.5)
    fix = f"Did you mean {close[0]!r}?" if close else "Type 'osmosis eval list' to see the runs there are."
    raise CLIError(f"There is no run {run!r}: {path} is not a run directory.", fix=fix, code=Code.NOT_FOUND)


def _similar(given: Path, folder: Path) -> str:
    """Advice with the config whose name is closest, beside the one that was given or in configs/eval below."""
    beside = {path.name: given.parent / path.name for path in _configs_in(folder)}
    below = {path.name: given.parent / CONFIGS / path.name for path in _configs_in(folder / CONFIGS)}
    known = below | beside
    close = difflib.get_close_matches(given.name, list(known), n=1, cutoff=0.5)
    if close:
        return f"Did you mean {known[close[0]]}?"
    return f"Give the path of an evaluation's TOML file, such as {CONFIGS}/NAME.toml."


def _configs_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.toml") if path.name != "pyproject.toml")
