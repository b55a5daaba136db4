"""The time limit of a whole run, signals, and that only one runs; knows nothing of what runs."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
from collections.abc import Generator
from pathlib import Path
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


@contextlib.contextmanager
def alone(work: Path) -> Generator[None, None, None]:
    """Be the only benchmark that uses this folder, and clear what one that was killed left there.

    Raises `Interrupted` where another one runs: both would measure each other.
    """
    work.mkdir(exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Interrupted("another benchmark runs in this checkout; wait for its end") from None
        for left in work.iterdir():
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
        yield
