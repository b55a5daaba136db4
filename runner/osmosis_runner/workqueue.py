"""Which item runs next, and who is to blame when the rollout server dies. Pure.

Several items are in flight when a server dies and nothing says which one did it. All of them are suspects: they
run again in groups, one group at a time with nothing beside it, and a group during which the server dies again is
halved. So the innocent lose little, and an item is condemned only when the server died twice with it, the last
time with it alone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.plan import WorkItem

if TYPE_CHECKING:
    from collections.abc import Iterator

DEATHS_OF_THE_GUILTY = 2


class WorkQueue(msgspec.Struct):
    """Items waiting and in flight. `pending` is consumed lazily."""

    pending: Iterator[WorkItem]
    in_flight: set[WorkItem] = msgspec.field(default_factory=set[WorkItem])
    _again: deque[WorkItem] = msgspec.field(default_factory=deque[WorkItem])
    _groups: deque[list[WorkItem]] = msgspec.field(default_factory=deque["list[WorkItem]"])
    _group: list[WorkItem] = msgspec.field(default_factory=list[WorkItem])
    _grouped: bool = False
    _deaths: dict[WorkItem, int] = msgspec.field(default_factory=dict[WorkItem, int])
    _exhausted: bool = False

    def take(self) -> WorkItem | None:
        """Start the next item; None when there is none that may start now."""
        item = self._next()
        if item is not None:
            self.in_flight.add(item)
        return item

    def done(self, item: WorkItem) -> None:
        """The item has ended, however."""
        self.in_flight.discard(item)
        self._deaths.pop(item, None)

    def put_back(self, item: WorkItem) -> None:
        """The item is to run again, through no fault that counts against it."""
        self.in_flight.discard(item)
        self._again.append(item)

    def server_died(self) -> WorkItem | None:
        """Everything in flight died with the server and waits again; the guilty item, if it is known."""
        suspects = sorted(self.in_flight) + self._group
        died = sorted(self.in_flight)
        self.in_flight.clear()
        self._group, self._grouped = [], False
        for item in died:
            self._deaths[item] = self._deaths.get(item, 0) + 1
        if len(died) == 1 and self._deaths[died[0]] >= DEATHS_OF_THE_GUILTY:
            guilty = died[0]
            del self._deaths[guilty]
            suspects.remove(guilty)
            self._regroup(suspects)
            return guilty
        self._regroup(suspects)
        return None

    @property
    def waiting(self) -> bool:
        """Whether an item may still start, now or later."""
        return bool(self._again or self._groups or self._group) or not self._exhausted

    def _next(self) -> WorkItem | None:
        if self._group:
            return self._group.pop(0)
        if self._grouped and self.in_flight:
            return None
        self._grouped = False
        if self._groups:
            if self.in_flight:
                return None
            self._group, self._grouped = self._groups.popleft(), True
            return self._group.pop(0)
        if self._again:
            return self._again.popleft()
        item = next(self.pending, None)
        self._exhausted = item is None
        return item

    def _regroup(self, suspects: list[WorkItem]) -> None:
        half = (len(suspects) + 1) // 2
        for group in (suspects[half:], suspects[:half]):
            if group:
                self._groups.appendleft(group)
