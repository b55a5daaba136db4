"""Files that are whole after any crash: temporary file, fsync, rename, fsync of the folder. Knows nothing of runs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from osmosis_runner.errors import StorageError
from osmosis_runner.jsontext import JsonValue, pretty

_BLOCK_BYTES = 1024 * 1024


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace `path` by `content`, mode 0600; the old file stays whole whatever happens.

    Without `durable` the content is not synced: a reader never sees a half, a power cut may lose the newest.
    Raises `StorageError`.
    """
    replace_lines(path, (content,), durable=durable)


def replace_lines(path: Path, lines: Iterable[bytes], *, durable: bool = True) -> None:
    """Replace `path` by `lines`, of which one at a time is in memory; otherwise as `replace_file`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            write_lines(temporary, lines, durable=durable)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise StorageError.of(str(path), error, "the file was left as it was") from None


def replace_json(path: Path, value: JsonValue, *, durable: bool = True) -> None:
    """Replace `path` by the indented JSON of `value`. Raises `StorageError` and `jsontext.NotJson`."""
    replace_file(path, pretty(value), durable=durable)


def write_new(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file that does not exist yet, mode 0600. Raises `OSError`."""
    write_lines(path, (content,), durable=durable)


def write_lines(path: Path, lines: Iterable[bytes], *, durable: bool = True) -> None:
    """Write a file that does not exist yet, mode 0600, line by line. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", _BLOCK_BYTES) as file:
        file.writelines(lines)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` durable. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
