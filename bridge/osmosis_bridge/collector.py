"""When Python looks for garbage: never on account of connections that are merely open.

The collector looks when more objects were made than went since it last looked, and looks at all of them while
everything waits: 4 to 8 ms for 20,000. Calls that end leave next to nothing to it, but what is open counts as new: some
80 objects for a stream and its two connections, 40 for two that idle. So while thousands of streams begin it looks
again and again and finds nothing, and once more when they have ended. Hence its bound moves with the connections, and
what is beyond it is likely to be garbage.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

AT_REST: Final = 20_000
"""New objects beside those of connections, beyond which the collector looks."""
EACH: Final = 60
SOON: Final = 512
"""Connections that may open before the bound is moved next."""
LOOK_S: Final = 0.25
_OLDER: Final = (20, 50)


class Collector:
    """Moves the collector's bound with the number of connections, clients' and upstream's together."""

    def __init__(self, connections: Callable[[], int]) -> None:
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Pass over what was made so far, which stays for good, and move the bound from now on."""
        # Nor is this the moment to look at it: next to none is garbage, and looking takes a twentieth of a start.
        gc.freeze()
        self._follow()

    def stop(self) -> None:
        """Leave the bound where it is."""
        if self._timer is not None:
            self._timer.cancel()

    def _follow(self) -> None:
        gc.set_threshold(AT_REST + EACH * (self._connections() + SOON), *_OLDER)
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._follow)
