"""Every case of the conformance suite, against the real bridge in a process of its own.

One test a case, so that `-k S4` runs what it says. Cases that need a limit to be reached run against a second bridge
with small limits.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from osmosis_bridge.conformance import Case, Knobs, LedgerView, Target, select
from osmosis_bridge.conformance.run import probed, run_case
from osmosis_bridge.conformance.upstream import ScriptedUpstream

TOKEN = "run-bearer-canary-4242"
KEY = "sk-provider-canary-7777"
IDLE_S, HEARTBEAT_S, BODY_MB, SLOTS = 1.5, 0.3, 1, 10
SMALL = Knobs(idle_timeout=IDLE_S, heartbeat=HEARTBEAT_S, max_body=BODY_MB << 20, slots=SLOTS)
SMALL_FLAGS = (
    *("--idle-timeout-s", str(IDLE_S), "--keepalive-s", str(HEARTBEAT_S)),
    *("--max-body-mb", str(BODY_MB), "--max-upstream-connections", str(SLOTS), "--slot-timeout-s", "0.4"),
)
T = TypeVar("T")


@dataclass
class Loop:
    """An event loop in a thread, where upstream and client of the cases live."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(60)

    @contextmanager
    def turning(self) -> Iterator[Loop]:
        thread = threading.Thread(target=self.loop.run_forever)
        thread.start()
        try:
            yield self
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join(10)
            self.loop.close()


@dataclass
class Bench:
    """A bridge, its scripted upstream, and what it wrote."""

    loop: Loop
    upstream: ScriptedUpstream
    target: Target
    folder: Path


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop().turning() as turning:
        yield turning


@contextmanager
def serving(loop: Loop, folder: Path, knobs: Knobs, *flags: str) -> Iterator[Bench]:
    """The bridge as users start it, with a canary for a key, until the tests are over."""
    upstream = ScriptedUpstream()
    port = loop.run(upstream.start())
    ready, ledger = folder / "ready.json", folder / "calls.jsonl"
    command = [sys.executable, "-m", "osmosis_bridge", "serve", "--model", "openai/upstream-model"]
    command += ["--api-base", f"http://127.0.0.1:{port}/v1", "--port", "0", "--ready-file", str(ready)]
    command += ["--ledger", str(ledger), "--log-format", "json", *flags]
    environ = {**os.environ, "OPENAI_API_KEY": KEY, "OSMOSIS_BRIDGE_TOKEN": TOKEN}
    log = (folder / "log.txt").open("wb")
    process = subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT)
    try:
        url = wait_for(ready, process, folder)
        target = Target(
            url, bearer=TOKEN, ledger=LedgerView(ledger), secrets=(KEY, TOKEN), knobs=knobs, patience=5.0
        )
        yield Bench(loop, upstream, loop.run(probed(target, upstream)), folder)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(20)
        log.close()
        loop.run(upstream.stop())
    assert status == 0, f"the bridge ended with {status}"


def wait_for(ready: Path, process: subprocess.Popen[bytes], folder: Path) -> str:
    until = time.monotonic() + 30
    while not ready.exists():
        assert process.poll() is None, (folder / "log.txt").read_text()
        assert time.monotonic() < until, "the bridge did not become ready"
        time.sleep(0.02)
    return json.loads(ready.read_text())["url"]


@pytest.fixture(scope="module")
def bridge(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with serving(loop, tmp_path_factory.mktemp("bridge"), Knobs()) as bench:
        yield bench


@pytest.fixture(scope="module")
def small_bridge(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with serving(loop, tmp_path_factory.mktemp("small"), SMALL, *SMALL_FLAGS) as bench:
        yield bench


def hold(bench: Bench, case: Case) -> None:
    result = bench.loop.run(run_case(case, bench.target, bench.upstream))
    assert result.passed, f"{result.title}\n  wanted: {result.expected}\n  seen:   {result.seen}"


PLAIN = [case for case in select() if not case.needs]
LIMITS = [case for case in select() if case.needs]


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.id)
def test_the_bridge_gets_it_right(bridge: Bench, case: Case) -> None:
    hold(bridge, case)


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: case.id)
def test_the_bridge_gets_it_right_at_its_limits(small_bridge: Bench, case: Case) -> None:
    hold(small_bridge, case)


def test_no_file_that_the_bridge_wrote_holds_a_secret(bridge: Bench, small_bridge: Bench) -> None:
    files = [file for bench in (bridge, small_bridge) for file in bench.folder.iterdir()]
    assert {file.name for file in files} >= {"calls.jsonl", "log.txt", "ready.json"}
    held = [
        (file.name, secret) for file in files for secret in (KEY, TOKEN) if secret in file.read_text("utf-8")
    ]
    assert held == []


def test_every_line_of_the_ledger_is_a_record_of_its_own(bridge: Bench) -> None:
    lines = (bridge.folder / "calls.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    ids = [record["call_id"] for record in records]
    assert records
    assert len(set(ids)) == len(ids)
    assert {record["status"] for record in records} <= {
        "ok",
        "refused",
        "upstream_error",
        "truncated",
        "cancelled",
    }
