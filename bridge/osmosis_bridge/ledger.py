"""Where records are kept: JSON lines in a file, or nowhere.

Promises, each held by a test of the same name:

- a record that was appended survives the death of this process at any later instant (it was handed to the system with
  write(2) before `append` returned);
- it survives the death of the machine from the next `sync` on, or after `SYNC_EVERY` seconds at the latest;
- a line is never torn: a write that fails half-way is cut off again, before anything else is written, and a fragment
  that a crash left at the end is cut off when the file is opened;
- a record that could not be written is held, and written in its order once the file can be written again;
- what a failed sync covered is written again before a sync claims success;
- one file has one writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from osmosis_bridge.errors import LedgerFailed, Unrecordable

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SYNC_EVERY = 1.0
"""Seconds after which what was written is on the disk itself."""
RETRY_FIRST_S = 0.1
RETRY_LAST_S = 1.0
"""The pauses between attempts to write again: the first one, doubled up to the last one."""
HELD_MOST = 10_000
"""Records in memory, beyond which those of calls that were not admitted are not held."""
CODE = "ledger_unavailable"
# A record is a JSON object; a machine that lost power can leave zeros in its place.
_FRAGMENT_BEGINS = (b"{", b"\0")
_SOON = ((b"retry-after", b"1"),)
_REMEDIES = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room in its owner's quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "make its file system writable",
}


class Trouble(msgspec.Struct, frozen=True):
    """Why records cannot be kept at present: the file, what is wrong with it, what to do."""

    file: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"the ledger {self.file!r} {self.reason}; {self.remedy}"

    def refusal(self) -> Unrecordable:
        """The answer to a call that comes meanwhile."""
        return Unrecordable(f"no call is sent while none can be recorded: {self}", code=CODE, headers=_SOON)


class Ledger(Protocol):
    """What the bridge needs of a place for records."""

    trouble: Trouble | None
    """Why records cannot be kept at present; None while they can."""

    @property
    def held(self) -> int:
        """How many records wait to be written."""
        ...

    def append(self, line: bytes) -> None:
        """Keep one line, without its line feed; raises `LedgerFailed`, and then nothing of it is kept."""
        ...

    def hold(self, line: bytes, *, admitted: bool) -> bool:
        """Keep a line in memory until it can be written; False for a refusal that is one too many."""
        ...

    async def sync(self) -> None:
        """Return when everything appended and held so far is on disk; raises `LedgerFailed`."""
        ...

    async def close(self) -> None:
        """Sync and let go of the file."""
        ...


class NoLedger:
    """Keeps nothing: the bridge counts totals only."""

    trouble: Trouble | None = None
    held = 0

    def append(self, line: bytes) -> None:
        """Forget one line."""

    def hold(self, line: bytes, *, admitted: bool) -> bool:
        """Forget one line."""
        return True

    async def sync(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""


class FileLedger:
    """Appends lines to one file, created with mode 0600; raises `LedgerFailed` where it cannot be opened.

    While lines are held, none is written before them. The log is told once when trouble begins and once when it is
    over, and of each record of an admitted call that waits, so that even a kill loses none.
    """

    def __init__(self, path: Path, log: FilteringBoundLogger | None = None) -> None:
        self.path = path
        self.trouble: Trouble | None = None
        self._log = log
        self._fd = _opened(path)
        try:
            self._size = _cut_fragment(self._fd)
        except BaseException:
            os.close(self._fd)
            raise
        self._synced = self._size
        self._torn = False
        self._unsynced: list[bytes] = []
        self._sync_failed = False
        self._timer: asyncio.TimerHandle | None = None
        self._syncing: asyncio.Future[None] | None = None
        self._held: deque[bytes] = deque()
        self._refusals_dropped = 0
        self._retry_timer: asyncio.TimerHandle | None = None
        self._pause = RETRY_FIRST_S

    @property
    def held(self) -> int:
        """How many records wait to be written."""
        return len(self._held)

    def append(self, line: bytes) -> None:
        """Hand one line to the system, after those that are held; see the promises above."""
        try:
            if self.trouble is not None:
                self._write_held()
                self._refuse_if_too_much_is_unsynced()
            self._write(line + b"\n")
        except OSError as error:
            raise LedgerFailed(
                f"the record of this call could not be written: {self._failing(error)}", code=CODE
            ) from None
        if self.trouble is not None:
            self._look_up()

    def hold(self, line: bytes, *, admitted: bool) -> bool:
        """Keep a line that `append` refused until it can be written; of calls that were not admitted only so many."""
        if not admitted and len(self._held) >= HELD_MOST:
            self._refusals_dropped += 1
            return False
        self._held.append(line + b"\n")
        if admitted or self._fd < 0:
            self._tell_record("record waits for the ledger", line)
        return True

    async def sync(self) -> None:
        """One fsync in a thread for all who wait; what is appended meanwhile waits for the next."""
        try:
            self._write_held()
            target = self._size
            while self._synced < target:
                await asyncio.wait((self._syncing or self._begin_sync(),))
                if self._sync_failed:
                    break
        except OSError as error:
            self._failing(error)
        self._look_up()
        if self.trouble is not None:
            raise LedgerFailed(str(self.trouble), code=CODE, status=503, headers=_SOON)

    async def close(self) -> None:
        """Write and sync what is left, then release the file and its lock; what cannot be kept is logged."""
        for timer in (self._timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        try:
            await self.sync()
        except LedgerFailed as failed:
            raise self._lost(failed) from None
        finally:
            fd, self._fd = self._fd, -1
            if self._retry_timer is not None:
                self._retry_timer.cancel()
            os.close(fd)

    def _write(self, line: bytes) -> None:
        """Write one whole line or nothing; raises OSError."""
        written = os.write(self._fd, line)
        try:
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError:
            self._torn = True
            with contextlib.suppress(OSError):
                self._cut_back()
            raise
        self._size += len(line)
        self._unsynced.append(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SYNC_EVERY, self._sync_in_background)

    def _write_held(self) -> None:
        if self._torn:
            self._cut_back()
        while self._held:
            self._write(self._held[0])
            self._held.popleft()

    def _cut_back(self) -> None:
        os.ftruncate(self._fd, self._size)
        self._torn = False

    def _begin_sync(self) -> asyncio.Future[None]:
        """Start an fsync; raises OSError where what an earlier one failed on cannot be written again."""
        if self._sync_failed:
            # The system forgets what it failed to write: another fsync alone would succeed and mean nothing.
            _write_over(self._fd, b"".join(self._unsynced), self._synced)
        size, lines = self._size, len(self._unsynced)

        def done(syncing: asyncio.Future[None]) -> None:
            self._syncing = None
            fault = syncing.exception()
            if fault is None:
                self._synced = size
                self._sync_failed = False
                del self._unsynced[:lines]
                self._look_up()
                return
            self._sync_failed = True
            self._failing(fault, "could not be synced")

        syncing = asyncio.get_running_loop().run_in_executor(None, _fsync, self._fd)
        syncing.add_done_callback(done)
        self._syncing = syncing
        return syncing

    def _sync_in_background(self) -> None:
        self._timer = None
        if self._syncing is None and self._synced < self._size and not self._sync_failed:
            self._begin_sync()

    def _failing(self, error: BaseException, what: str = "cannot be written") -> Trouble:
        """Note why records cannot be kept, say so once, and see to it that it is tried again."""
        number = getattr(error, "errno", None)
        remedy = _REMEDIES.get(number or 0, "see to its disk, or restart the bridge with another --ledger")
        reason = f"{what}: {getattr(error, 'strerror', None) or error}"
        trouble = Trouble(_present_name(self._fd, self.path), reason, remedy)
        if self._log is not None and (self.trouble is None or self.trouble.reason != reason):
            self._log.error("the ledger fails, no call is served", error=str(trouble))
        self.trouble = trouble
        if self._retry_timer is None and self._fd >= 0:
            self._retry_timer = asyncio.get_running_loop().call_later(self._pause, self._retry)
            self._pause = min(2 * self._pause, RETRY_LAST_S)
        return trouble

    def _retry(self) -> None:
        self._retry_timer = None
        try:
            self._write_held()
            if self._sync_failed and self._syncing is None:
                self._begin_sync()
                return
        except OSError as error:
            self._failing(error)
        self._look_up()

    def _look_up(self) -> None:
        """The trouble is over when nothing is held and the last sync did not fail."""
        if self.trouble is None or self._held or self._sync_failed or self._torn:
            return
        self.trouble = None
        self._pause = RETRY_FIRST_S
        dropped, self._refusals_dropped = self._refusals_dropped, 0
        if self._log is not None:
            self._log.warning("the ledger is kept again", refusals_not_recorded=dropped)

    def _refuse_if_too_much_is_unsynced(self) -> None:
        if self._sync_failed and len(self._unsynced) >= HELD_MOST:
            raise OSError(errno.EIO, "too much waits to be synced")

    def _lost(self, failed: LedgerFailed) -> LedgerFailed:
        """Everything that is not safely on disk goes to the log, where it may be taken from."""
        unsure = self._unsynced if self._sync_failed else []
        for event, lines in (("record not synced", unsure), ("record not in the ledger", self._held)):
            for line in lines:
                self._tell_record(event, line)
        left = len(unsure) + len(self._held)
        message = f"{failed.message}; records that are not safe in it and stand in the log: {left}"
        return LedgerFailed(message, code=CODE)

    def _tell_record(self, event: str, line: bytes) -> None:
        if self._log is not None:
            self._log.error(event, record=line.decode().rstrip())


def _opened(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LedgerFailed(f"cannot open the ledger {str(path)!r}: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise LedgerFailed(
            f"another process writes the ledger {str(path)!r}; choose another --ledger file"
        ) from None
    return fd


def _present_name(fd: int, path: Path) -> str:
    """Where the open file is now: it may have been renamed."""
    try:
        found = str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return str(path)
    return found if found.startswith("/") and not found.startswith("/dev/") else str(path)


def _write_over(fd: int, content: bytes, start: int) -> None:
    """Write `content` once more where it stands, so that the system holds it for unwritten; raises OSError."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    # A file opened for appending takes every write at its end, whatever place is named.
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_APPEND)
    try:
        written = 0
        while written < len(content):
            written += os.pwrite(fd, content[written:], start + written)
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


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
