#!/usr/bin/env python3
"""Let a bridge serve many mixed calls whose clients leave at random, and see what is left.

Starts a bridge and an upstream, prints memory, open upstream connections and records as it goes, then what does not add
up. Exit code 1 if anything does not. Knows the bridge by its command, its routes and its ledger only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from counting_upstream import CountingUpstream
from osmosis_bridge.upstream import Endpoint, Exchange, Timeouts
from osmosis_bridge.upstream.http import HttpTransport

TOKEN = "bearer-of-the-soak-1234"
KEY = "key-of-the-soak-5678"
CALLS_A_ROLLOUT = 50
SAMPLES = 40
REPLY_LIMIT = 1 << 24
ANSWERED = ("ok", "no_usage", "no_total", "big_total", "slow", "slow", "status_400", "status_500", "in_band")
ANSWERED_STREAMS = ("cumulative", "cut", "first_error")
SILENT = ("hang", "hang_plain", "hang_midway", "hang_counted")
"""Of these only leaving makes an end."""


@dataclass(frozen=True, slots=True)
class Order:
    """One call to make: what the upstream is to do with it."""

    id: str
    rollout: str
    kind: str
    stream: bool = False

    @property
    def body(self) -> bytes:
        """The request."""
        order = {"id": self.id, "rollout": self.rollout, "kind": self.kind}
        message = {"role": "user", "content": json.dumps(order)}
        return json.dumps({"model": "m", "stream": self.stream, "messages": [message]}).encode()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client got."""

    status: int
    call_id: str
    body: bytes = b""


class Caller:
    """A client over the lean transport; leaving is cancelling what it awaits."""

    def __init__(self, transport: HttpTransport, url: str, token: str) -> None:
        self._transport = transport
        self._endpoint = Endpoint.parse(url)
        self._headers = ((b"authorization", b"Bearer " + token.encode()),)

    async def open(self, order: Order, mark: int | None = None) -> Exchange:
        """Send a call; its reply's head has come. `mark` is the count of retries that an SDK would send."""
        marks = () if mark is None else ((b"x-stainless-retry-count", str(mark).encode()),)
        path = f"/v1/rollouts/{order.rollout}/chat/completions".encode()
        return await self._transport.open(b"POST", self._endpoint, path, (*self._headers, *marks), order.body)

    async def ask(self, order: Order, mark: int | None = None) -> Seen:
        """One call and its whole reply."""
        exchange = await self.open(order, mark)
        try:
            body = await exchange.whole(REPLY_LIMIT)
        finally:
            exchange.close()
        return Seen(exchange.status, (exchange.header(b"x-osmosis-call-id") or b"").decode(), body)

    async def first_chunk(self, order: Order, mark: int | None = None) -> None:
        """One call, left after the first piece of its reply."""
        exchange = await self.open(order, mark)
        try:
            await exchange.chunk()
        finally:
            exchange.close()

    async def fetch(self, method: bytes, path: str) -> dict[str, Any]:
        """Another route's answer."""
        exchange = await self._transport.open(method, self._endpoint, path.encode(), self._headers, b"")
        try:
            return json.loads(await exchange.whole(REPLY_LIMIT))
        finally:
            exchange.close()


@dataclass(frozen=True, slots=True)
class Sample:
    """How things stood after so many calls."""

    calls: int
    seconds: float
    resident_mb: float
    upstream_open: int
    records: int


