"""Processes of this machine that carry a variable, and a signal that reaches such a process and never another.

A process is held before its environment is read (by a pidfd, or by its start time through psutil), so one that has
ended meanwhile and whose number was given to somebody else is not met. Where there is no /proc it needs psutil.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")


def can_find(proc: Path = PROC) -> bool:
    """Whether processes can be found here by their environment."""
    return proc.is_dir() or _psutil() is not None


def carrying(variable: str, value: str, proc: Path = PROC) -> list[int]:
    """Process ids, other than our own, of those whose environment holds the variable with this value."""
    if not proc.is_dir():
        return [process.pid for process in _found(variable, value)]
    wanted = f"{variable}={value}".encode()
    numbers = (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    return [pid for pid in numbers if pid != os.getpid() and _carries(proc, pid, wanted)]


def kill_carrying(variable: str, value: str, proc: Path = PROC) -> list[int]:
    """SIGKILL to each of them; returns their ids."""
    if proc.is_dir():
        wanted = f"{variable}={value}".encode()
        for pid in (pids := carrying(variable, value, proc)):
            _kill(proc, pid, wanted)
        return pids
    killed: list[int] = []
    for process in _found(variable, value):
        killed.append(process.pid)
        # psutil looks at the start time once more. It may be gone, or not be ours to end.
        with suppress(process_errors()):
            process.kill()
    return killed


def children_of(pid: int, proc: Path = PROC) -> list[int]:
    """Process ids of its children, dead ones that were not collected yet included; empty where nobody tells."""
    path = proc / str(pid) / "task" / str(pid) / "children"
    if proc.is_dir():
        with suppress(OSError):
            return [int(word) for word in path.read_text("ascii").split()]
        return []
    library = _psutil()
    if library is None:
        return []
    with suppress(process_errors()):
        return [child.pid for child in library.Process(pid).children()]
    return []


def process_errors() -> type[Exception]:
    """What psutil raises for a process that has ended or belongs to somebody else."""
    library = _psutil()
    return library.Error if library is not None else OSError


def _carries(proc: Path, pid: int, wanted: bytes) -> bool:
    # A process may end, or belong to somebody else, while we look.
    with suppress(OSError):
        return wanted in (proc / str(pid) / "environ").read_bytes().split(b"\0")
    return False


def _kill(proc: Path, pid: int, wanted: bytes) -> None:
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        # An old kernel: the look before was a moment ago.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        return
    try:
        if _carries(proc, pid, wanted):
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def _found(variable: str, value: str) -> Iterator[Any]:
    library = _psutil()
    if library is None:
        return
    for process in library.process_iter():
        if process.pid == os.getpid():
            continue
        with suppress(process_errors(), OSError):
            if process.environ().get(variable) == value:
                yield process


def _psutil() -> Any:  # noqa: ANN401 - a module that is only there where it is needed
    try:
        return import_module("psutil")
    except ImportError:
        return None
