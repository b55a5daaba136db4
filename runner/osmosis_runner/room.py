"""What so many rollouts in flight need of this machine: connections of this process and of the bridge, and open files.

How many rollouts come to be in flight is decided elsewhere (`concurrency`); this makes room for all there may be.
"""

from __future__ import annotations

import msgspec

from osmosis_bridge.open_files import AT_REST, for_connections, raise_open_files

MOST_UNASKED = 10_000
"""Rollouts in flight that there is room for where the rollout server is to name their number."""
CALLS_EACH = 2
"""Calls at a time of one rollout that there is always room for."""
FEWEST_CALLS, MOST_CALLS = 1_000, 1_000_000
FEWEST_CONNECTIONS = 1_000
SPARE_CONNECTIONS = 320
"""For closing rollouts beside those in flight."""


class Room(msgspec.Struct, frozen=True):
    """Room for one run's rollouts."""

    asked: int | None
    """Rollouts at a time that the user asks for."""
    pending: int

    @property
    def most(self) -> int:
        """Rollouts at a time that may come to be, before the rollout server has said what it takes."""
        return max(1, min(self.asked or MOST_UNASKED, self.pending))

    @property
    def connections(self) -> int:
        """Connections of this process."""
        return max(FEWEST_CONNECTIONS, 2 * self.most + SPARE_CONNECTIONS)

    @property
    def calls(self) -> int:
        """Calls to the provider at a time."""
        return min(max(FEWEST_CALLS, CALLS_EACH * self.most), MOST_CALLS)

    def make(self) -> None:
        """Raise the limit of open files of this process, and so of those it starts."""
        raise_open_files(for_connections(self.calls) + SPARE_CONNECTIONS)

    def shortage(self, places: int) -> str | None:
        """That so many rollouts at a time may want more open files than there can be, and what to do; else None."""
        return _shortage(min(places, self.most))


def _shortage(places: int) -> str | None:
    files = raise_open_files(for_connections(CALLS_EACH * places))
    if not files.short:
        return None
    fitting = max(1, ((files.allowed or 0) - AT_REST) // (2 * CALLS_EACH))
    return (
        f"{places:,} rollouts in flight: {files.shortage}; run with --max-in-flight {fitting}, or allow more first: "
        f"{files.remedy}"
    )
