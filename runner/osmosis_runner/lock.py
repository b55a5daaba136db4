"""The lock of a run: one process at a time, and whoever is refused learns who holds it.

An advisory `flock` on `OUTPUT/.locks/NAME.lock`, outside the run's folder so that `--fresh` can rename that; the kernel
drops it with its process, so a killed owner never blocks. The file holds the owner's pid, host and start. It is removed
while the lock is held: whoever has opened it before that finds, once let in, that it is no longer the one of that name,
and asks again. So two processes never hold locks on two files of one name.

Who only looks (`lock_holder`) shares the lock for that moment, and whoever takes it then is not refused for it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Self

import msgspec
from msgspec.structs import asdict

from osmosis_runner.errors import RunDirError, RunLocked, StorageError

LOCKS = ".locks"
ATTEMPTS = 100
"""Times a file that others remove is made and opened again."""
LOOKS = 100
"""Times a lock that others only look at is asked for again."""
LOOK_S = 0.002
UNWRITABLE = "nothing was started; choose an --output that can be written"
_LONGEST_OWNER = 4096


class Owner(msgspec.Struct, frozen=True):
    """Who holds a lock."""

    pid: int
    host: str
    since: str
    """ISO 8601 UTC."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class RunLock:
    """A held lock; a context manager."""

    def __init__(self, path: Path, descriptor: int, owner: Owner, made: Sequence[Path]) -> None:
        self.owner = owner
        self._path = path
        self._descriptor = descriptor
        self._made = made

    @classmethod
    def acquire(cls, output: Path, name: str, owner: Owner) -> RunLock:
        """Take the lock of run `name` without waiting.

        Raises `RunLocked` naming the holder, `RunDirError` and `StorageError`.
        """
        path = output / LOCKS / f"{name}.lock"
        try:
            descriptor, made = _taken(path, name)
        except FileExistsError:
            raise RunDirError(f"{path.parent} is not a folder; choose another --output") from None
        except OSError as error:
            raise StorageError.of(str(path), error, UNWRITABLE) from None
        lock = cls(path, descriptor, owner, made)
        try:
            _write_owner(descriptor, owner)
        except OSError as error:
            lock.release()
            raise StorageError.of(str(path), error, UNWRITABLE) from None
        return lock

    def release(self) -> None:
        """Let go, and remove the file and the folders that were made for it and hold nothing; idempotent."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            with suppress(OSError):
                self._path.unlink()
        finally:
            os.close(descriptor)
        with suppress(OSError):
            for folder in (self._path.parent, *self._made):
                folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_holder(output: Path, name: str) -> Owner | None:
    """Return who holds the lock of `name` now; None when nobody does.

    Asks the kernel, so what a killed owner left in the file does not count.
    """
    try:
        descriptor = _open(output / LOCKS / f"{name}.lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_owner(descriptor) or Owner(0, "unknown", "unknown")
    finally:
        os.close(descriptor)
    return None


def _taken(path: Path, name: str) -> tuple[int, Sequence[Path]]:
    """The open and locked file, and the folders made for it. Raises `RunLocked` and OSError."""
    for _ in range(ATTEMPTS):
        # Whoever lets go of a lock removes its file and what it made: then all is made again.
        with suppress(FileNotFoundError):
            made = _make_folders(path.parent)
            descriptor = _locked_file(path, name)
            if descriptor is not None:
                return descriptor, made
    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _make_folders(locks: Path) -> list[Path]:
    """Make the folder of locks; the folders above it that had to be made too, innermost first. Raises OSError."""
    missing = [*takewhile(lambda folder: not folder.exists(), locks.parents)]
    try:
        locks.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        # Said of a folder too that went away before it was looked at: then `stat` says so, or finds the next one.
        if not stat.S_ISDIR(locks.stat().st_mode):
            raise
    return missing


def _locked_file(path: Path, name: str) -> int | None:
    """The open and locked file; None where it is no longer the one at `path`. Raises `RunLocked` and OSError."""
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        _lock(descriptor)
        if os.path.samestat(os.fstat(descriptor), path.lstat()):
            return descriptor
    except BlockingIOError:
        raise _locked(path, name, descriptor) from None
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _lock(descriptor: int) -> None:
    """Take the lock; raises BlockingIOError where another has it, and not where others only look at it."""
    for _ in range(LOOKS):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        # Refused even a share of it, somebody holds it; given one, somebody was only looking.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(LOOK_S)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _write_owner(descriptor: int, owner: Owner) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(owner)).encode() + b"\n", 0)


def _read_owner(descriptor: int) -> Owner | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, _LONGEST_OWNER, 0), type=Owner)
    except (msgspec.DecodeError, OSError):
        return None


def _locked(path: Path, name: str, descriptor: int) -> RunLocked:
    holder = _read_owner(descriptor)
    os.close(descriptor)
    who = str(holder) if holder else "another process"
    return RunLocked(
        f"run {name!r} is held by {who}; wait for it, or choose another --name",
        {"name": name, "lock": str(path), **(asdict(holder) if holder else {})},
    )
