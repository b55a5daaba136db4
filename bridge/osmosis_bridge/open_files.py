"""How many files a process may have open at once: the limit of its own is raised to what it needs, within the system's.

The soft limit of a shell is often 1,024, which nobody chose; the hard one is what the machine allows. Children inherit
both.
"""

from __future__ import annotations

import resource
from contextlib import suppress
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
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return OpenFiles(wanted, None if soft == resource.RLIM_INFINITY else soft)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    # A system may know a lower limit than the one it tells.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return OpenFiles(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
