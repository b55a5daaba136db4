"""The lock of a run: one process at a time, and whoever is refused learns who holds it.

An advisory `flock` on `OUTPUT/.locks/NAME.lock`, outside the run's folder so that `--fresh` can rename that; the kernel
drops it with its process, so a killed owner never blocks. The file holds the owner's pid, host and start.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import msgspec

from osmosis_runner.errors import RunDirError, RunLocked, StorageError

LOCKS = ".locks"
_LONGEST_OWNER = 4096


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a lock."""

    pid: int
    host: str
    since: str
    """ISO 8601 UTC."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class RunLock:
    """A held lock; a context manager."""

    def __init__(self, descriptor: int, owner: Owner) -> None:
        self.owner = owner
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, output: Path, name: str, owner: Owner) -> RunLock:
        """Take the lock of run `name` without waiting.

        Raises `RunLocked` naming the holder, `RunDirError` and `StorageError`.
        """
        path = output / LOCKS / f"{name}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = _open(path, os.O_RDWR | os.O_CREAT)
        except FileExistsError:
            raise RunDirError(f"{path.parent} is not a folder; choose another --output") from None
        except OSError as error:
            raise StorageError.of(str(path), error, "nothing was started") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write_owner(descriptor, owner)
        except BlockingIOError:
            raise _locked(path, name, descriptor) from None
        except OSError as error:
            os.close(descriptor)
            raise StorageError.of(str(path), error, "nothing was started") from None
        return cls(descriptor, owner)

    def release(self) -> None:
        """Let go; idempotent."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            # The file stays: removing it would let two processes lock two files of one name.
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

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
