"""Processes of a benchmark: started on a core, measured with all their descendants, and ended whatever happens.

Figures come from /proc. Knows nothing of what the processes do.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine import pinned

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
STOP_GRACE_S = 8.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process has used: seconds of CPU of its own, of descendants it has seen end, and memory."""

    parent: int
    cpu_s: float
    ended_cpu_s: float
    resident_mb: float


def cost_of(pid: int) -> Cost | None:
    """The cost of one process; None once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6
    except (OSError, IndexError):
        return None
    own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return Cost(int(fields[1]), own / _TICKS, ended / _TICKS, resident)


def tree(root: int) -> dict[int, Cost]:
    """A process and all its living descendants."""
    found: dict[int, Cost] = {}
    members = [root]
    for pid in members:
        cost = cost_of(pid)
        if cost is None or pid in found:
            continue
        found[pid] = cost
        members += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    """The children of every thread of a process; looks at all processes where the kernel keeps no such list."""
    threads = Path(f"/proc/{pid}/task")
    try:
        lists = [(thread / "children").read_text() for thread in threads.iterdir()]
    except OSError:
        if not threads.exists() or Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
            return []
        every = (
            (int(entry.name), cost_of(int(entry.name)))
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit()
        )
        return [child for child, cost in every if cost is not None and cost.parent == pid]
    return [int(child) for children in lists for child in children.split()]


def cpu_s(root: int) -> float:
    """Seconds of CPU that a process, its descendants, and descendants that ended have used."""
    return sum(cost.cpu_s + cost.ended_cpu_s for cost in tree(root).values())


def resident_mb(root: int) -> float:
    """Memory of a process and its descendants, shared pages counted each time."""
    return sum(cost.resident_mb for cost in tree(root).values())


def guarded(command: Sequence[str]) -> list[str]:
    """The command, killed by the kernel when the benchmark dies, where the machine has setpriv."""
    setpriv = shutil.which("setpriv")
    return [*((setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()), *command]


@dataclass(slots=True)
class Started:
    """A process that runs, and the moment it was started (monotonic seconds)."""

    process: subprocess.Popen[bytes]
    log: Path
    at: float

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def last_words(self) -> str:
        """The end of what it wrote, on one line."""
        with suppress(OSError):
            return " ".join(self.log.read_text("utf-8", "replace")[-400:].split())
        return ""


def start(
    command: Sequence[str], log: Path, cores: Sequence[int], cwd: Path, environ: Mapping[str, str]
) -> Started:
    """Start a process on these cores; what it writes goes to `log`. Raises OSError."""
    with log.open("wb") as out, pinned(*cores):
        at = time.monotonic()
        process = subprocess.Popen(
            guarded(command),
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Started(process, log, at)


def stop(started: Started) -> None:
    """Ask a process and its descendants to end, then end them."""
    members = list(tree(started.pid))
    _signal(members[:1], signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        started.process.wait(STOP_GRACE_S)
    end(members)
    with suppress(subprocess.TimeoutExpired):
        started.process.wait(STOP_GRACE_S)


def end(pids: Sequence[int]) -> None:
    """Kill processes that we started; those that are gone are passed over."""
    _signal(pids, signal.SIGKILL)


def end_descendants() -> None:
    """Kill whatever this benchmark started and is still there."""
    for _ in range(3):
        left = [pid for pid in tree(os.getpid()) if pid != os.getpid()]
        if not left:
            return
        end(left)
        _reap()
        time.sleep(0.1)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


@dataclass(slots=True)
class Watch:
    """What a process tree has used while it was watched; a process that ended counts with what was last seen."""

    root: int
    peak_mb: float = 0.0
    root_peak_mb: float = 0.0
    root_cpu_s: float = 0.0
    until: float = 0.0
    """When the watched process was seen to have ended (monotonic seconds)."""
    _seen: dict[int, float] = field(default_factory=dict[int, float])

    def look(self) -> None:
        """Take one sample."""
        now = tree(self.root)
        for pid, cost in now.items():
            self._seen[pid] = cost.cpu_s
        self.peak_mb = max(self.peak_mb, sum(cost.resident_mb for cost in now.values()))
        if self.root in now:
            self.root_cpu_s = now[self.root].cpu_s
            self.root_peak_mb = max(self.root_peak_mb, now[self.root].resident_mb)

    def ended(self) -> None:
        """Keep the time at which the process ended."""
        self.until = time.monotonic()

    @property
    def tree_cpu_s(self) -> float:
        """Seconds of CPU of every process that was seen."""
        return sum(self._seen.values())


@contextmanager
def watching(root: int, every_s: float = 0.1) -> Generator[Watch, None, None]:
    """Sample a process tree in a thread until the block ends."""
    watch, over = Watch(root), threading.Event()

    def sample() -> None:
        while not over.wait(every_s):
            watch.look()

    watch.look()
    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join(5)
        watch.look()
