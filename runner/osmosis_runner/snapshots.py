"""index.jsonl and its copy summary.jsonl while a run goes on, and sorted at its end.

Lines are appended as records come, at constant cost, and rewritten sorted by `finish`. Both files can be made again
from the journal, so only `finish` waits for the disk. The files appear with the first flush, over what was there. The
other snapshots (progress.json, metrics.json) are written by `files.replace_json`.
"""

from __future__ import annotations

import os
import shutil
from array import array
from pathlib import Path
from typing import IO

from osmosis_runner.errors import StorageError
from osmosis_runner.files import sync_folder
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.metrics import index_line
from osmosis_runner.rundir import RunDir

_FLUSH_BYTES = 256 * 1024
_ABSENT = -1
_KEPT = "the recorded results are safe in events.jsonl; free space or mend the folder, then resume the run"


class IndexWriter:
    """The lines of `rows` x `runs` items; one thread at a time."""

    def __init__(self, run: RunDir, rows: int, runs: int) -> None:
        """Start both files anew beside the present ones. Raises `StorageError`."""
        self._run = run
        self._runs = runs
        self._starts = array("q", [_ABSENT]) * (rows * runs)
        self._lengths = array("L", [0]) * (rows * runs)
        self._pending = bytearray()
        self._written = 0
        self._shown = False
        self._files: list[IO[bytes]] = []
        try:
            for path in (run.index, run.summary):
                self._files.append(_create(_growing(path)))
        except OSError as error:
            self.close()
            raise StorageError.of(str(run.path), error, _KEPT) from None

    def add(self, record: JournalRecord, *, resumed: bool = False) -> None:
        """Add the record's line; a later record of the same item replaces it. Cancelled ones are ignored.

        Raises `StorageError` when the gathered lines cannot be written; they stay gathered.
        """
        if record.status == "cancelled":
            return
        slot = record.row_index * self._runs + record.run_index
        line = index_line(record, resumed=resumed)
        self._starts[slot] = self._written + len(self._pending)
        self._lengths[slot] = len(line)
        self._pending += line
        if len(self._pending) >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what `add` gathered, without waiting for the disk. Raises `StorageError`."""
        if not self._pending and self._shown:
            return
        try:
            for file in self._files:
                _write_at(file.fileno(), self._pending, self._written)
            self._written += len(self._pending)
            self._pending.clear()
            self._show()
        except OSError as error:
            raise StorageError.of(str(self._run.index), error, _KEPT) from None

    def finish(self) -> None:
        """Rewrite both files sorted by (row, run), one line per item, durable, and close. Raises `StorageError`."""
        self.flush()
        index, summary = self._run.index, self._run.summary
        try:
            self._write_sorted(_growing(index))
            shutil.copyfile(_growing(index), _growing(summary))
            for path in (index, summary):
                _sync(_growing(path))
                _growing(path).replace(path)
            sync_folder(self._run.path)
        except OSError as error:
            raise StorageError.of(str(index), error, _KEPT) from None
        finally:
            self.close()

    def close(self) -> None:
        """Close without the sorted rewrite; idempotent."""
        while self._files:
            self._files.pop().close()
        for path in (self._run.index, self._run.summary):
            _growing(path).unlink(missing_ok=True)

    def _show(self) -> None:
        if self._shown:
            return
        for path in (self._run.index, self._run.summary):
            _growing(path).replace(path)
        self._shown = True

    def _write_sorted(self, target: Path) -> None:
        source = self._files[0].fileno()
        for path in (target, _growing(self._run.summary)):
            _create(path).close()
        with target.open("r+b", _FLUSH_BYTES) as file:
            for start, length in zip(self._starts, self._lengths, strict=True):
                if start != _ABSENT:
                    file.write(os.pread(source, length, start))


def _growing(path: Path) -> Path:
    return path.with_name(f".{path.name}.growing")


def _create(path: Path) -> IO[bytes]:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "r+b", 0)


def _write_at(descriptor: int, content: bytes | bytearray, offset: int) -> None:
    # At a place, not at the end: after a write that failed halfway the same bytes go to the same place.
    view = memoryview(content)
    try:
        while view:
            written = os.pwrite(descriptor, view, offset)
            view, offset = view[written:], offset + written
    finally:
        view.release()


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())
