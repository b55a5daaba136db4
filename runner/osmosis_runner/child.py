"""A child process of a run: started in a session of its own, its output drained for ever, ended with all it started.

Reading never waits for anything, so a child cannot stall on a full pipe. Knows nothing of what the child does.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.last_words import telling
from osmosis_runner.orphans import children, die_with_parent, reap
from osmosis_runner.output_lines import LineCutter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CHUNK = 65_536
LINES_KEPT = 60
POLL_S = 0.05
LOOK_EVERY_S = 0.01
REAP_EVERY_S = 1.0
EXIT_LAG_S = 1.0
"""How long after a broken connection a dying process may take to be dead."""


class Command(msgspec.Struct, frozen=True):
    """How to start a child."""

    arguments: Sequence[str]
    folder: Path
    environ: Mapping[str, str]
    name: str
    """In words, for messages: `the rollout server`."""


Heard = Callable[[list[str]], None]
"""Is given a child's output, line by line."""


class Nursery:
    """Starts the children of a run and knows them from children that came to this process as orphans."""

    def __init__(self) -> None:
        self._known = set(children())

    def start(self, command: Command, heard: Heard) -> Child:
        """Start a child; raises OSError when it cannot be started."""
        child = Child(command, heard)
        self._known.add(child.pid)
        return child

    def strangers(self) -> list[int]:
        """Children of this process that nobody here started: orphans of ours."""
        return [pid for pid in children() if pid not in self._known]

    async def reap_strangers(self) -> None:
        """Collect dead orphans now and then, for ever."""
        while True:
            await asyncio.sleep(REAP_EVERY_S)
            for pid in self.strangers():
                reap(pid)

    def end_strangers(self) -> int:
        """Kill and collect the orphans that are left; how many there were."""
        left = self.strangers()
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            reap(pid, wait=True)
        return len(left)


class Child:
    """A running child. `exited` is set once it is dead."""

    def __init__(self, command: Command, heard: Heard) -> None:
        """Start it; `heard` is given its output line by line. Raises OSError when it cannot be started."""
        self._loop = asyncio.get_running_loop()
        self._heard = heard
        self._cutter = LineCutter()
        self.name = command.name
        self.last_lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self.spoke = asyncio.Event()
        self._output, write_end = os.pipe()
        os.set_blocking(self._output, False)
        try:
            self._process = subprocess.Popen(
                list(command.arguments),
                cwd=command.folder,
                env=dict(command.environ),
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call, loaded beforehand
            )
        except (OSError, ValueError) as error:
            os.close(self._output)
            if isinstance(error, ValueError):
                # A null byte in an argument or a variable.
                raise OSError(errno.EINVAL, str(error)) from None
            raise
        finally:
            os.close(write_end)
        self._loop.add_reader(self._output, self._read)
        self._watch_exit()

    @property
    def pid(self) -> int:
        """Process id, also the id of its group and session."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    def describe_exit(self) -> str:
        """How it ended and the last thing it said, for a message."""
        code = self.returncode
        if code is None:
            text = f"{self.name} is still running"
        elif code < 0:
            text = f"{self.name} was killed by {_signal_name(-code)}"
        else:
            text = f"{self.name} exited with code {code}"
        last = telling(self.last_lines)
        return f"{text}; its last output: {last}" if last else f"{text} and said nothing"

    async def dies(self) -> bool:
        """Whether it is dead, or dies within a moment: its connections break before it is gone."""
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_LAG_S):
                await self.exited.wait()
        return self.exited.is_set()

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, SIGKILL to its whole group after the grace, and the rest of its output read."""
        if not self.exited.is_set():
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.exited.wait()
        await self.kill()

    async def kill(self) -> None:
        """SIGKILL to its whole group, and the rest of its output read. Idempotent."""
        if not self.exited.is_set():
            self._signal(signal.SIGKILL)
            await self.exited.wait()
        # A grandchild in another session may hold the pipe open for ever.
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await self.drained.wait()
        self._end_output()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _read(self) -> None:
        try:
            chunk = os.read(self._output, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._end_output()
            return
        self._tell(self._cutter.feed(chunk))

    def _tell(self, lines: list[str]) -> None:
        if lines:
            self.last_lines.extend(lines)
            self.spoke.set()
            self._heard(lines)

    def _end_output(self) -> None:
        if self.drained.is_set():
            return
        self.drained.set()
        self._loop.remove_reader(self._output)
        os.close(self._output)
        self._tell(self._cutter.finish())

    def _watch_exit(self) -> None:
        try:
            handle = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            self._poll_exit()
            return

        def ended() -> None:
            self._loop.remove_reader(handle)
            os.close(handle)
            # Before it is reaped its id, and so its group's, cannot have passed to somebody else.
            self._signal(signal.SIGKILL)
            self._process.wait()
            self.exited.set()

        self._loop.add_reader(handle, ended)

    def _poll_exit(self) -> None:
        # Where the system cannot tell, ask.
        if self._process.poll() is None:
            self._loop.call_later(POLL_S, self._poll_exit)
        else:
            self.exited.set()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def until(child: Child, ready: Callable[[], bool], within_s: float) -> bool:
    """Wait until `ready()`; False when the child died first. Raises TimeoutError after `within_s`.

    It is asked whenever the child says something, and now and then.
    """
    deadline = time.monotonic() + within_s
    while not ready():
        if child.exited.is_set():
            return ready()
        if time.monotonic() > deadline:
            raise TimeoutError
        child.spoke.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_S):
                await child.spoke.wait()
    return True
