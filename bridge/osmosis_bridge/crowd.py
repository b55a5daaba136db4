"""Whether what is sent in a turn of the event loop waits for the turn's end.

Each piece sent wakes the other side, which sleeps on another core or shares this one. Under load that is half of what
sending costs, and a burst at the end of the turn wakes each of them once. What comes alone has nobody to wait for.
"""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

CALM_AFTER: Final = 16
"""Turns in a row that brought one request or reply each, after which the next is taken to be alone too."""


class Crowd:
    """What comes in on one event loop, as far as it comes together; shared by all connections of the loop."""

    __slots__ = ("_arrivals", "_single", "together")

    def __init__(self) -> None:
        self.together = False
        """Whether what is sent is likely to have company: one of the last turns brought more than one."""
        self._arrivals = 0
        self._single = CALM_AFTER

    def arrived(self, loop: asyncio.AbstractEventLoop) -> None:
        """A request, or the beginning of a reply, was read; whoever it wakes runs after all that was read with it."""
        if not self._arrivals:
            # Before the tasks that are woken now: those are further back in the same queue.
            loop.call_soon(self._count)
        self._arrivals += 1

    def _count(self) -> None:
        self._single = self._single + 1 if self._arrivals == 1 else 0
        self._arrivals = 0
        self.together = self._single < CALM_AFTER


# By loop, since clients' and upstream's connections share it and know nothing of each other.
_CROWDS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Crowd]] = WeakKeyDictionary()


def crowd_of(loop: asyncio.AbstractEventLoop) -> Crowd:
    """The one crowd of an event loop."""
    crowd = _CROWDS.get(loop)
    if crowd is None:
        crowd = _CROWDS[loop] = Crowd()
    return crowd
