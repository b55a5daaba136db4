"""What the native lane costs on top of LiteLLM itself: CPU a call through the bridge, and through the bare library.

Left out with a note while the bridge has no such lane, or where litellm is not installed.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

from benchmarks import bodies
from benchmarks.bridge import Work, attempt
from benchmarks.contestants import MODEL, Contestant, Launch, Place, launch_of, ours
from benchmarks.environments import Unusable
from benchmarks.processes import start, stop
from benchmarks.session import Session, environment, rotated
from benchmarks.tools import read_figures

CONCURRENCY = 16
BARE, LANE = "bare litellm", "native lane"
_START_S = 40.0


def measure(session: Session, seconds: float, rounds: int) -> None:
    """Both in turns."""
    if importlib.util.find_spec("litellm") is None:
        session.book.note("native lane: left out, litellm is not installed (the extra `native` brings it)")
        return
    lane = native()
    for round_ in range(rounds):
        for name in rotated([BARE, LANE], round_):
            if name == BARE:
                attempt(session, lane, f"{BARE}, round {round_ + 1}", seconds + 12, _bare(seconds, round_))
            else:
                attempt(session, lane, f"{LANE}, round {round_ + 1}", seconds + 12, _lane(seconds, round_))


def native() -> Contestant:
    """Our bridge in the native lane."""
    wire = ours(("--lane", "native"), name=LANE)
    wire_launch = launch_of(wire)

    def launch(place: Place) -> Launch:
        known = wire_launch(place)
        return Launch(known.command, {**known.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"})

    return dataclasses.replace(wire, launch=launch, ready_s=60.0)


def _lane(seconds: float, round_: int) -> Work:
    def work(session: Session, contestant: Contestant) -> None:
        with session.running(contestant) as running:
            body = bodies.write(running.folder, "small", bodies.small(contestant.model, bodies.mark()))
            session.tools.plain(running.goal, body, CONCURRENCY, 0, 1.0)
            session.phase(
                running,
                "native",
                round_,
                lambda: session.tools.plain(running.goal, body, CONCURRENCY, 0, seconds),
            )

    return work


def _bare(seconds: float, round_: int) -> Work:
    def work(session: Session, _lane: Contestant) -> None:
        folder = session.new_folder("bare-litellm")
        body = bodies.write(folder, "small", bodies.small(f"openai/{MODEL}", bodies.mark()))
        arguments = [sys.executable, "-m", "benchmarks.bare_litellm", session.upstream.url, str(body)]
        arguments += [str(CONCURRENCY), str(seconds)]
        root = str(Path(__file__).resolve().parent.parent)
        environ = {**environment(), "PYTHONPATH": root, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        started = start(arguments, folder / "log.txt", [session.cores.contestant], folder, environ)
        try:
            status = started.process.wait(seconds + _START_S)
        finally:
            stop(started)
        if status:
            raise Unusable(f"it ended with {status}: {started.last_words()}")
        session.book.observe("native", BARE, round_, read_figures(started.log.read_text(), ""))

    return work
