"""How many files a process may have open at once: the limit of its own is raised to what it needs, within the system's.

The soft limit of a shell is often 1,024, which nobody chose; the hard one is what the machine allows. Children inherit
both.

Linux keeps a table of a process's open files that doubles when it is full, and a process with threads stands still for
10 to 20 ms each time (`expand_fdtable` waits for `synchronize_rcu`); so room is made at once, while there are none.
"""

from __future__ import annotations

import fcntl
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

AT_REST: Final = 128
"""Open files of a process beside its connections."""


class OpenFiles(msgspec.Struct, frozen=True):
    """What is wanted, and what the process may have now."""

    wanted: int
    allowed: int | None
    """None where there is no limit."""

    @property
    def short(self) -> bool:
        """Whether it may have fewer than it wants."""
        return self.allowed is not None and self.allowed < self.wanted

    @property
    def shortage(self) -> str:
        """That it may, in words."""
        return f"{self.wanted:,} open files may be wanted, and this process may have {self.allowed or 0:,}"

    @property
    def remedy(self) -> str:
        """What to type before the command is given again."""
        return (
            f"sudo prlimit --pid $$ --nofile={self.wanted} "
            f"(in a container: docker run --ulimit nofile={self.wanted})"
        )


def for_connections(most: int) -> int:
    """Open files of a process that has so many connections on each of its two sides."""
    return AT_REST + 2 * most


def raise_open_files(wanted: int) -> OpenFiles:
    """Let this process have as many open files as are wanted, or as many as it may; never fewer than it had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # A system may know a lower limit than the one it tells.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = OpenFiles(wanted, None if soft == resource.RLIM_INFINITY else soft)
    _make_room(min(wanted, files.allowed or wanted))
    return files


def _make_room(count: int) -> None:
    """Have the table made as large as so many open files need."""
    with suppress(OSError), Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, count - 1))
