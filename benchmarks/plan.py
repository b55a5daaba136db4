"""How long and how often: the quick form under five minutes, the full one, and a glance to see that it works at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.bridge import Phases, Shape


@dataclass(frozen=True, slots=True)
class Form:
    """One form of the benchmark. `minutes` is all it may take; what does not fit is left out with a note."""

    name: str
    minutes: float
    rounds: int
    peer_rounds: int
    """Rounds for the peers other than nginx."""
    phases: Phases
    stream_rounds: int
    stream_peers: bool
    """Whether peers other than nginx are asked for streams."""
    shapes: Sequence[Shape]
    start_rounds: int
    rows: Sequence[tuple[int, int]]
    """Ours: (rows, rounds)."""
    peer_rows: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    defaults_s: float = 2.0
    defaults_rounds: int = 1
    native_s: float = 3.0
    native_rounds: int = 1
    settle_s: float = 60.0


def shapes(chunks: int, most_chunks: int, ramp_ms: int) -> tuple[Shape, ...]:
    """1,000 streams 100 ms apart, 5,000 streams 200 ms apart, and more than anybody can deliver."""
    return (
        Shape("streams_1000", 1000, chunks, 100, ramp_ms, chunks * 0.1 + 30),
        Shape("streams_5000", 5000, chunks, 200, 2 * ramp_ms, chunks * 0.2 + 45),
        Shape("chunks_max", 2000, most_chunks, 20, 1000, 60),
    )


QUICK = Form(
    name="quick",
    minutes=4.3,
    rounds=2,
    peer_rounds=1,
    phases=Phases(2, 1.5, 1.5),
    stream_rounds=1,
    stream_peers=False,
    shapes=shapes(25, 50, 2000),
    start_rounds=0,
    rows=((1_000, 1), (10_000, 1)),
    peer_rows={"inspect-ai": (100,), "verifiers": (100,), "osmosis-ai": (50,)},
    settle_s=30.0,
)
FULL = Form(
    name="full",
    minutes=45,
    rounds=3,
    peer_rounds=3,
    phases=Phases(4, 3, 3),
    stream_rounds=2,
    stream_peers=True,
    shapes=shapes(50, 100, 2500),
    start_rounds=3,
    rows=((1_000, 3), (10_000, 2), (100_000, 1)),
    peer_rows={"inspect-ai": (1_000,), "verifiers": (1_000,), "osmosis-ai": (100, 1_000)},
    defaults_s=3.0,
    defaults_rounds=3,
    native_s=4.0,
    native_rounds=3,
    settle_s=120.0,
)
GLANCE = Form(
    name="glance",
    minutes=6,
    rounds=1,
    peer_rounds=1,
    phases=Phases(1, 1, 1),
    stream_rounds=1,
    stream_peers=True,
    shapes=(Shape("streams_1000", 1000, 10, 100, 1000, 40),),
    start_rounds=0,
    rows=((200, 1),),
    peer_rows={"inspect-ai": (50,), "verifiers": (50,), "osmosis-ai": (20,)},
    defaults_s=1.0,
    defaults_rounds=1,
    native_s=1.0,
    settle_s=0.0,
)
FORMS: Mapping[str, Form] = {form.name: form for form in (QUICK, FULL, GLANCE)}
