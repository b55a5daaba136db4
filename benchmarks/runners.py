"""How runners are measured: the same rows, one call each on an instant upstream, so many in flight.

A runner is one command; what it took is measured from outside: the upstream says when the first and the last row came,
/proc says what its process tree used. Upstream on one core, the runner's processes on both.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.contestants import KEY, KEY_VARIABLE, OSMOSIS_AI, OURS, versions_of_ours
from benchmarks.environments import (
    PEERS,
    Installer,
    Requirement,
    Unusable,
    find_uv,
    install_step,
    versions_in,
)
from benchmarks.processes import Started, Watch, end, start, stop, tree, watching
from benchmarks.session import FAILURES, Meter, OutOfTime, Session, environment
from benchmarks.tools import Figures

HERE = Path(__file__).resolve().parent
IN_FLIGHT = 32
INSPECT = Requirement("inspect-ai", ("inspect-ai==0.3.285", "openai>=2"), "inspect-ai")
VERIFIERS = Requirement("verifiers", ("verifiers==0.4.0",), "verifiers")
_SAMPLE_S = 0.05
GRACE_S = 90.0
"""Seconds that a run may go on after the time of the whole is up."""
WARM_UP = "warm-up"
"""Under this name a runner runs so that its files are compiled and cached; nothing is kept of it."""


@dataclass(frozen=True, slots=True)
class Command:
    """How a runner is started over one file of rows."""

    arguments: Sequence[str]
    cwd: Path
    environ: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Rows:
    """What is run: a file of so many rows, the provider's URL, a folder to write in."""

    file: Path
    count: int
    upstream_url: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Runner:
    """One runner; `row_s` and `start_s` say how long it may be expected to take."""

    name: str
    title: str
    command: Callable[[Rows], Command]
    versions: Mapping[str, str]
    row_s: float
    start_s: float

    def expected_s(self, rows: int) -> float:
        """Seconds that so many rows may take."""
        return self.start_s + rows * self.row_s


_CONFIG = """\
[experiment]
rollout = "bench"
entrypoint = "main.py"
model_path = "{model}"
dataset = "bench"
[evaluation]
n = 1
pass_threshold = 1.0
[secrets]
required = []
"""


def lay_workspace(folder: Path, model: str, *sources: tuple[Path, str]) -> None:
    """A workspace with one rollout, made of these files under these names."""
    for part in ("configs/eval", "configs/training", "rollouts/bench", "data"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "configs/eval/bench.toml").write_text(_CONFIG.format(model=model), encoding="utf-8")
    for source, name in sources:
        shutil.copyfile(source, folder / "rollouts" / "bench" / name)


def ours() -> Runner:
    """`osmosis eval run` of this checkout, with everything on that is on by default."""

    def command(rows: Rows) -> Command:
        workspace = rows.folder / "workspace"
        agent = HERE / "agents"
        lay_workspace(
            workspace,
            "openai/mock-1",
            (agent / "ours_main.py", "main.py"),
            (agent / "one_call.py", "one_call.py"),
        )
        arguments = [
            *(
                sys.executable,
                "-m",
                "osmosis_cli",
                "--json",
                "eval",
                "run",
                "configs/eval/bench.toml",
                "--yes",
            ),
            *("--dataset-file", str(rows.file), "--max-in-flight", str(IN_FLIGHT)),
            *("--api-base", rows.upstream_url, "--api-key-env", KEY_VARIABLE),
        ]
        return Command(arguments, workspace, {KEY_VARIABLE: KEY})

    return Runner(OURS, "osmosis eval run", command, versions_of_ours(), 0.002, 4)


_PROJECT = """\
[project]
name = "bench"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["osmosis-ai[server]==0.3.8"]
[tool.uv]
package = false
"""


def osmosis_ai(installer: Installer) -> Runner:
    """osmosis-ai's runner; its rollout's environment is made before anything is measured. Raises `Unusable`."""
    python = installer.environment(OSMOSIS_AI)
    workspace = PEERS / "osmosis-ai-workspace"
    lay_workspace(
        workspace,
        "openai/mock-1",
        (HERE / "peers" / "osmosis_ai_main.py", "main.py"),
        (HERE / "agents" / "one_call.py", "one_call.py"),
    )
    project = workspace / "rollouts" / "bench"
    (project / "pyproject.toml").write_text(_PROJECT, encoding="utf-8")
    if not (project / ".venv" / ".ready").exists():
        _sync(project, python, installer)

    def command(rows: Rows) -> Command:
        arguments = [
            *(str(python.parent / "osmosis"), "--json", "eval", "run", "configs/eval/bench.toml", "--yes"),
            *("--dataset-file", str(rows.file), "--max-in-flight", str(IN_FLIGHT)),
            *("--output", str(rows.folder / "runs")),
        ]
        environ = {
            "OPENAI_API_KEY": KEY,
            "OPENAI_API_BASE": rows.upstream_url,
            "OPENAI_BASE_URL": rows.upstream_url,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_OFFLINE": "1",
        }
        return Command(arguments, workspace, environ)

    return Runner("osmosis-ai", "osmosis-ai eval run", command, versions_in(python, ["osmosis-ai"]), 0.16, 15)


def _sync(project: Path, python: Path, installer: Installer) -> None:
    """Make the rollout's own environment, and the Git work tree that this runner wants around it."""
    if not installer.may_install:
        raise Unusable("its rollout's environment is not made; `make bench-full`, or --peers, makes it")
    workspace = project.parent.parent
    installer.tell("making the environment of osmosis-ai's rollout")
    install_step(["git", "init", "--quiet", str(workspace)])
    wanted = ["--python", str(python), "--project", str(project)]
    install_step([find_uv(), "sync", "--quiet", "--compile-bytecode", *wanted])
    (project / ".venv" / ".ready").touch()


