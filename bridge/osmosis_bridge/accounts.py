"""Live totals per rollout and of the whole bridge. Holds no record; does no I/O.

`tokens` is the sum over all calls, `max_context_tokens` the largest single call. What no provider ever said is absent,
not zero. A closed rollout takes no more calls; its totals stay readable until `keep` later rollouts were closed, then
only the fact that it is closed is kept (8 bytes and a set slot); a straggler after that counts for the whole alone.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

import msgspec

from osmosis_bridge.call import Outcome


class Totals(msgspec.Struct, omit_defaults=True):
    """Sums of one rollout, or of all; counts in tokens, `cost_usd` in US dollars."""

    calls: int = 0
    tokens: int | None = None
    max_context_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    calls_without_usage: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one call that ended."""
        self.calls += 1
        if outcome.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + outcome.cost_usd
        if outcome.usage_source == "missing":
            self.calls_without_usage += 1
        usage = outcome.usage
        if usage is None or outcome.usage_source != "provider":
            return
        self.tokens = usage.total + (self.tokens or 0)
        context = usage.context
        if self.max_context_tokens is None or context > self.max_context_tokens:
            self.max_context_tokens = context
        if usage.prompt_tokens is not None:
            self.prompt_tokens = usage.prompt_tokens + (self.prompt_tokens or 0)
        if usage.completion_tokens is not None:
            self.completion_tokens = usage.completion_tokens + (self.completion_tokens or 0)
        if usage.cached_tokens is not None:
            self.cached_tokens = usage.cached_tokens + (self.cached_tokens or 0)

    def as_dict(self) -> dict[str, int | float]:
        """The totals that are known; `calls` and `calls_without_usage` always."""
        named: dict[str, int | float | None] = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in named.items() if value is not None}


class Accounts:
    """Totals by rollout id, and which rollouts are closed."""

    def __init__(self, keep: int = 10_000) -> None:
        self.whole = Totals()
        self.by_status: dict[str, int] = {}
        self._open: dict[str, Totals] = {}
        self._started: dict[str, int] = {}
        self._in_flight: dict[str, int] = {}
        self._closed: OrderedDict[str, Totals] = OrderedDict()
        self._closed_long_ago: set[bytes] = set()
        self._keep = keep

    def __len__(self) -> int:
        return len(self._open) + len(self._closed) + len(self._closed_long_ago)

    def next_seq(self, rollout_id: str) -> int:
        """The number of the next call of a rollout, from 1; the call is in flight until `add`."""
        seq = self._started.get(rollout_id, 0) + 1
        self._started[rollout_id] = seq
        self._in_flight[rollout_id] = self._in_flight.get(rollout_id, 0) + 1
        return seq

    def in_flight(self, rollout_id: str) -> int:
        """How many calls of a rollout have begun and not ended."""
        return self._in_flight.get(rollout_id, 0)

    def add(self, rollout_id: str, outcome: Outcome) -> None:
        """Count one call that ended; a straggler of a closed rollout still counts."""
        self._ended(rollout_id)
        totals = self._open.get(rollout_id) or self._closed.get(rollout_id)
        if totals is None and not self.is_closed(rollout_id):
            totals = self._open[rollout_id] = Totals()
        if totals is not None:
            totals.add(outcome)
        self.whole.add(outcome)
        self.by_status[outcome.status] = self.by_status.get(outcome.status, 0) + 1

    def drop(self, rollout_id: str) -> None:
        """A call ended that has no record: it was refused, and does not count."""
        self._ended(rollout_id)

    def totals(self, rollout_id: str) -> Totals:
        """The totals of a rollout; zero calls for one never seen."""
        return self._open.get(rollout_id) or self._closed.get(rollout_id) or Totals()

    def is_closed(self, rollout_id: str) -> bool:
        """Whether a rollout takes no more calls."""
        if rollout_id in self._closed:
            return True
        return bool(self._closed_long_ago) and _mark(rollout_id) in self._closed_long_ago

    def close(self, rollout_id: str) -> Totals:
        """Close a rollout, once or again; its totals."""
        if self.is_closed(rollout_id):
            return self._closed.get(rollout_id, Totals())
        totals = self._open.pop(rollout_id, None) or Totals()
        self._started.pop(rollout_id, None)
        self._closed[rollout_id] = totals
        while len(self._closed) > self._keep:
            oldest, _ = self._closed.popitem(last=False)
            self._closed_long_ago.add(_mark(oldest))
        return totals

    def _ended(self, rollout_id: str) -> None:
        running = self._in_flight.get(rollout_id, 0)
        if running > 1:
            self._in_flight[rollout_id] = running - 1
        else:
            self._in_flight.pop(rollout_id, None)


def _mark(rollout_id: str) -> bytes:
    return blake2b(rollout_id.encode(), digest_size=8).digest()
