"""The digest of a rollout's source, so that a run is resumed only with the code that started it.

`sha256-v2:` is SHA-256 over, for each counted file in order of its path bytes: 8 bytes length of the path, the path,
8 bytes length of the content, the content (lengths big-endian). Counted are the regular files of the rollout's folder
without tool folders, `.env*`, editor and system files, byte code, git-ignored files and lock files; lock files are
digested apart. The file hashes are kept so that a difference names its files. Which files count is `source_files`'.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from osmosis_runner.errors import DigestError
from osmosis_runner.source_files import list_source_files

DIGEST_VERSION = "sha256-v2"
_UNTAGGED = "sha256-v1"
_BLOCK = 1024 * 1024


class _Hasher(Protocol):
    def update(self, data: bytes, /) -> None: ...


class SourceDigest(msgspec.Struct, frozen=True):
    """What identifies a source tree."""

    digest: str
    """`sha256-v2:` and 64 hex characters."""
    files: Mapping[str, str]
    """Relative path with forward slashes -> hex SHA-256 of its content."""
    lock_files: Mapping[str, str]
    """The same for lock files (`uv.lock`, `poetry.lock`, ...), which do not enter `digest`."""


class FileChanges(msgspec.Struct, frozen=True):
    """How one tree differs from another; sorted relative paths."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)

    def __str__(self) -> str:
        parts = (("changed", self.changed), ("added", self.added), ("removed", self.removed))
        return "; ".join(f"{word} {_listed(paths)}" for word, paths in parts if paths)


def digest_source(root: Path, exclude: Sequence[Path] = ()) -> SourceDigest:
    """Digest the folder `root`, leaving out folders and files in `exclude` (absolute; the output root).

    Raises `DigestError` for directory symlinks, broken links, unreadable files and a missing folder.
    """
    listed = list_source_files(root, exclude)
    combined = hashlib.sha256()
    files = _hash_files(root, listed.files, combined)
    locks = _hash_files(root, listed.lock_files, hashlib.sha256())
    return SourceDigest(f"{DIGEST_VERSION}:{combined.hexdigest()}", files, locks)


def digest_contents(contents: Mapping[str, bytes]) -> str:
    """Return the tagged digest of files given by relative path: the definition that `digest_source` follows."""
    combined = hashlib.sha256()
    for path, content in sorted((os.fsencode(path), content) for path, content in contents.items()):
        combined.update(_frame(path))
        combined.update(_frame(content))
    return f"{DIGEST_VERSION}:{combined.hexdigest()}"


def compare_files(old: Mapping[str, str], new: Mapping[str, str]) -> FileChanges:
    """Say which files differ between two `SourceDigest.files`."""
    return FileChanges(
        changed=tuple(sorted(path for path in old.keys() & new.keys() if old[path] != new[path])),
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
    )


def digest_version(digest: str) -> str:
    """Return the algorithm tag of a recorded digest; `sha256-v1` for the untagged hex of older runs, `` if unknown."""
    tag, colon, value = digest.partition(":")
    if not colon:
        return _UNTAGGED if re.fullmatch(r"[0-9a-f]{64}", digest) else ""
    return tag if re.fullmatch(r"[0-9a-f]{64}", value) else ""


def _hash_files(root: Path, paths: Iterable[str], combined: _Hasher) -> dict[str, str]:
    hashes: dict[str, str] = {}
    for path in sorted(paths, key=os.fsencode):
        try:
            with (root / path).open("rb") as file:
                hashes[path] = _hash_file(file, path, combined)
        except OSError as error:
            raise DigestError(
                f"cannot read {root / path}: {error.strerror}; mend it or leave it out with .gitignore",
                {"file": str(root / path)},
            ) from None
    return hashes


def _hash_file(file: BinaryIO, path: str, combined: _Hasher) -> str:
    """Feed one file, framed, to `combined` and return its own digest; its length is taken before it is read."""
    size = os.fstat(file.fileno()).st_size
    combined.update(_frame(os.fsencode(path)))
    combined.update(size.to_bytes(8, "big"))
    own = hashlib.sha256()
    read = 0
    while block := file.read(_BLOCK):
        own.update(block)
        combined.update(block)
        read += len(block)
    if read != size:
        raise DigestError(f"{path} changed while it was read; start again", {"file": path})
    return own.hexdigest()


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(8, "big") + content


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:10])
    return f"{shown} and {len(paths) - 10} more" if len(paths) > 10 else shown
