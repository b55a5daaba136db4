"""`python -m benchmarks [FORM]`: measures, shows, and publishes what was measured on a quiet machine.

Never hangs: every step has a time limit and so has the whole. Whatever happens, what was measured is on disk and no
process is left.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks import bridge, native_lane, report, runners
from benchmarks.contestants import ALSO, DIRECT, NGINX, OURS, Contestant, direct, nginx, ours, ours_on
from benchmarks.contestants import peers as peer_contestants
from benchmarks.environments import Installer, Unusable
from benchmarks.limits import Interrupted, alone, limited
from benchmarks.machine import (
    adopt_orphans,
    choose_cores,
    load_average,
    pinned,
    raise_file_limit,
    wait_until_quiet,
)
from benchmarks.plan import FORMS, Form
from benchmarks.processes import end_descendants
from benchmarks.results import HERE, Book, new_book, read_book
from benchmarks.runners import Runner, run_rows
from benchmarks.session import Session, rotated
from benchmarks.tools import ToolFailed, find_tools, running_upstream

PARTS = ("bridge", "streams", "start", "rows", "defaults", "native")
OVERTIME_S = 180
INSTALL_S = 900
MAIN = frozenset({OURS, ALSO, NGINX, DIRECT})
"""They take part in everything."""
MANY_ROWS = 50_000
FILES_NEEDED = 12_000


def main(arguments: list[str]) -> int:
    """Measure; 0 when the run came to its end, 1 otherwise."""
    options = parse(arguments)
    console = Console(stderr=True)
    if options.earlier is not None:
        report.show(read_book(options.earlier), wide())
        conclude(read_book(options.earlier), options.publish, console)
        return 0
    form = FORMS[options.form]
    if options.minutes:
        form = replace(form, minutes=options.minutes)
    adopt_orphans()
    work = HERE / ".work"
    folder = work / f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    seconds = form.minutes * 60 + form.settle_s + OVERTIME_S + (INSTALL_S if options.peers else 0)
    try:
        with limited(seconds), alone(work):
            folder.mkdir()
            run(options, form, folder, lambda text: console.print(text, style="dim", markup=False))
    except (Interrupted, ToolFailed) as error:
        console.print(f"ended early: {error}", style="red", markup=False)
    finally:
        end_descendants()
        shutil.rmtree(folder, ignore_errors=True)
    book: Book | None = options.book
    if book is None or not book.observations:
        console.print("nothing was measured", style="red")
        return 1
    report.show(book, wide())
    complete = bool(book.head.get("complete"))
    conclude(book, options.publish and complete and not options.only_some, console)
    return 0 if complete else 1


def wide() -> Console:
    """Standard output, wide enough for the tables where it is no terminal."""
    output = Console()
    return output if output.is_terminal else Console(width=200)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure the bridge and the runner beside their peers."
    )
    parser.add_argument(
        "form", nargs="?", default="quick", choices=list(FORMS), help="how long and how often"
    )
    parser.add_argument(
        "--peers", action="store_true", help="install the peers that are missing (always in the full form)"
    )
    parser.add_argument(
        "--python", metavar="PATH", help="interpreter for the peers' environments, 3.12 or 3.13"
    )
    parser.add_argument(
        "--also", metavar="PATH", help="measure our bridge once more, on this Python (its build tells)"
    )
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="measure this part only; may be repeated"
    )
    parser.add_argument("--minutes", type=float, help="most minutes the run may take")
    parser.add_argument(
        "--no-publish", dest="publish", action="store_false", help="leave docs/performance.md as it is"
    )
    parser.add_argument(
        "--from", dest="earlier", type=Path, metavar="FILE", help="measure nothing: show and publish this run"
    )
    options = parser.parse_args(arguments)
    options.peers = options.peers or options.form == "full"
    options.only_some = bool(options.only)
    options.only = options.only or list(PARTS)
    options.book = None
    return options


def run(options: argparse.Namespace, form: Form, folder: Path, tell: Callable[[str], None]) -> None:
    """Prepare, wait for quiet, and measure every part."""
    book = new_book(form.name)
    options.book = book
    installer = Installer(options.peers, options.python, tell)
    cores, tools = choose_cores(), find_tools(choose_cores())
    if raise_file_limit() < FILES_NEEDED:
        book.note("few files may be open here (ulimit -n): 5,000 streams will lose some")
    others = peer_contestants(installer, book.note)
    their_runners = runners.peers(installer, book.note) if "rows" in options.only else []
    mine = [ours()] if options.also is None else [ours(), ours_on(options.also, installer)]
    contestants = [direct(), *mine, *others]
    describe_contestants(book, contestants, [runners.ours(), *their_runners])
    book.head |= {"tools": tools.describe(), "cores_apart": cores.apart}
    book.head["quiet"] = wait_until_quiet(form.settle_s, tell)
    book.head["load"] = round(load_average(), 2)
    if not book.head["quiet"]:
        tell(f"the machine is not quiet (load average {load_average():.2f}): figures will not be published")
    # This program samples while it waits: beside the client, never beside the contestant.
    with pinned(cores.client), running_upstream(tools, folder) as upstream:
        until = time.monotonic() + form.minutes * 60
        session = Session(tools, upstream, cores, folder, book, until, tell)
        measure(session, form, contestants, [runners.ours(), *their_runners], installer, options.only)
    book.head["complete"] = True
    book.save()


def describe_contestants(book: Book, contestants: list[Contestant], others: list[Runner]) -> None:
    """Names and versions into the head of the book."""
    titles = {one.name: one.title for one in contestants} | {f"rows/{one.name}": one.title for one in others}
    book.head["titles"] = titles
    book.head["versions"] = {one.title: dict(one.versions) for one in [*contestants, *others]}


def measure(
    session: Session,
    form: Form,
    contestants: list[Contestant],
    all_runners: list[Runner],
    installer: Installer,
    parts: list[str],
) -> None:
    """Every part, in the order in which a run that is cut short is worth most."""
    warm_up(session)
    steps: list[tuple[str, Callable[[], None]]] = [
        ("bridge", lambda: measure_bridge(session, form, contestants)),
        ("streams", lambda: measure_streams(session, form, contestants, installer)),
        ("rows", lambda: measure_rows(session, form, all_runners)),
        ("start", lambda: measure_start(session, form, contestants)),
        ("native", lambda: native_lane.measure(session, form.native_s, form.native_rounds)),
        ("defaults", lambda: bridge.defaults(session, form.defaults_s, form.defaults_rounds)),
        ("rows", lambda: measure_many_rows(session, form, all_runners[0])),
    ]
    for part, step in steps:
        if part in parts:
            step()


def warm_up(session: Session) -> None:
    """Compile our packages, and start the bridge once, so that what is timed later is a start as users have it."""
    for package in ("bridge", "runner", "cli"):
        compileall.compile_dir(HERE.parent / package, quiet=2)
    bridge.attempt(session, replace(ours(), name="warm-up"), "warm-up", 5, bridge.start_only)


def measure_bridge(session: Session, form: Form, contestants: list[Contestant]) -> None:
    """Throughput and latency, rounds across contestants."""
    phases = form.phases
    for round_ in range(form.rounds):
        for contestant in rotated(contestants, round_):
            if round_ >= form.peer_rounds and contestant.name not in MAIN:
                continue
            what = f"{contestant.name}: throughput and latency, round {round_ + 1} of {form.rounds}"
            seconds = phases.small + phases.large + 2 * phases.paced + 6
            bridge.attempt(session, contestant, what, seconds, _visit(form, round_))


def _visit(form: Form, round_: int) -> bridge.Work:
    return lambda session, contestant: bridge.visit(session, contestant, form.phases, round_)


def measure_streams(
    session: Session, form: Form, contestants: list[Contestant], installer: Installer
) -> None:
    """Every shape, rounds across contestants; no more streams than a contestant is made for."""
    streaming_nginx: Contestant | None = None
    with contextlib.suppress(Unusable):
        streaming_nginx = nginx(installer, streaming=True)
    for round_, shape in itertools.product(range(form.stream_rounds), form.shapes):
        for contestant in rotated(contestants, round_):
            if not _takes_part(contestant, form, shape):
                continue
            what = f"{contestant.name}: {shape.measure}, round {round_ + 1} of {form.stream_rounds}"
            seconds = (shape.chunks * shape.gap_ms + shape.ramp_ms) / 1e3 + 6
            prepared = bridge.for_streams(contestant, streaming_nginx)
            bridge.attempt(session, prepared, what, seconds, _streams(shape, round_))


def _takes_part(contestant: Contestant, form: Form, shape: bridge.Shape) -> bool:
    return contestant.name in MAIN or (form.stream_peers and contestant.most_streams >= shape.streams)


def _streams(shape: bridge.Shape, round_: int) -> bridge.Work:
    return lambda session, contestant: bridge.stream_visit(session, contestant, shape, round_)


def measure_start(session: Session, form: Form, contestants: list[Contestant]) -> None:
    """Start-up alone, more often than the visits give it."""
    for round_ in range(form.start_rounds):
        for contestant in rotated(contestants, round_):
            if contestant.launch is not None:
                what = f"{contestant.name}: start, round {round_ + 1} of {form.start_rounds}"
                bridge.attempt(session, contestant, what, 4, _start(form.rounds + round_))


def _start(round_: int) -> bridge.Work:
    return lambda session, contestant: bridge.start_up(session, contestant, round_)


def measure_rows(session: Session, form: Form, all_runners: list[Runner]) -> None:
    """Runners over the same rows, the small runs first."""
    mine, *others = all_runners
    run_rows(session, replace(mine, name=runners.WARM_UP), 20, 0)
    plan = [
        (count, round_, mine) for count, rounds in form.rows if count < MANY_ROWS for round_ in range(rounds)
    ]
    plan += [(count, 0, other) for other in others for count in form.peer_rows.get(other.name, ())]
    for count, round_, runner in sorted(plan, key=lambda step: (step[0], step[1])):
        run_rows(session, runner, count, round_)


def measure_many_rows(session: Session, form: Form, runner: Runner) -> None:
    """The run that takes minutes, last of all."""
    for count, rounds in form.rows:
        if count >= MANY_ROWS:
            for round_ in range(rounds):
                run_rows(session, runner, count, round_)


def conclude(book: Book, wanted: bool, console: Console) -> None:  # noqa: FBT001 - it is the flag of the command line
    """Publish what may be published, and say where things are."""
    latest = book.path.with_name("latest.json")
    latest.write_bytes(book.path.read_bytes())
    console.print(f"raw observations: {os.path.relpath(book.path)}", markup=False)
    if not wanted:
        console.print(
            f"{report.PAGE.name} was left as it is: not asked for, or not all was measured", markup=False
        )
        return
    if not book.head.get("quiet"):
        console.print(
            "docs/performance.md was left as it is: the machine was not quiet", style="yellow", markup=False
        )
        return
    for path in report.publish(book, report.PAGE):
        console.print(f"wrote {path.relative_to(HERE.parent)}", markup=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
