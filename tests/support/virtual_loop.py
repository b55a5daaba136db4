"""An event loop whose clock jumps to the next timer instead of waiting, so that tests of time take none of it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Never waits; adds what it was asked to wait to `now`, in seconds."""

    now = 0.0

    def select(self, timeout: float | None = None):
        if timeout is None:
            message = "a test waits for something that no timer will bring"
            raise RuntimeError(message)
        self.now += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._selector_with_clock = _Selector()
        super().__init__(self._selector_with_clock)

    def time(self) -> float:
        return self._selector_with_clock.now


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on a clock that begins at 0 and jumps."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)
