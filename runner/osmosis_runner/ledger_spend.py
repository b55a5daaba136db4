"""What a ledger says was spent by rollouts that no journal knows: killed with their runner. Each line is read once."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Container
from hashlib import blake2b
from pathlib import Path

import msgspec

from osmosis_runner.spend import Spend

PREFLIGHT_PREFIX = "preflight-"


class RolloutSet:
    """The ids of many rollouts in eight bytes each; filled first, then sealed, then asked.

    Two ids in 2^64 look alike: then what one of them spent would not be counted.
    """

    def __init__(self) -> None:
        self._marks = array("Q")

    def add(self, rollout_id: str) -> None:
        """Take an id in."""
        self._marks.append(_mark(rollout_id))

    def seal(self) -> None:
        """All ids are in."""
        self._marks = array("Q", sorted(self._marks))

    def __contains__(self, rollout_id: object) -> bool:
        if not isinstance(rollout_id, str):
            return False
        mark = _mark(rollout_id)
        place = bisect_left(self._marks, mark)
        return place < len(self._marks) and self._marks[place] == mark


def _mark(rollout_id: str) -> int:
    return int.from_bytes(blake2b(rollout_id.encode(), digest_size=8).digest(), "little")


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None


class _Spent(msgspec.Struct, gc=False):
    """The part of a record that says what a call spent."""

    rollout_id: str
    usage: _Usage | None = None
    usage_source: str | None = None
    cost_usd: float | None = None


_decode = msgspec.json.Decoder(_Spent).decode


def unrecorded_spend(path: Path, recorded: Container[str], journal: Spend) -> Spend:
    """What a ledger says was spent beyond what the journal says.

    By rollouts that were killed with their runner, and by calls that ended after their rollout was closed. `recorded`
    are the journal's rollouts, `journal` what they spent. Preflights are left out; a missing ledger says nothing.
    Raises OSError when it cannot be read.
    """
    if not path.exists():
        return Spend()
    known, unknown = Sums(counted=False), Sums()
    with path.open("rb") as file:
        for line in file:
            call = spent_in(line)
            if call is not None:
                (known if call.rollout_id in recorded else unknown).add(call)
    return unknown.beyond(Spend()).plus(known.beyond(journal))


def spent_in(line: bytes) -> _Spent | None:
    """What one line of a ledger tells; None for a preflight, and for a line that is not ours."""
    try:
        call = _decode(line)
    except (msgspec.DecodeError, ValueError):
        return None
    return None if call.rollout_id.startswith(PREFLIGHT_PREFIX) else call


class Sums:
    """Sums over calls; None where none of them tells. Without `counted` their rollouts are not counted."""

    def __init__(self, *, counted: bool = True) -> None:
        self._counted = counted
        self._rollouts: set[str] = set()
        self._figures: dict[str, float] = {}

    def add(self, call: _Spent) -> None:
        """Add one call."""
        if self._counted:
            self._rollouts.add(call.rollout_id)
        if call.cost_usd is not None:
            self._plus("cost_usd", call.cost_usd)
        usage = call.usage
        if usage is None or call.usage_source == "estimated":
            return
        total = usage.total_tokens
        if total is None:
            total = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        self._plus("tokens", total)
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            value: int | None = getattr(usage, name)
            if value is not None:
                self._plus(name, value)

    def beyond(self, journal: Spend) -> Spend:
        """What is left of the sums without what the journal counts; a figure it counts more of is left out."""
        left: dict[str, float] = {}
        for name, value in self._figures.items():
            # Sums of costs differ in their last digits by the order they were added in.
            more = round(value - (getattr(journal, name) or 0), 9)
            if more > 0:
                left[name] = more
        cost = left.pop("cost_usd", None)
        return Spend(
            attempts=len(self._rollouts),
            cost_usd=cost,
            **{name: int(value) for name, value in left.items()},
        )

    def _plus(self, name: str, value: float) -> None:
        self._figures[name] = self._figures.get(name, 0) + value
