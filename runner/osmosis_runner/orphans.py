"""Processes that a run started, directly or not, found again by a mark in their environment and ended.

The mark is a variable that names the run; a process that carries it was started by this run or by something it
started, whatever session or group it has moved to. On Linux children of a killed run end by themselves; elsewhere
they are ended when the run is gone on with.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from osmosis_runner.processes import carrying, children_of, kill_carrying

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


def marked(mark: str) -> list[int]:
    """Process ids, other than our own, that carry the mark."""
    return carrying(MARK_VARIABLE, mark)


def children() -> list[int]:
    """Process ids of our children, dead ones that were not collected yet included; empty where nobody tells."""
    return children_of(os.getpid())


def kill_marked(mark: str, within_s: float = 2.0) -> int:
    """Kill every process that carries the mark, and those they start meanwhile; how many there were. Blocking."""
    killed: set[int] = set()
    deadline = time.monotonic() + within_s
    while (pids := kill_carrying(MARK_VARIABLE, mark)) and time.monotonic() < deadline:
        killed.update(pids)
        # A killed process holds its files and locks until it is gone.
        time.sleep(0.01)
    return len(killed)


def reap(pid: int, *, wait: bool = False) -> None:
    """Collect a dead child, if it is one of ours; with `wait` one that is about to die."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0 if wait else os.WNOHANG)
