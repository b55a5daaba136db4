"""Watches whether the provider is out while items fail on it, and asks it when they do.

Decisions are `Breaker`'s. What is held here is on no disk: a run that is killed meanwhile runs those items again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from osmosis_runner.breaker import Breaker
from osmosis_runner.preflight import probe

if TYPE_CHECKING:
    from osmosis_runner.attempt import Ended
    from osmosis_runner.sidecar import Sidecar


class ProviderWatch:
    """Holds attempts that failed with the provider. `delays` are the seconds between questions."""

    def __init__(self, sidecar: Sidecar, delays: tuple[float, ...]) -> None:
        self._sidecar = sidecar
        self._delays = delays
        self._breaker: Breaker[Ended] = Breaker()

    @property
    def holds(self) -> int:
        """How many attempts are held."""
        return len(self._breaker.held)

    @property
    def trouble(self) -> str:
        """What the last held attempt ran into."""
        return (self._breaker.held[-1].provider_trouble or "") if self._breaker.held else ""

    def hold(self, ended: Ended) -> bool:
        """Hold an attempt; returns whether the provider should be asked now."""
        return self._breaker.provider_failed(ended)

    def release(self) -> list[Ended]:
        """Take everything that is held."""
        return self._breaker.release()

    async def ask(self, stopping: asyncio.Event) -> str | None:
        """Ask until the provider answers (None), or return what keeps it from it."""
        text = ""
        for delay in (*self._delays, None):
            finding = await probe(self._sidecar)
            # Without a bridge nothing can be told; what is held tries again with the next one.
            if finding.verdict == "good" or self._sidecar.child.exited.is_set():
                return None
            text = finding.text or "no answer"
            if finding.verdict == "bad" or delay is None or stopping.is_set():
                break
            await asyncio.sleep(delay)
        return text
