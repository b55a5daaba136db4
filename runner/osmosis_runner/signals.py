"""The signals that stop a run: the first asks, the second does not. Knows nothing of what is stopped."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal arrived before dispatch began."""


class Interrupts(msgspec.Struct):
    """What has arrived so far."""

    second: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    number: int | None = None
    """The first signal."""
    on_first: Callable[[], object] | None = None
    """Called when the first signal arrives."""

    def arrived(self, number: int) -> None:
        """Take one signal in."""
        if self.number is None:
            self.number = number
            if self.on_first is not None:
                self.on_first()
        else:
            self.second.set()

    @property
    def name(self) -> str:
        """The first signal's name, for messages."""
        return signal.Signals(self.number).name if self.number is not None else ""

    @contextmanager
    def ending_at_once(self) -> Generator[None]:
        """While inside, the first signal cancels the running task; raises `Interrupted` then."""
        task = asyncio.current_task()
        if self.number is not None or task is None:
            raise Interrupted
        self.on_first = task.cancel
        try:
            yield
        except asyncio.CancelledError:
            if self.number is None:
                raise
            task.uncancel()
            raise Interrupted from None
        finally:
            self.on_first = None


@contextmanager
def interrupts() -> Generator[Interrupts]:
    """While inside, SIGINT, SIGTERM and SIGHUP are collected instead of ending the process.

    On a loop that is not the main thread's nothing is collected.
    """
    loop = asyncio.get_running_loop()
    state = Interrupts()
    taken: list[int] = []
    try:
        for number in STOPPING:
            # Under nohup and the like a signal is ignored on purpose.
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            loop.add_signal_handler(number, state.arrived, number)
            taken.append(number)
    except (ValueError, RuntimeError, NotImplementedError):
        pass
    try:
        yield state
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
