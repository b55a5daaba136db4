"""`python -m benchmarks.profile [calls|streams|rows]`: where the time goes, as the five largest costs.

With py-spy where it can be had (sampled from outside, nothing in the process changes), else with cProfile, which slows
what it measures and says so. Shares are of the samples, each counted for the innermost function that is ours or a
library's; not a measure of speed.
"""

from __future__ import annotations

import argparse
import pstats
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import bodies, bridge, runners
from benchmarks.contestants import Contestant, Launch, Place, launch_of, ours
from benchmarks.environments import Installer, Requirement, Unusable
from benchmarks.limits import Interrupted, alone, limited
from benchmarks.machine import adopt_orphans, choose_cores, raise_file_limit
from benchmarks.processes import end_descendants, start, stop
from benchmarks.report import PAGE, replaced
from benchmarks.results import HERE, new_book
from benchmarks.session import Running, Session, environment
from benchmarks.tools import ToolFailed, find_tools, running_upstream

PY_SPY = Requirement("py-spy", ("py-spy==0.4.3",), "py-spy")
SECONDS = 6
RATE = 400
MOST_S = 480
_WAITING = ("_worker (concurrent/futures/thread.py)", "wait (threading.py)")
MOST = 5
BEGIN, END = "<!-- profile: begin -->", "<!-- profile: end -->"


@dataclass(frozen=True, slots=True)
class Cost:
    """A function and its share of all samples, by itself and with what it calls."""

    function: str
    own: float
    whole: float


def costs_of(stacks: Iterable[str], most: int = MOST) -> list[Cost]:
    """The largest costs in collapsed stacks, one a line: `outer;inner COUNT`."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    total = 0
    for line in stacks:
        frames, _, count = line.strip().rpartition(" ")
        if not frames or not count.isdigit():
            continue
        names = [short(frame) for frame in frames.split(";")]
        if names[-1] in _WAITING:
            continue
        total += int(count)
        own[names[-1]] += int(count)
        for name in set(names):
            whole[name] += int(count)
    return [Cost(name, samples / total, whole[name] / total) for name, samples in own.most_common(most)]


def short(frame: str) -> str:
    """A frame `function (path/file.py:12)` without its line, and its path from the package on."""
    name, _, place = frame.partition(" (")
    path = place.rstrip(")").split(":")[0]
    for root in ("site-packages/", "/bridge/", "/runner/", "/cli/", "/benchmarks/"):
        if root in path:
            path = path.rpartition(root)[2]
    return f"{name} ({'/'.join(Path(path).parts[-3:])})" if path else name


def costs_of_cprofile(file: Path, most: int = MOST) -> list[Cost]:
    """The same from cProfile's statistics."""
    found = pstats.Stats(str(file)).get_stats_profile()
    total = sum(one.tottime for one in found.func_profiles.values()) or 1.0
    by_own = sorted(found.func_profiles.items(), key=lambda pair: -pair[1].tottime)[:most]
    return [
        Cost(f"{name} ({'/'.join(Path(one.file_name).parts[-3:])})", one.tottime / total, one.cumtime / total)
        for name, one in by_own
    ]


def find_py_spy(installer: Installer) -> str | None:
    """py-spy on PATH, or installed into a folder of its own; None where it cannot be had."""
    if found := shutil.which("py-spy"):
        return found
    try:
        return str(installer.environment(PY_SPY).parent / "py-spy")
    except Unusable as error:
        installer.tell(f"py-spy: {error}; cProfile instead")
        return None


def record(py_spy: str, session: Session, pid: int, seconds: float) -> list[str]:
    """Sample a process for so long; collapsed stacks. Raises `Unusable`."""
    folder = session.new_folder("py-spy")
    out = folder / "stacks.txt"
    command = [
        *(py_spy, "record", "--pid", str(pid), "--duration", str(round(seconds)), "--rate", str(RATE)),
        *("--format", "raw", "--output", str(out)),
    ]
    started = start(command, folder / "log.txt", [session.cores.client], folder, environment())
    try:
        started.process.wait(seconds + 30)
    finally:
        stop(started)
    if not out.exists():
        raise Unusable(f"py-spy: {started.last_words()}")
    return out.read_text(encoding="utf-8", errors="replace").splitlines()


def profile_bridge(
    session: Session, py_spy: str | None, work: Callable[[Running], object], contestant: Contestant
) -> list[Cost]:
    """The bridge while `work` goes on."""
    if py_spy is None:
        return _with_cprofile(session, work, contestant)
    with session.running(contestant) as running, _working(session, running, work):
        return costs_of(record(py_spy, session, running.pid, SECONDS))


@contextmanager
def _working(
    session: Session, running: Running, work: Callable[[Running], object]
) -> Generator[None, None, None]:
    """Keep the contestant busy in a process of its own."""
    work_folder = session.new_folder("work")
    body = bodies.write(work_folder, "body", work(running))
    goal = running.goal
    arguments = [*session.tools.commands["load"], str(goal.port), goal.path, str(body), "64", "0"]
    if b'"stream":true' in body.read_bytes():
        arguments = [*session.tools.commands["streams"], str(goal.port), goal.path, str(body), "1000", "500"]
        arguments += ["200", str(SECONDS + 25)]
    else:
        arguments.append(str(SECONDS + 3))
    load = start(
        [*arguments, *goal.headers], work_folder / "log.txt", [session.cores.client], work_folder, {}
    )
    try:
        time.sleep(1.0)
        yield
    finally:
        stop(load)


