"""Who is next among those who wait: the queues take turns, and within one it is first come first served.

So whoever asks for much waits for its own, and whoever asks for little is next but for one of each of the others. Pure;
knows waiters only by whether they still wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

__all__ = ["Turns"]


class Waiter(Protocol):
    """Somebody in a queue; `waits` is False once it was served or went away."""

    @property
    def waits(self) -> bool:
        """Whether it still waits."""
        ...


W = TypeVar("W", bound=Waiter)


class Turns(Generic[W]):
    """Queues by name, the one whose turn it is first."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        # Linked lists: whoever waited too long leaves from anywhere.
        self._queues: OrderedDict[str, OrderedDict[W, None]] = OrderedDict()

    def __iter__(self) -> Iterator[W]:
        """Everybody who waits, in no order that matters."""
        return (waiter for queue in self._queues.values() for waiter in queue if waiter.waits)

    def join(self, name: str, waiter: W) -> None:
        """Wait at the end of a queue."""
        self._queues.setdefault(name, OrderedDict())[waiter] = None

    def leave(self, name: str, waiter: W) -> None:
        """Wait no longer, if it does."""
        queue = self._queues.get(name)
        if queue is not None:
            queue.pop(waiter, None)
            if not queue:
                del self._queues[name]

    def next(self) -> W | None:
        """Who is next, None where nobody waits; it stays in its queue."""
        while self._queues:
            name, queue = next(iter(self._queues.items()))
            waiter = next(iter(queue))
            if waiter.waits:
                return waiter
            self.leave(name, waiter)
        return None

    def take(self) -> W | None:
        """Who is next, out of its queue; it is the next queue's turn then."""
        waiter = self.next()
        if waiter is not None:
            name = next(iter(self._queues))
            self._queues.move_to_end(name)
            self.leave(name, waiter)
        return waiter