@dataclass
class Soak:
    """A soak under way: what clients were told, and how the bridge stood meanwhile."""

    caller: Caller
    upstream: CountingUpstream
    ledger: Path
    pid: int
    seed: int
    marked: bool
    samples: list[Sample] = field(default_factory=list[Sample])
    told: set[str] = field(default_factory=set[str])
    """The call ids of replies that came whole."""
    left: int = 0
    done: Counter[str] = field(default_factory=Counter[str])
    closed: dict[str, int] = field(default_factory=dict[str, int])
    """The calls of each closed rollout, as closing told."""

    async def run(self, calls: int, concurrency: int, tell: Callable[[Sample], None]) -> None:
        """Make all calls, so many at a time."""
        numbers = iter(range(calls))
        started = time.monotonic()
        every = max(1, calls // SAMPLES)

        async def work() -> None:
            for number in numbers:
                of_rollout = min(CALLS_A_ROLLOUT, calls - number // CALLS_A_ROLLOUT * CALLS_A_ROLLOUT)
                await self._one(number, of_rollout)
                if self.done.total() >= every * (len(self.samples) + 1):
                    self.samples.append(self._sample(time.monotonic() - started))
                    tell(self.samples[-1])

        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(work())

    async def _one(self, number: int, of_rollout: int) -> None:
        chance = random.Random(f"{self.seed}-{number}")  # noqa: S311 - a mix that can be had again
        rollout = f"soak-{number // CALLS_A_ROLLOUT}"
        stream = chance.random() < 0.6
        leaves = chance.random() < 0.25
        kinds = ANSWERED + (ANSWERED_STREAMS if stream else ()) + (SILENT if leaves else ())
        order = Order(f"{number}", rollout, chance.choice(kinds), stream)
        mark = 0 if self.marked and chance.random() < 0.5 else None
        try:
            async with asyncio.timeout(chance.uniform(0, 0.03) if leaves else None):
                self.told.add((await self.caller.ask(order, mark)).call_id)
        except TimeoutError:
            self.left += 1
        self.done[rollout] += 1
        if self.done[rollout] == of_rollout:
            totals = await self.caller.fetch(b"POST", f"/v1/rollouts/{rollout}/close")
            self.closed[rollout] = totals["calls"]

    def _sample(self, seconds: float) -> Sample:
        records = sum(self.closed.values())
        return Sample(self.done.total(), seconds, resident_mb(self.pid), self.upstream.open, records)

    async def complaints(self) -> list[str]:
        """What does not add up, once every client has left or has its reply."""
        found: list[str] = []
        if not await comes_to_hold(lambda: self.upstream.busy == 0):
            found.append(f"{self.upstream.busy} upstream exchanges are still open")
        whole = await self.caller.fetch(b"GET", "/usage")
        records = [json.loads(line) for line in self.ledger.read_text("utf-8").splitlines()]
        return [
            *found,
            *miscounted(records, self.closed),
            *self._untold(records),
            *self._unlike(whole, records),
        ]

    def _untold(self, records: list[dict[str, Any]]) -> Iterator[str]:
        ids = Counter(record["call_id"] for record in records)
        for call_id in self.told:
            if ids[call_id] != 1:
                yield f"{call_id}: told to a client, recorded {ids[call_id]} times"

    def _unlike(self, whole: dict[str, Any], records: list[dict[str, Any]]) -> Iterator[str]:
        if whole["calls"] != len(records):
            yield f"/usage counts {whole['calls']} calls, the ledger {len(records)}"
        asked = [r for r in records if "usage_source" in r or r["status"] == "upstream_error"]
        reached = [record for record in asked if record["status"] != "cancelled"]
        # Who left while the connection was being made was not heard by the upstream.
        if not len(reached) <= self.upstream.requests <= len(asked):
            yield f"the upstream saw {self.upstream.requests} calls, recorded are {len(reached)} to {len(asked)}"
        given = sum(count.tokens for count in self.upstream.counts.values())
        if whole["tokens"] > given:
            yield f"{whole['tokens']} tokens are recorded, only {given} were given"

    def growth(self) -> float:
        """Memory in the last quarter of the calls over memory in the second: 1.0 is flat."""
        sizes = [sample.resident_mb for sample in self.samples]
        quarter = len(sizes) // 4
        return statistics.median(sizes[-quarter:]) / statistics.median(sizes[quarter : 2 * quarter])


def miscounted(records: list[dict[str, Any]], closed: dict[str, int]) -> Iterator[str]:
    """Rollouts whose records are not numbered 1, 2, 3, ... to what closing them told."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for record in records:
        numbers[record["rollout_id"]].append(record["seq"])
    for rollout in numbers.keys() | closed.keys():
        found = sorted(numbers[rollout])
        if found != list(range(1, closed.get(rollout, 0) + 1)):
            last = max(found, default=0)
            yield f"{rollout}: {len(found)} records up to number {last}, closed with {closed.get(rollout)}"


def resident_mb(pid: int) -> float:
    """Memory of a process that stands in RAM, in MB."""
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1000


@contextmanager
def bridge(folder: Path, upstream: str, *flags: str) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    """A bridge for that upstream: its URL and its process; it must end with exit code 0 when it is told to stop."""
    ready = folder / "ready.json"
    command = [sys.executable, "-m", "osmosis_bridge", "serve", "--model", "openai/m", "--api-base", upstream]
    command += ["--port", "0", "--ready-file", str(ready), "--ledger", str(folder / "calls.jsonl"), *flags]
    environ = {**os.environ, "OSMOSIS_BRIDGE_TOKEN": TOKEN, "OPENAI_API_KEY": KEY}
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    try:
        while not ready.exists():
            if process.poll() is not None:
                raise RuntimeError((folder / "log.txt").read_text())
            time.sleep(0.01)
        yield json.loads(ready.read_text())["url"], process
        process.send_signal(signal.SIGTERM)
        if (code := process.wait(60)) != 0:
            raise RuntimeError(f"the bridge ended with exit code {code}")
    finally:
        process.kill()
        process.wait()


async def soak(
    folder: Path,
    calls: int,
    tell: Callable[[Sample], None],
    *,
    concurrency: int = 64,
    seed: int = 0,
    marked: bool = True,
) -> tuple[Soak, list[str]]:
    """A whole soak in a folder; what was seen, and what does not add up."""  # fmt: skip
    upstream = CountingUpstream(seed)
    await upstream.start()
    transport = HttpTransport(max_connections=concurrency + 1, timeouts=Timeouts(idle=60))
    try:
        with bridge(folder, upstream.url) as (url, process):
            caller = Caller(transport, url, TOKEN)
            running = Soak(caller, upstream, folder / "calls.jsonl", process.pid, seed, marked)
            await running.run(calls, concurrency, tell)
            found = [*await running.complaints()]
            await transport.close()
        if not await comes_to_hold(lambda: upstream.open == 0):
            found.append(f"{upstream.open} upstream connections are open after the bridge has ended")
    finally:
        await transport.close()
        await upstream.stop()
    return running, found


async def comes_to_hold(holds: Callable[[], bool], within_s: float = 10.0) -> bool:
    """Whether something holds soon."""
    until = time.monotonic() + within_s
    while not holds() and time.monotonic() < until:  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.01)
    return holds()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Many mixed calls whose clients leave at random.")
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unmarked", action="store_true", help="no call says that its client counts retries")
    given = parser.parse_args()
    print("   calls  seconds  resident MB  upstream open  records of closed rollouts")
    options = {"concurrency": given.concurrency, "seed": given.seed, "marked": not given.unmarked}
    with tempfile.TemporaryDirectory() as folder:
        running, found = uvloop.run(soak(Path(folder), given.calls, show, **options))
    print(f"{running.left} clients left early, {len(running.told)} replies came whole")
    print(f"memory in the last quarter over the second: {running.growth():.3f}")
    print("\n".join(found) or "everything adds up")
    return 1 if found else 0


def show(sample: Sample) -> None:
    """One line of the table."""
    mb, still_open, records = sample.resident_mb, sample.upstream_open, sample.records
    print(f"{sample.calls:8} {sample.seconds:8.1f} {mb:12.1f} {still_open:14} {records:27}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
