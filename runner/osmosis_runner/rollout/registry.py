"""Which rollouts a host knows, where each stands, who may ask, and how long.

Pure state: time and tokens come in as arguments, nothing here waits. Two promises: a rollout has one terminal
result and keeps it, and an id is not free again before its execution has ended and its retention is over, or, so that
a host that serves many rollouts a second stays small, its result was handed out and `most_finished` others followed.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from osmosis_runner.rollout.admission import RolloutRequest

RESULT_WAIT_S = 30.0
LEASE_S = 120.0
RETENTION_S = 900.0
RETAINED_BYTES = 16 * 1024 * 1024
MOST_FINISHED = 20_000


class Status(StrEnum):
    """Where a rollout stands, in the protocol's words."""

    QUEUED = "queued"
    RUNNING = "running"
    GRADING = "grading"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing follows."""
        return self in (Status.SUCCESS, Status.FAILURE, Status.CANCELLED)


class Taken(Exception):
    """The id belongs to a rollout that is active or whose result is still kept."""


class Entry(msgspec.Struct, eq=False):
    """One rollout. Changed only through `Registry`."""

    rollout_id: str
    lease_token: str
    lease_until: float
    status: Status = Status.QUEUED
    told: Status = Status.QUEUED
    """What the supervisor was told last: a poll waits while nothing else is the case."""
    result: bytes | None = None
    """The terminal reply as it is sent; None before, and again once dropped to bound memory."""
    executing: bool = True
    """Its code may still be running (a result can be published before, when cleaning up takes too long)."""
    delivered: bool = False
    kept_until: float | None = None
    waiters: list[Callable[[], None]] = msgspec.field(default_factory=list["Callable[[], None]"])
    """Called once each at the next change of status."""


class Registry:
    """Every rollout of one host process."""

    def __init__(
        self,
        *,
        retention_s: float = RETENTION_S,
        retained_bytes: int = RETAINED_BYTES,
        most_finished: int = MOST_FINISHED,
    ) -> None:
        self._most_finished = most_finished
        self._entries: dict[str, Entry] = {}
        self._active: dict[str, Entry] = {}
        self._finished: deque[Entry] = deque()
        self._heavy: deque[Entry] = deque()
        self._held_bytes = 0
        self._retention_s = retention_s
        self._retained_bytes = retained_bytes

    @property
    def active(self) -> int:
        """Rollouts without a result, or whose code has not ended."""
        return len(self._active)

    def counts(self) -> tuple[int, int]:
        """How many are queued, and how many run or are graded."""
        queued = sum(entry.status is Status.QUEUED for entry in self._active.values())
        return queued, sum(not entry.status.terminal for entry in self._active.values()) - queued

    def admit(self, request: RolloutRequest, token: str, now: float) -> Entry:
        """Take a new rollout in; raises `Taken`."""
        known = self._entries.get(request.rollout_id)
        if known is not None:
            raise Taken
        entry = Entry(request.rollout_id, token, now + LEASE_S)
        self._entries[entry.rollout_id] = entry
        self._active[entry.rollout_id] = entry
        return entry

    def find(self, rollout_id: str) -> Entry | None:
        """The rollout of that id whose result can still be asked for."""
        return self._entries.get(rollout_id)

    def select(self, ids: list[str] | None, prefix: str | None) -> list[Entry]:
        """Unfinished rollouts among the ids, or whose id starts so, or (neither given) all of them."""
        pending = [entry for entry in self._active.values() if not entry.status.terminal]
        if ids is not None:
            wanted = set(ids)
            return [entry for entry in pending if entry.rollout_id in wanted]
        return [entry for entry in pending if entry.rollout_id.startswith(prefix or "")]

    def renew(self, entry: Entry, now: float) -> None:
        """A poll with the right token arrived."""
        entry.lease_until = now + LEASE_S

    def advance(self, entry: Entry, status: Status) -> None:
        """A step forward that is not the last; without effect on a finished rollout."""
        if not entry.status.terminal and entry.status is not status:
            entry.status = status
            _wake(entry)

    def conclude(self, entry: Entry, status: Status, result: bytes, now: float) -> bool:
        """Publish the terminal result. Only the first one counts; returns whether this was it."""
        if entry.status.terminal:
            return False
        entry.status = status
        entry.result = result
        entry.kept_until = now + self._retention_s
        self._held_bytes += len(result)
        self._finished.append(entry)
        _wake(entry)
        self._release(entry)
        return True

    def ended(self, entry: Entry) -> None:
        """The rollout's code is over."""
        entry.executing = False
        self._release(entry)

    def delivered(self, entry: Entry) -> None:
        """The result was handed out once; it may be dropped early when too many bytes are held."""
        if entry.delivered or entry.result is None:
            return
        entry.delivered = True
        self._heavy.append(entry)
        while self._held_bytes > self._retained_bytes and self._heavy:
            self._drop(self._heavy.popleft())

    def lapsed(self, now: float) -> list[Entry]:
        """Unfinished rollouts nobody has asked about for a lease."""
        return [e for e in self._active.values() if not e.status.terminal and e.lease_until <= now]

    def forget(self, now: float) -> None:
        """Free the ids whose retention is over and whose code has ended."""
        while self._finished and self._may_go(self._finished[0], now):
            entry = self._finished.popleft()
            if entry.executing:
                entry.kept_until = now + self._retention_s
                self._finished.append(entry)
                continue
            self._drop(entry)
            del self._entries[entry.rollout_id]

    def _may_go(self, oldest: Entry, now: float) -> bool:
        many = len(self._finished) > self._most_finished
        return (oldest.kept_until or 0.0) <= now or (many and oldest.delivered and not oldest.executing)

    def _release(self, entry: Entry) -> None:
        if entry.status.terminal and not entry.executing:
            self._active.pop(entry.rollout_id, None)

    def _drop(self, entry: Entry) -> None:
        if entry.result is not None:
            self._held_bytes -= len(entry.result)
            entry.result = None


def _wake(entry: Entry) -> None:
    waiters, entry.waiters = entry.waiters, []
    for waiter in waiters:
        waiter()
