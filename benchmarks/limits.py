"""The time limit of a whole run, and signals, as one exception; knows nothing of what runs."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator
from types import FrameType


class Interrupted(Exception):
    """The run is to end now: a signal, or its time is over."""


@contextlib.contextmanager
def limited(seconds: float) -> Generator[None, None, None]:
    """Raise `Interrupted` in the block on SIGINT, on SIGTERM, and when so many seconds are over."""

    def stop(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGALRM:
            raise Interrupted(f"it took longer than {seconds / 60:.0f} minutes")
        raise Interrupted(signal.Signals(number).name)

    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.signal(number, stop) for number in caught]
    signal.alarm(max(1, round(seconds)))
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in zip(caught, before, strict=True):
            signal.signal(number, handler)
