"""The journal of a run: one JSON line per attempt that ended, on disk before its result counts.

Ordering: `append` returns after write and fsync, so a result that was reported is in the file after any crash, and one
that is not in the file was never reported. The last line of an item wins. Knows nothing of rows, reports or rollouts.
Blocking: an asyncio caller runs `append` in a thread, with as many records at once as have ended meanwhile.
"""

from __future__ import annotations

import errno
import os
import shlex
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from osmosis_runner.errors import JournalCorrupt, StorageError
from osmosis_runner.journal_record import (
    AttemptStatus,
    BadRecord,
    ErrorPhase,
    JournalRecord,
    Status,
    bounded_record,
    decode_record,
    encode_record,
)

__all__ = [
    "AttemptStatus",
    "ErrorPhase",
    "Journal",
    "JournalRecord",
    "Status",
    "read_records",
]

KEPT = "results already recorded are safe; free space or mend the folder, then resume the run"
MOVED = "the run's directory was moved or removed while the run wrote to it; put it back, then resume the run"
_BLOCK = 1024 * 1024


def torn_bytes(path: Path) -> int:
    """How many bytes stand behind the last newline: of a line that was not written whole, or NULs after a power cut.

    Raises `StorageError`.
    """
    committed, size = _committed_length(path)
    return size - committed


def read_records(path: Path) -> Iterator[JournalRecord]:
    """Yield every committed record in order, superseded ones included, one line in memory at a time.

    A missing file is an empty journal, a torn tail is ignored, nothing is changed. Raises `JournalCorrupt` naming
    file, line and the repair command, and `StorageError`.
    """
    for _, record in read_placed(path):
        yield record


def read_placed(path: Path) -> Iterator[tuple[int, JournalRecord]]:
    """Yield what `read_records` does, each with the offset of its line in bytes."""
    offset = 0
    for number, line in committed_lines(path):
        try:
            yield offset, decode_record(line)
        except BadRecord as error:
            remedy = (
                f"run `{repair_command(path.parent)}` to keep every good line, or start anew with --fresh"
            )
            raise JournalCorrupt(str(path), number, str(error), remedy) from None
        offset += len(line) + 1


def repair_command(run: Path) -> str:
    """What is typed to repair the journal of the run directory `run`, wherever it lies."""
    usual = run.parts[-3:-1] == (".osmosis", "evals")
    return shlex.join(("osmosis", "eval", "repair", run.name if usual else str(run)))


def committed_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines up to the last newline, without their newlines; nothing for a missing file."""
    remaining, _ = _committed_length(path)
    if not remaining:
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            remaining -= len(line)
            yield number, line.removesuffix(b"\n")
            if remaining <= 0:
                return


def all_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield what `committed_lines` does, then what stands behind the last newline, if there is anything."""
    committed, size = _committed_length(path)
    number = 0
    for number, line in committed_lines(path):
        yield number, line
    if size > committed:
        with path.open("rb") as file:
            file.seek(committed)
            yield number + 1, file.read()


def _committed_length(path: Path) -> tuple[int, int]:
    """Return how many bytes end in a newline, and the size; NULs after it (a power cut) are not counted."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            return _last_newline(file.fileno(), size), size
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise StorageError.of(str(path), error, "the journal cannot be read") from None


def _last_newline(descriptor: int, size: int) -> int:
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


class Journal:
    """An open journal; one writer (the run's lock makes sure of that), any thread."""

    def __init__(self, path: Path, descriptor: int, length: int, dropped_tail: int) -> None:
        self.dropped_tail = dropped_tail
        """Bytes of a torn last line that were cut away."""
        self._path = path
        self._descriptor = descriptor
        self._length = length
        self._usable = True
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Cut a torn tail of `path` away and open it for appending (created with mode 0600); nothing is read.

        What it holds is `read_records`' to tell, record by record. Raises `StorageError`.
        """
        length, size = _committed_length(path)
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise StorageError.of(str(path), error, "nothing was started") from None
        journal = cls(path, descriptor, length, size - length)
        try:
            if journal.dropped_tail:
                journal.cut_back()
        except StorageError:
            journal.close()
            raise
        return journal

    def append(self, records: Sequence[JournalRecord]) -> None:
        """Write `records` with one write and one fsync; on return they are durable.

        Texts of a record are cut to their limits. On failure the file is cut back to what it was and `StorageError`
        raised: none of them is recorded.
        """
        content = b"".join(encode_record(bounded_record(record)) for record in records)
        if not content:
            return
        with self._lock:
            try:
                if not self._usable:
                    raise OSError(errno.EIO, "an earlier write failed and could not be undone")
                _write_all(self._descriptor, content)
                os.fsync(self._descriptor)
                self._check_presence()
            except OSError as error:
                self._undo()
                moved = error.errno in (errno.ENOENT, errno.ESTALE)
                raise StorageError.of(str(self._path), error, MOVED if moved else KEPT) from None
            self._length += len(content)

    def cut_back(self) -> None:
        """Cut the file to its committed length, durably. Raises `StorageError`."""
        try:
            os.ftruncate(self._descriptor, self._length)
            os.fsync(self._descriptor)
        except OSError as error:
            raise StorageError.of(
                str(self._path), error, "its torn last line could not be cut away"
            ) from None

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_presence(self) -> None:
        """Raise OSError when the file has another name, or none: what is written to it then is written to nobody."""
        there, own = self._path.stat(), os.fstat(self._descriptor)
        if (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino):
            raise OSError(errno.ESTALE, "another file has taken its place")

    def _undo(self) -> None:
        # Should even this fail, nothing may be appended behind the torn line; it is cut away when the journal is
        # opened again. A whole line that was not synced counts then, and its item does not run twice.
        try:
            os.ftruncate(self._descriptor, self._length)
        except OSError:
            self._usable = False


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        written = os.write(descriptor, view)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        view = view[written:]