def inspect_ai(installer: Installer) -> Runner:
    """Inspect AI over the same rows. Raises `Unusable`."""
    python = installer.environment(INSPECT)

    def command(rows: Rows) -> Command:
        script = str(HERE / "peers" / "inspect_rows.py")
        arguments = [str(python), script, str(rows.file), rows.upstream_url, str(IN_FLIGHT), str(rows.folder)]
        return Command(arguments, rows.folder, {"OPENAI_API_KEY": KEY})

    return Runner("inspect-ai", "Inspect AI", command, versions_in(python, ["inspect-ai", "openai"]), 0.07, 8)


def verifiers(installer: Installer) -> Runner:
    """verifiers, its harness in-process, over the same rows. Raises `Unusable`."""
    python = installer.environment(VERIFIERS)

    def command(rows: Rows) -> Command:
        harness = ("--env.agent.harness.id", "bench_rows", "--env.agent.runtime.type", "subprocess")
        arguments = [
            *(str(python.parent / "vf-eval"), "bench_rows", *harness, "-m", "mock-1"),
            *("--client.base-url", rows.upstream_url, "--client.api-key-var", "BENCH_KEY"),
            *("--max-concurrent", str(IN_FLIGHT), "--no-push", "--no-rich", "-o", str(rows.folder / "runs")),
        ]
        environ = {
            "BENCH_KEY": KEY,
            "BENCH_ROWS": str(rows.file),
            "PYTHONPATH": str(HERE / "peers"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return Command(arguments, rows.folder, environ)

    return Runner("verifiers", "verifiers, in-process", command, versions_in(python, ["verifiers"]), 0.07, 8)


PEER_RUNNERS: Mapping[str, Callable[[Installer], Runner]] = {
    "osmosis-ai": osmosis_ai,
    "inspect-ai": inspect_ai,
    "verifiers": verifiers,
}


def peers(installer: Installer, note: Callable[[str], None]) -> list[Runner]:
    """The runners that are there; a missing one is a note."""
    found: list[Runner] = []
    for name, make in PEER_RUNNERS.items():
        try:
            found.append(make(installer))
        except (Unusable, OSError, subprocess.TimeoutExpired) as error:
            note(f"runner {name} was left out: {error}")
    return found


def write_rows(path: Path, count: int) -> None:
    """A dataset of so many different rows, each with the mark by which the upstream counts it."""
    with path.open("w", encoding="utf-8") as file:
        for index in range(count):
            prompt = f"@@row {index}: which of the words walnut, basket and ribbon is the longest?"
            file.write(json.dumps({"user_prompt": prompt, "ground_truth": "walnut"}) + "\n")


def run_rows(session: Session, runner: Runner, count: int, round_: int) -> None:
    """So many rows through one runner; what goes wrong becomes a note."""
    what = f"{runner.name}: {count:,} rows"
    try:
        session.need(runner.expected_s(count), what)
        session.tell(what)
        _run(session, runner, count, round_)
    except OutOfTime:
        return
    except FAILURES as error:
        session.book.note(f"{what}: {error}")


def _run(session: Session, runner: Runner, count: int, round_: int) -> None:
    folder = session.new_folder(f"{runner.name}-{count}")
    rows = Rows(folder / "rows.jsonl", count, session.upstream.url, folder)
    write_rows(rows.file, count)
    command = runner.command(rows)
    session.upstream.reset()
    left = session.until - time.monotonic()
    limit = min(3 * runner.expected_s(count) + 60, left + GRACE_S)
    meter = Meter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = sorted({session.cores.client, session.cores.contestant})
    environ = {**environment(), **command.environ}
    started = start(command.arguments, folder / "log.txt", cores, command.cwd, environ)
    try:
        with watching(started.pid, _SAMPLE_S) as watch:
            status = _wait(started, limit, watch)
        seconds = watch.until - started.at
    finally:
        members = list(tree(started.pid))
        stop(started)
        end(members)
    foreign = meter.foreign_pct()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    stats = session.upstream.stats()
    # Who came to its end says what became of the rows, at length.
    words = f": {started.last_words()}" if status else ""
    shutil.rmtree(folder, ignore_errors=True)
    if status != 0 or stats["rows"] < count:
        raise Unusable(
            f"ended with {status} after {stats['rows']:.0f} of {count} rows and {seconds:.0f} s{words}"
        )
    figures = row_figures(stats, count, started.at, seconds, watch, max(spent, watch.tree_cpu_s))
    if runner.name != WARM_UP:
        session.book.observe(f"rows_{count}", runner.name, round_, figures, foreign)


def _wait(started: Started, limit: float, watch: Watch) -> int:
    try:
        status = started.process.wait(limit)
    except subprocess.TimeoutExpired:
        raise Unusable(f"did not end within {limit:.0f} s: {started.last_words()}") from None
    watch.ended()
    return status


def row_figures(
    stats: Figures, count: int, began: float, seconds: float, watch: Watch, cpu_s: float
) -> Figures:
    """Figures of one run: `began` is on the clock of the upstream's stamps (monotonic seconds)."""
    between = (stats["last_row_us"] - stats["first_row_us"]) / 1e6
    return {
        "rows": float(count),
        "seconds": seconds,
        "rows_per_s": count / seconds,
        "steady_rows_per_s": count / between if between > 0 else 0.0,
        "first_dispatch_s": stats["first_row_us"] / 1e6 - began,
        "cpu_ms_per_row": cpu_s * 1e3 / count,
        "supervisor_cpu_ms_per_row": watch.root_cpu_s * 1e3 / count,
        "peak_mb": watch.peak_mb,
        "supervisor_peak_mb": watch.root_peak_mb,
    }