def _with_cprofile(session: Session, work: Callable[[Running], object], contestant: Contestant) -> list[Cost]:
    folder = session.new_folder("cprofile")
    out = folder / "profile.out"

    def launch(place: Place) -> Launch:
        known = launch_of(contestant)(place)
        return replace(known, command=[sys.executable, "-m", "cProfile", "-o", str(out), *known.command[1:]])

    with session.running(replace(contestant, launch=launch)) as running, _working(session, running, work):
        time.sleep(SECONDS)
    if not out.exists():
        raise Unusable("cProfile left nothing behind")
    return costs_of_cprofile(out)


def profile_calls(session: Session, py_spy: str | None) -> list[Cost]:
    """1 KB calls, as many as go through."""
    return profile_bridge(
        session, py_spy, lambda running: bodies.small(running.contestant.model, bodies.mark()), ours()
    )


def profile_streams(session: Session, py_spy: str | None) -> list[Cost]:
    """1,000 streams, a chunk each every 50 ms."""
    wide = bridge.for_streams(ours(), None)

    def body(running: Running) -> object:
        return bodies.small(running.contestant.model, bodies.mark(0, 200, 50), stream=True)

    return profile_bridge(session, py_spy, body, wide)


def profile_rows(session: Session, py_spy: str | None) -> list[Cost]:
    """The supervisor of a run of 20,000 rows, once it is under way."""
    if py_spy is None:
        raise Unusable("the runner is profiled with py-spy only")
    folder = session.new_folder("rows")
    rows = runners.Rows(folder / "rows.jsonl", 20_000, session.upstream.url, folder)
    runners.write_rows(rows.file, rows.count)
    command = runners.ours().command(rows)
    cores = sorted({session.cores.client, session.cores.contestant})
    environ = {**environment(), **command.environ}
    started = start(command.arguments, folder / "log.txt", cores, command.cwd, environ)
    try:
        time.sleep(3)
        return costs_of(record(py_spy, session, started.pid, SECONDS))
    finally:
        stop(started)


PROFILES: dict[str, tuple[str, Callable[[Session, str | None], list[Cost]]]] = {
    "calls": ("The bridge, 1 KB calls", profile_calls),
    "streams": ("The bridge, 1,000 streams", profile_streams),
    "rows": ("The runner's supervisor", profile_rows),
}


def show(found: dict[str, list[Cost]], console: Console) -> None:
    """The costs on the terminal."""
    for title, costs in found.items():
        table = Table("function", "of its own", "with what it calls", title=title, title_justify="left")
        for cost in costs:
            table.add_row(cost.function, f"{cost.own:.1%}", f"{cost.whole:.1%}")
        console.print(table)


def markdown(found: dict[str, list[Cost]], how: str) -> str:
    """The costs as a section of docs/performance.md."""
    parts = [f"By {how}; shares of samples."]
    for title, costs in found.items():
        rows = [f"| `{cost.function}` | {cost.own:.1%} | {cost.whole:.1%} |" for cost in costs]
        parts.append("\n".join([f"| {title} | of its own | with what it calls |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Profile what is named, or all three."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description="Where the time goes.")
    parser.add_argument("what", nargs="*", choices=[*PROFILES, []], help="all three where none is named")
    parser.add_argument("--cprofile", action="store_true", help="do not use py-spy")
    parser.add_argument("--publish", action="store_true", help="write the costs into docs/performance.md")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    adopt_orphans()
    raise_file_limit()
    folder = HERE / ".work" / "profile"
    installer = Installer(may_install=True, python=None, tell=lambda text: console.print(text, style="dim"))
    try:
        with limited(MOST_S), alone(folder.parent):
            folder.mkdir()
            py_spy = None if options.cprofile else find_py_spy(installer)
            found = _profiles(options.what or list(PROFILES), py_spy, folder, console)
    except (Interrupted, ToolFailed) as error:
        console.print(f"ended early: {error}", style="red", markup=False)
        return 1
    finally:
        end_descendants()
        shutil.rmtree(folder, ignore_errors=True)
    show(found, Console())
    if options.publish and found:
        text = markdown(found, "py-spy" if py_spy else "cProfile, which slows what it measures")
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), text, BEGIN, END), encoding="utf-8")
    return 0 if found else 1


def _profiles(
    names: Sequence[str], py_spy: str | None, folder: Path, console: Console
) -> dict[str, list[Cost]]:
    found: dict[str, list[Cost]] = {}
    cores = choose_cores()
    tools = find_tools(cores)
    with running_upstream(tools, folder) as upstream:
        until = time.monotonic() + MOST_S
        session = Session(tools, upstream, cores, folder, new_book("profile"), until, console.print)
        for name in names:
            title, work = PROFILES[name]
            console.print(f"profiling: {title}", style="dim", markup=False)
            try:
                found[title] = work(session, py_spy)
            except (Unusable, ToolFailed, OSError) as error:
                console.print(f"{title}: {error}", style="yellow", markup=False)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
