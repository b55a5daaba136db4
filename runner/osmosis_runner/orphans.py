"""Processes that a run started, directly or not, found again by a mark in their environment and ended.

The mark is a variable that names the run; a process that carries it was started by this run or by something it
started, whatever session or group it has moved to. Needs /proc; elsewhere nothing is found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

MARK_VARIABLE = "_OSMOSIS_RUN_MARK"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
# Loaded once and here, because the function below runs between fork and exec, where nothing may be imported.
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None


def die_with_parent() -> None:
    """In a child before exec: be sent SIGTERM when the thread that started it is gone (kill -9 included)."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


@contextmanager
def adopting() -> Generator[None]:
    """While inside, orphans of our children become our own children, so that they can be found and reaped."""
    if _libc is None:
        yield
        return
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def marked(mark: str, proc: Path = Path("/proc")) -> list[int]:
    """Process ids, other than our own, that carry the mark."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    found: list[int] = []
    if not proc.is_dir():
        return found
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # A process may end, or belong to somebody else, while we look.
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def children() -> list[int]:
    """Process ids of our children, dead ones that were not collected yet included; empty where nobody tells."""
    path = Path("/proc/self/task") / str(os.getpid()) / "children"
    with suppress(OSError):
        return [int(pid) for pid in path.read_text("ascii").split()]
    return []


def kill_marked(mark: str, within_s: float = 2.0) -> int:
    """Kill every process that carries the mark, and those they start meanwhile; how many there were. Blocking."""
    killed: set[int] = set()
    deadline = time.monotonic() + within_s
    while (pids := marked(mark)) and time.monotonic() < deadline:
        for pid in pids:
            killed.add(pid)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        # A killed process holds its files and locks until it is gone.
        time.sleep(0.01)
    return len(killed)


def reap(pid: int, *, wait: bool = False) -> None:
    """Collect a dead child, if it is one of ours; with `wait` one that is about to die."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0 if wait else os.WNOHANG)
