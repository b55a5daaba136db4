"""Where records are kept: JSON lines in a file, or nowhere.

Promises, each held by a test of the same name:

- a record that was appended survives the death of this process at any later instant (it was handed to the system with
  write(2) before `append` returned);
- it survives the death of the machine from the next `sync` on, or after `SYNC_EVERY` seconds at the latest;
- a line is never torn: a write that fails half-way is cut off again, before anything else is written, and a fragment
  that a crash left at the end is cut off when the file is opened;
- a sync that failed is never followed by one that claims success;
- one file has one writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol

from osmosis_bridge.errors import LedgerFailed

SYNC_EVERY = 1.0
"""Seconds after which what was written is on the disk itself."""
# A record is a JSON object; a machine that lost power can leave zeros in its place.
_FRAGMENT_BEGINS = (b"{", b"\0")


class Ledger(Protocol):
    """What the bridge needs of a place for records."""

    def append(self, line: bytes) -> None:
        """Keep one line, without its line feed; raises `LedgerFailed`."""
        ...

    async def sync(self) -> None:
        """Return when everything appended so far is on disk."""
        ...

    async def close(self) -> None:
        """Sync and let go of the file."""
        ...


class NoLedger:
    """Keeps nothing: the bridge counts totals only."""

    def append(self, line: bytes) -> None:
        """Forget one line."""

    async def sync(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""


class FileLedger:
    """Appends lines to one file, created with mode 0600; raises `LedgerFailed` where it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LedgerFailed(f"cannot open the ledger {str(path)!r}: {error.strerror}") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise LedgerFailed(
                f"another process writes the ledger {str(path)!r}; choose another --ledger file"
            ) from None
        try:
            self._size = _cut_fragment(self._fd)
        except BaseException:
            os.close(self._fd)
            raise
        self._synced = self._size
        self._torn = False
        self._sync_fault: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._syncing: asyncio.Future[None] | None = None

    def append(self, line: bytes) -> None:
        """Hand one line to the system; see the promises above."""
        line += b"\n"
        written = 0
        try:
            if self._torn:
                self._cut_back()
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            if written:
                self._torn = True
                with contextlib.suppress(OSError):
                    self._cut_back()
            raise LedgerFailed(
                f"the record of this call could not be written to the ledger: {error.strerror}",
                code="ledger_unavailable",
            ) from None
        self._size += len(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SYNC_EVERY, self._sync_in_background)

    async def sync(self) -> None:
        """One fsync in a thread for all who wait; what is appended meanwhile waits for the next."""
        target = self._size
        while self._synced < target and self._sync_fault is None:
            # What went wrong is kept for all who wait, now or later.
            await asyncio.wait((self._syncing or self._begin(),))
        if self._sync_fault is not None:
            message = f"the ledger could not be synced: {self._sync_fault}"
            raise LedgerFailed(message, code="ledger_unavailable")

    async def close(self) -> None:
        """Sync, then release the file and its lock."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self.sync()
        finally:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _begin(self) -> asyncio.Future[None]:
        size = self._size

        def done(syncing: asyncio.Future[None]) -> None:
            self._syncing = None
            fault = syncing.exception()
            if fault is None:
                self._synced = size
            else:
                # The system forgets what it failed to write: a later fsync would succeed and mean nothing.
                self._sync_fault = str(getattr(fault, "strerror", fault))

        syncing = asyncio.get_running_loop().run_in_executor(None, _fsync, self._fd)
        syncing.add_done_callback(done)
        self._syncing = syncing
        return syncing

    def _sync_in_background(self) -> None:
        # A fault here has nobody to tell: it is met again, and told, by whoever next waits for a sync.
        self._timer = None
        if self._syncing is None and self._synced < self._size:
            self._begin()

    def _cut_back(self) -> None:
        os.ftruncate(self._fd, self._size)
        self._torn = False


def _fsync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        # A pipe or a device has no disk to sync to.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _cut_fragment(fd: int) -> int:
    """Cut a torn last line off; the size of what remains."""
    size = os.fstat(fd).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        block = os.pread(fd, end - start, start)
        found = block.rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        if os.pread(fd, 1, end) not in _FRAGMENT_BEGINS:
            raise LedgerFailed("the ledger file ends in something that is no record; choose another file")
        os.ftruncate(fd, end)
    return end
