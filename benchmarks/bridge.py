"""How proxies are measured: throughput, added latency, streams, start, memory, and what each default costs.

Every contestant is started afresh for each visit and each shape of streams; rounds go across contestants, so that a
change of the machine's mood meets all of them.
"""

from __future__ import annotations

import dataclasses
import http.client
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import bodies
from benchmarks.contestants import ALSO, BEARER, NGINX, OURS, Contestant, ours
from benchmarks.processes import watching
from benchmarks.session import FAILURES, SETTLE_S, OutOfTime, Running, Session, rotated
from benchmarks.tools import Figures, ToolFailed

CONNECTIONS = 64
PACED_PAUSE_US = 3_000
IN_FLIGHT = 16
IN_FLIGHT_WAIT_MS = 50
IN_FLIGHT_PAUSE_US = 100_000
WARM_S = 1.0
Work = Callable[[Session, Contestant], None]


@dataclass(frozen=True, slots=True)
class Phases:
    """Seconds of each phase of a visit."""

    small: float
    large: float
    paced: float


@dataclass(frozen=True, slots=True)
class Shape:
    """Streams at once: how many, chunks of each, ms between chunks, ms over which they start, seconds at most."""

    measure: str
    streams: int
    chunks: int
    gap_ms: int
    ramp_ms: int
    seconds: float


def visit(session: Session, contestant: Contestant, phases: Phases, round_: int) -> None:
    """One visit: start, throughput, latency, memory."""
    with session.running(contestant) as running:
        time.sleep(SETTLE_S)
        memory = {"idle_mb": running.resident_mb}
        small = _body(running, "small", bodies.mark())
        slow = _body(running, "slow", bodies.mark(IN_FLIGHT_WAIT_MS))
        large = bodies.write(running.folder, "large", bodies.large(contestant.model, bodies.mark()))
        tools, goal = session.tools, running.goal
        tools.saturate(goal, small, CONNECTIONS, WARM_S)

        phases_of: tuple[tuple[str, Callable[[], Figures]], ...] = (
            ("small", lambda: tools.saturate(goal, small, CONNECTIONS, phases.small)),
            ("large", lambda: tools.saturate(goal, large, CONNECTIONS, phases.large)),
            ("paced_1", lambda: tools.plain(goal, small, 1, PACED_PAUSE_US, phases.paced)),
            ("in_flight_16", lambda: tools.plain(goal, slow, IN_FLIGHT, IN_FLIGHT_PAUSE_US, phases.paced)),
        )
        for measure, work in phases_of:
            session.settle(running)  # what came before may still be in a slow proxy's queue
            try:
                session.phase(running, measure, round_, work)
            except ToolFailed as error:
                session.book.note(f"{contestant.name}: {error}")
        if contestant.launch is not None:
            memory |= {"after_mb": running.resident_mb, "ready_ms": running.ready_ms}
            session.book.observe("start", contestant.name, round_, memory)


def _body(running: Running, name: str, marked: str) -> Path:
    return bodies.write(running.folder, name, bodies.small(running.contestant.model, marked))


def stream_visit(session: Session, contestant: Contestant, shape: Shape, round_: int) -> None:
    """One shape of streams through one contestant."""
    with session.running(contestant) as running:
        marked = bodies.mark(0, shape.chunks, shape.gap_ms)
        streamed = bodies.small(contestant.model, marked, stream=True)
        body = bodies.write(running.folder, "streamed", streamed)
        session.tools.saturate(running.goal, _body(running, "small", bodies.mark()), IN_FLIGHT, WARM_S)
        session.settle(running)

        def work() -> Figures:
            base, pid = running.resident_mb, running.pid
            with watching(pid) as watch:
                figures = session.tools.streams(running.goal, body, *_arguments(shape))
            figures["lost"] = figures["streams"] - figures["ok"]
            if pid:
                figures["kb_per_stream"] = max(0.0, watch.peak_mb - base) * 1e3 / shape.streams
            if contestant.name in (OURS, ALSO):
                figures["loop_lag_ms"] = 1e3 * _largest_lag_s(running.goal.port)
            return figures

        figures = session.phase(running, shape.measure, round_, work, per="chunks")
        if figures["lost"]:
            session.book.note(
                f"{contestant.name}, {shape.measure}: "
                f"{figures['lost']:.0f} of {shape.streams} streams did not end as sent"
            )


def _largest_lag_s(port: int) -> float:
    """The largest lag of our event loop since its start, as its own metrics say."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {BEARER}"})
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    name = 'osmosis_bridge_loop_lag_seconds{kind="max"} '
    return next(float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name))


def _arguments(shape: Shape) -> tuple[int, int, int, float]:
    return shape.streams, shape.ramp_ms, shape.chunks, shape.seconds


def for_streams(contestant: Contestant, streaming_nginx: Contestant | None) -> Contestant:
    """The contestant as it is set up for thousands of streams; ours is given as many upstream connections."""
    if contestant.name == OURS:
        return ours(("--max-upstream-connections", "6000"))
    if contestant.name == ALSO:
        wide = ours(("--max-upstream-connections", "6000"), name=ALSO, python=contestant.python)
        return dataclasses.replace(contestant, launch=wide.launch)
    if contestant.name == NGINX and streaming_nginx is not None:
        return streaming_nginx
    return contestant


def start_only(session: Session, contestant: Contestant) -> None:
    """Start and stop, without keeping anything of it."""
    with session.running(contestant):
        pass


def start_up(session: Session, contestant: Contestant, round_: int) -> None:
    """Start, first answer, memory; nothing else."""
    with session.running(contestant) as running:
        time.sleep(SETTLE_S)
        values = {"ready_ms": running.ready_ms, "idle_mb": running.resident_mb}
        session.book.observe("start", contestant.name, round_, values)


WITHOUT: Mapping[str, tuple[str, ...]] = {
    "ledger": ("ledger",),
    "log": ("log",),
    "redaction": ("redaction",),
    "metrics": ("metrics",),
    "all four": ("ledger", "log", "redaction", "metrics"),
}
"""Defaults that can be taken out, to see what each costs."""


def without(parts: Sequence[str], label: str) -> Contestant:
    """Our bridge with some of its defaults taken out."""
    module = ("-m", "benchmarks.without", ",".join(parts))
    return dataclasses.replace(ours(name=f"without {label}", module=module), title=f"without {label}")


def defaults(session: Session, seconds: float, rounds: int) -> None:
    """The same throughput with each default taken out, interleaved with the bridge as it is."""
    variants = [dataclasses.replace(ours(), name="defaults")]
    variants += [without(parts, label) for label, parts in WITHOUT.items()]
    for round_ in range(rounds):
        for variant in rotated(variants, round_):
            attempt(session, variant, f"what {variant.name} costs", seconds + 6, _throughput(seconds, round_))


def _throughput(seconds: float, round_: int) -> Work:
    def measure(session: Session, contestant: Contestant) -> None:
        with session.running(contestant) as running:
            body = _body(running, "small", bodies.mark())
            session.tools.saturate(running.goal, body, CONNECTIONS, WARM_S)
            session.phase(
                running,
                "defaults",
                round_,
                lambda: session.tools.saturate(running.goal, body, CONNECTIONS, seconds),
            )

    return measure


def attempt(
    session: Session,
    contestant: Contestant,
    what: str,
    seconds: float,
    work: Work,
) -> None:
    """Do a piece of work; what keeps a contestant from it becomes a note, and the others go on."""
    try:
        session.need(seconds, what)
        session.tell(what)
        work(session, contestant)
    except OutOfTime:
        return
    except FAILURES as error:
        session.book.note(f"{what}: {error}")
