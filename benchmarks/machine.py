"""The machine a benchmark runs on: its cores, its load, what it is made of. Knows nothing of what is measured."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

QUIET_LOAD = 0.5
"""A load average above this means that somebody else is working here."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Cores:
    """Which core the upstream and the client share, and which one the contestant has to itself."""

    client: int
    contestant: int

    @property
    def apart(self) -> bool:
        """Whether they are two."""
        return self.client != self.contestant


def choose_cores() -> Cores:
    """The first two cores this process may use; twice the same where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return Cores(usable[0], usable[1] if len(usable) > 1 else usable[0])


@contextmanager
def pinned(*cores: int) -> Generator[None, None, None]:
    """Processes that this thread starts meanwhile run on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def adopt_orphans() -> None:
    """Processes whose parent died become ours, so that they can be found and ended."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def raise_file_limit() -> int:
    """As many open files as this process may have; returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def load_average() -> float:
    """How many processes wanted a core, on average over the last minute."""
    return os.getloadavg()[0]


def busy_s() -> float:
    """Seconds of CPU that the whole machine has spent, waiting for disks left out, time stolen by others counted."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    idle, waiting = fields[3], fields[4]
    return (sum(fields[:8]) - idle - waiting) / _TICKS


def is_quiet() -> bool:
    """Whether nobody else seems to be working on this machine."""
    return load_average() <= QUIET_LOAD


def wait_until_quiet(within_s: float, tell: Callable[[str], None]) -> bool:
    """Wait for the load to go down, at most so long; returns whether it did."""
    until = time.monotonic() + within_s
    told = False
    while not is_quiet():
        if time.monotonic() >= until:
            return False
        if not told:
            tell(
                f"load average {load_average():.2f}; waiting up to {within_s:.0f} s for {QUIET_LOAD} or less"
            )
            told = True
        time.sleep(1)
    return True


def describe() -> dict[str, object]:
    """Processor, kernel and memory, for whoever reads the figures."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_mb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6),
        "kernel": platform.release(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"
