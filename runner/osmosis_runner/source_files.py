"""Which files of a folder are a rollout's source.

Not: tool folders, `.env*`, editor and system files, byte code, package metadata, what git ignores. Lock files apart.
Knows nothing of digests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from osmosis_runner.errors import DigestError

TOOL_FOLDERS = frozenset(
    {
        "__pycache__", ".git", ".hg", ".svn", ".jj", ".venv", "venv", ".tox", ".nox", "dist", "build", "node_modules",
        ".pytest_cache", ".ruff_cache", ".mypy_cache", ".pyright", ".ty_cache", ".hypothesis", ".ipynb_checkpoints",
        ".idea", ".vscode", ".cache", ".eggs", ".osmosis", "htmlcov",
    }
)  # fmt: skip
"""Folders that tools make; nothing below them counts."""

IGNORED_FILES = (
    ".env*", ".DS_Store", "Thumbs.db", "desktop.ini", "._*", "*.pyc", "*.pyo", "*.swp",
    "*.swo", "*~", "#*#", ".#*", "*.orig", "*.rej", ".coverage", ".coverage.*", ".git",
)  # fmt: skip
"""Patterns of file names that never count."""

LOCK_FILES = frozenset(
    {"uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock", "package-lock.json"}
)
"""Names of files that pin dependencies."""

_IGNORED_FOLDERS = ("*.egg-info", "*.dist-info")
_GIT_SECONDS = 30


class SourceFiles(msgspec.Struct, frozen=True):
    """Relative paths with forward slashes."""

    files: tuple[str, ...]
    lock_files: tuple[str, ...]


def list_source_files(root: Path, exclude: Sequence[Path] = ()) -> SourceFiles:
    """List the source of the folder `root`, without what lies in `exclude`.

    Raises `DigestError` for a missing folder, a link to a folder, a broken link or something that is no file.
    """
    if not root.is_dir():
        raise DigestError(f"there is no folder {root}", {"folder": str(root)})
    outside = {path.resolve() for path in exclude}
    if root.resolve() in outside:
        raise DigestError(f"the output folder cannot be the rollout's folder {root}", {"folder": str(root)})
    found = sorted(_walk(root, outside))
    ignored = git_ignored(root, found)
    kept = [path for path in found if path not in ignored]
    for path in kept:
        _check_file(root, path)
    is_lock = [path.rpartition("/")[2] in LOCK_FILES for path in kept]
    return SourceFiles(
        files=tuple(path for path, lock in zip(kept, is_lock, strict=True) if not lock),
        lock_files=tuple(path for path, lock in zip(kept, is_lock, strict=True) if lock),
    )


def is_source_name(path: str) -> bool:
    """Whether the names in a relative path leave it counted; git is not asked."""
    *folders, name = path.split("/")
    if any(is_tool_folder(folder) for folder in folders):
        return False
    return not any(fnmatchcase(name, pattern) for pattern in IGNORED_FILES)


def is_tool_folder(name: str) -> bool:
    """Whether nothing below a folder of this name counts."""
    return name in TOOL_FOLDERS or any(fnmatchcase(name, pattern) for pattern in _IGNORED_FOLDERS)


def git_ignored(root: Path, paths: Iterable[str]) -> frozenset[str]:
    """Return those of `paths` (relative to `root`) that git ignores; none outside of a work tree or without git.

    A tracked file is never ignored, whatever .gitignore says.
    """
    asked = "\0".join(paths)
    if not asked:
        return frozenset()
    git = shutil.which("git")
    if git is None:
        return frozenset()
    # Only the rules of the repository count: not a person's global ones, nor a GIT_DIR set around us.
    settings = ["-c", "core.excludesFile=", "-c", "safe.directory=*"]
    command = [git, *settings, "-C", str(root), "check-ignore", "-z", "--stdin"]
    try:
        done = subprocess.run(
            command,
            input=os.fsencode(asked),
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
            env={"PATH": os.defpath, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    if done.returncode != 0:
        return frozenset()
    return frozenset(os.fsdecode(path) for path in done.stdout.split(b"\0") if path)


def _walk(root: Path, outside: set[Path]) -> Iterator[str]:
    for folder, folders, names in os.walk(root, onerror=_refuse):
        here = Path(folder)
        inside = here.relative_to(root).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        links = [name for name in folders if (here / name).is_symlink()]
        kept = [
            name for name in folders if not is_tool_folder(name) and (here / name).resolve() not in outside
        ]
        folders[:] = sorted(name for name in kept if name not in links)
        yield from (f"{prefix}{name}" for name in links if name in kept)
        for name in names:
            if is_source_name(name) and (here / name).resolve() not in outside:
                yield f"{prefix}{name}"


def _check_file(root: Path, path: str) -> None:
    full = root / path
    if full.is_dir():
        raise DigestError(
            f"{full} is a link to a folder; copy the folder there, or leave it out with .gitignore",
            {"file": str(full)},
        )
    if not full.is_file():
        what = "a broken link" if full.is_symlink() else "not a regular file"
        raise DigestError(
            f"{full} is {what}; remove it, or leave it out with .gitignore", {"file": str(full)}
        )


def _refuse(error: OSError) -> None:
    raise DigestError(
        f"cannot read {error.filename}: {error.strerror}; mend its permissions", {"file": str(error.filename)}
    )
