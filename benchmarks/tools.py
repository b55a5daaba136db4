"""The upstream and the load clients: C programs built at first use, or the same in Python where there is no compiler.

Each client is a process that prints one JSON object at its end and is given up after a time limit.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from benchmarks.machine import Cores, pinned
from benchmarks.processes import Started, guarded, start, stop

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "native"
BUILD = HERE / ".build"
PROGRAMS = ("upstream", "load", "streams")
COMPILE_S = 120.0
SLACK_S = 40.0
"""Seconds a client may take beyond what it was told."""

Figures = dict[str, float]


class ToolFailed(Exception):
    """A client or the upstream did not do its work; the message says what it left behind."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a client sends its calls: a port on loopback, a path, headers."""

    port: int
    path: str
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tools:
    """How each client is started; `wrk` is used for saturation where it is installed."""

    commands: dict[str, list[str]]
    wrk: str | None
    cores: Cores
    compiler: str | None

    def describe(self) -> dict[str, str]:
        """What measures, for the report."""
        made = f"C, {self.compiler}" if self.compiler else "Python (no C compiler here)"
        return {"upstream and clients": made, "saturation": _wrk_version(self.wrk) or "own client"}

    def plain(self, goal: Goal, body: Path, connections: int, pause_us: int, seconds: float) -> Figures:
        """Paced calls over so many connections; latencies in ms. Raises `ToolFailed`."""
        arguments = [str(goal.port), goal.path, str(body), str(connections), str(pause_us), str(seconds)]
        return self._run([*self.commands["load"], *arguments, *goal.headers], seconds)

    def saturate(self, goal: Goal, body: Path, connections: int, seconds: float) -> Figures:
        """As many calls as go through; `rate` is calls a second. Raises `ToolFailed`."""
        if self.wrk is None:
            return self.plain(goal, body, connections, 0, seconds)
        whole = max(1, round(seconds))
        script = body.with_suffix(".lua")
        script.write_text(_lua(body, goal.headers), encoding="utf-8")
        command = [
            *(self.wrk, "-t1", f"-c{connections}", f"-d{whole}s", "--timeout", "20s", "-s", str(script)),
            f"http://127.0.0.1:{goal.port}{goal.path}",
        ]
        return self._run(command, whole)

    def streams(
        self, goal: Goal, body: Path, streams: int, ramp_ms: int, chunks: int, seconds: float
    ) -> Figures:
        """So many streams at once, given up after `seconds`. Raises `ToolFailed`."""
        arguments = [str(goal.port), goal.path, str(body), str(streams), str(ramp_ms), str(chunks)]
        return self._run([*self.commands["streams"], *arguments, str(seconds), *goal.headers], seconds)

    def _run(self, command: Sequence[str], seconds: float) -> Figures:
        with pinned(self.cores.client):
            process = subprocess.Popen(
                guarded(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        try:
            out, complaint = process.communicate(timeout=seconds + SLACK_S)
        except subprocess.TimeoutExpired:
            raise ToolFailed(f"{Path(command[0]).name} did not end {SLACK_S:.0f} s after its time") from None
        finally:
            process.kill()
            process.wait()
        return read_figures(out, complaint)


def read_figures(out: str, complaint: str) -> Figures:
    """The JSON object in what a client printed; `ToolFailed` where there is none."""
    for line in reversed(out.splitlines()):
        text = line.removeprefix("JSON ").strip()
        if text.startswith("{"):
            found = cast("dict[str, object]", json.loads(text))
            return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}
    raise ToolFailed(" ".join((complaint or out or "it printed nothing").split())[-300:])


_LUA = """\
local file = io.open({body}, "rb")
wrk.body = file:read("*a")
file:close()
wrk.method = "POST"
{headers}
done = function(summary, latency, requests)
  local e, s = summary.errors, summary.duration / 1e6
  local form = 'JSON {{"requests":%d,"seconds":%.4f,"rate":%.1f,"p50_ms":%.3f,"p90_ms":%.3f,'
    .. '"p99_ms":%.3f,"max_ms":%.3f,"bad_status":%d,"broken":%d}}\\n'
  io.write(string.format(form, summary.requests, s, summary.requests / s, latency:percentile(50) / 1e3,
    latency:percentile(90) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3, e.status,
    e.connect + e.read + e.write + e.timeout))
end
"""


def _lua(body: Path, headers: Sequence[str]) -> str:
    """Wrk's script: the request, and the same figures as our own client prints."""
    named = [header.split(": ", 1) for header in ("Content-Type: application/json", *headers)]
    lines = [f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in named]
    return _LUA.format(body=json.dumps(str(body)), headers="\n".join(lines))


def _wrk_version(wrk: str | None) -> str | None:
    if wrk is None:
        return None
    shown = subprocess.run([wrk, "-v"], capture_output=True, text=True, check=False, timeout=10)
    first = (shown.stdout or shown.stderr).split("Copyright")[0].strip()
    return first or "wrk"


def find_tools(cores: Cores) -> Tools:
    """Build what needs building; raises `ToolFailed` when a program of ours does not compile."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        plain = [sys.executable, str(HERE / "plain.py")]
        return Tools({name: [*plain, name] for name in PROGRAMS}, shutil.which("wrk"), cores, None)
    BUILD.mkdir(exist_ok=True)
    for name in PROGRAMS:
        _compile(compiler, name)
    return Tools({name: [str(BUILD / name)] for name in PROGRAMS}, shutil.which("wrk"), cores, compiler)


def _compile(compiler: str, name: str) -> None:
    source, program = SOURCES / f"{name}.c", BUILD / name
    newest = max(source.stat().st_mtime, (SOURCES / "wire.h").stat().st_mtime)
    if program.exists() and program.stat().st_mtime > newest:
        return
    command = [compiler, "-O2", "-Wall", "-o", str(program), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_S)
    if done.returncode:
        raise ToolFailed(f"{compiler} could not build {source.name}: {done.stderr.strip()[-300:]}")


@dataclass(slots=True)
class Upstream:
    """The provider, while it runs."""

    started: Started
    port: int

    @property
    def url(self) -> str:
        """Its base URL, as contestants are given it."""
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> Figures:
        """What it was asked since the last reset."""
        return self._get("stats")

    def reset(self) -> None:
        """Forget what it was asked."""
        self._get("reset")

    def _get(self, page: str) -> Figures:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{page}", timeout=10) as reply:
            return read_figures(reply.read().decode(), "")


@contextmanager
def running_upstream(tools: Tools, folder: Path) -> Generator[Upstream, None, None]:
    """The upstream on the client's core. Raises `ToolFailed`."""
    log = folder / "upstream.txt"
    started = start([*tools.commands["upstream"], "0"], log, [tools.cores.client], folder, {})
    try:
        yield Upstream(started, _announced_port(started))
    finally:
        stop(started)


def _announced_port(started: Started) -> int:
    for _ in range(500):
        first = started.log.read_text("utf-8", "replace").partition("\n")
        if first[1] and first[0].isdigit():
            return int(first[0])
        if started.process.poll() is not None:
            break
        try:
            started.process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
    raise ToolFailed(f"the upstream did not start: {started.last_words()}")
