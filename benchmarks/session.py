"""One run of the benchmark while it lasts: tools, upstream, folder, time that is left, and the book it writes.

Starts contestants and measures what a phase cost; what the phases are is said elsewhere.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks import bodies
from benchmarks.contestants import Contestant, Place, free_port
from benchmarks.environments import Unusable
from benchmarks.machine import Cores, busy_s
from benchmarks.processes import Started, cpu_s, resident_mb, start, stop
from benchmarks.results import Book
from benchmarks.tools import Figures, Goal, ToolFailed, Tools, Upstream

T = TypeVar("T")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER")
_POLL_S = 0.002
SETTLE_S = 0.5


FAILURES = (
    Unusable,
    ToolFailed,
    OSError,
    LookupError,
    ValueError,
    ArithmeticError,
    subprocess.SubprocessError,
    http.client.HTTPException,
)
"""What may go wrong with one measure without ending the run."""


class Meter:
    """How much CPU processes that are not of this benchmark use from now on."""

    def __init__(self) -> None:
        self._busy, self._own, self._at = busy_s(), cpu_s(os.getpid()), time.monotonic()

    def foreign_pct(self) -> float:
        """Their share of one core so far."""
        busy, own, wall = busy_s() - self._busy, cpu_s(os.getpid()) - self._own, time.monotonic() - self._at
        return max(0.0, busy - own) / wall * 100


class OutOfTime(Exception):
    """The time for this run is used up."""


@dataclass(slots=True)
class Running:
    """A contestant that answers; `ready_ms` is from its start to its first 200."""

    contestant: Contestant
    goal: Goal
    folder: Path
    started: Started | None = None
    ready_ms: float = 0.0

    @property
    def pid(self) -> int:
        """The process id of its root, 0 where there is no process."""
        return self.started.pid if self.started else 0

    @property
    def cpu_s(self) -> float:
        """CPU of its whole process tree so far."""
        return cpu_s(self.started.pid) if self.started else 0.0

    @property
    def resident_mb(self) -> float:
        """Memory of its whole process tree."""
        return resident_mb(self.started.pid) if self.started else 0.0


@dataclass(slots=True)
class Session:
    """Everything the measures share."""

    tools: Tools
    upstream: Upstream
    cores: Cores
    folder: Path
    book: Book
    until: float
    tell: Callable[[str], None]
    _count: int = field(default=0)

    def need(self, seconds: float, what: str) -> None:
        """Raise `OutOfTime`, and leave a note, unless so many seconds are left."""
        if time.monotonic() + seconds > self.until:
            self.book.note(f"{what}: left out, the time for this run was used up (--minutes gives it more)")
            raise OutOfTime

    def new_folder(self, name: str) -> Path:
        """An empty folder on the disk of the checkout."""
        self._count += 1
        folder = self.folder / f"{self._count:03d}-{name}"
        folder.mkdir(parents=True)
        return folder

    @contextmanager
    def running(self, contestant: Contestant) -> Generator[Running, None, None]:
        """A contestant, from its first answer to its end. Raises `Unusable`."""
        folder = self.new_folder(contestant.name)
        place = Place(folder, free_port(), self.upstream.port)
        running = Running(contestant, goal_of(contestant, self.upstream.port), folder)
        if contestant.launch is None:
            yield running
            return
        launch = contestant.launch(place)
        environ = {**environment(), **launch.environ}
        core = [self.cores.contestant]
        running.started = start(launch.command, folder / "log.txt", core, folder, environ)
        try:
            self._wait(running, place.port, launch.url_file)
            yield running
        finally:
            stop(running.started)
            shutil.rmtree(folder, ignore_errors=True)

    def _wait(self, running: Running, port: int, url_file: Path | None) -> None:
        """Ask until the answer is a 200."""
        started, contestant = running.started, running.contestant
        if started is None:
            return
        body = bodies.small(contestant.model, bodies.mark())
        asked = bodies.write(running.folder, "first", body).read_bytes()
        while time.monotonic() < started.at + contestant.ready_s:
            found = port if url_file is None else port_in(url_file)
            if found is not None:
                running.goal = goal_of(contestant, found)
                if answers(running.goal, asked):
                    running.ready_ms = (time.monotonic() - started.at) * 1e3
                    return
            if started.process.poll() is not None:
                raise Unusable(f"it ended with {started.process.returncode}: {started.last_words()}")
            time.sleep(_POLL_S)
        raise Unusable(f"it did not answer within {contestant.ready_s:.0f} s: {started.last_words()}")

    def settle(self, running: Running, within_s: float = 15.0) -> None:
        """Wait until a contestant has nothing left to do of what came before."""
        until = time.monotonic() + within_s
        while running.started is not None and time.monotonic() < until:
            before = running.cpu_s
            time.sleep(0.3)
            if running.cpu_s - before < 0.03:
                return

    def phase(
        self, running: Running, measure: str, round_: int, work: Callable[[], Figures], per: str = "requests"
    ) -> Figures:
        """Do one measured piece of work and keep what came of it, with its cost per `per`."""
        meter, before, at = Meter(), running.cpu_s, time.monotonic()
        figures = work()
        wall, spent, foreign = time.monotonic() - at, running.cpu_s - before, meter.foreign_pct()
        if running.started is not None and figures.get(per):
            figures["cpu_ms"] = spent * 1e3 / figures[per]
            figures["cpu_us"] = spent * 1e6 / figures[per]
            figures["cpu_pct"] = spent / wall * 100
        if not figures.get(per):
            raise ToolFailed(f"{measure}: not one of the {per} came through in {wall:.0f} s")
        self.book.observe(measure, running.contestant.name, round_, figures, foreign)
        return figures


def environment() -> dict[str, str]:
    """What every contestant gets of ours: no key, no proxy, no virtual environment."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def goal_of(contestant: Contestant, port: int) -> Goal:
    """Where the clients send this contestant's calls."""
    return Goal(port, contestant.path, (f"Authorization: Bearer {contestant.bearer}",))


def port_in(url_file: Path) -> int | None:
    """The port of the URL in a file; None while it is not there."""
    try:
        return int(url_file.read_text(encoding="utf-8").split(":")[2].split("/")[0])
    except (OSError, IndexError, ValueError):
        return None


def answers(goal: Goal, body: bytes) -> bool:
    """Whether one call is answered with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", goal.port, timeout=10)
    headers = dict(header.split(": ", 1) for header in goal.headers) | {"Content-Type": "application/json"}
    try:
        connection.request("POST", goal.path, body, headers)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def rotated(items: Sequence[T], by: int) -> list[T]:
    """The items in an order that differs from round to round, so that none is always first."""
    at = by % len(items) if items else 0
    return [*items[at:], *items[:at]]
