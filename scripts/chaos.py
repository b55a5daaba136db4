#!/usr/bin/env python3
"""Evaluate the same rows twice: undisturbed, and while supervisor, rollout server and bridge are killed at random.

Prints how often each was killed, then what does not add up: results that differ from the undisturbed run's, a row that
ran again after its result was recorded, a process that is left, tokens that were billed and are counted nowhere. Exit
code 1 if anything does not. What a provider billed for a call that was in flight when the bridge was killed cannot be
known: such calls are counted and told apart. Knows the product by its command, its files and its processes only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import uvloop

from counting_upstream import CountingUpstream
from osmosis_runner.orphans import marked

IN_FLIGHT = 8
TURNS = 2
ROWS_A_KILL = 14
"""Rows that must be there for each kill, so that the run lasts long enough."""
FRESH = (1, 6)
"""New results between two kills, at least and at most."""
EARLY_SHARE = 0.2
"""Of supervisors that are killed a moment after their start, before they do anything."""
EARLY_S = 0.7
ROLES = ("supervisor", "server", "bridge")
WEIGHTS = (2, 5, 5)
"""A supervisor takes longest to be there again."""
STARTS_WITHIN_S = 60.0
PARTIAL = 3
Item = tuple[int, int]

CONFIG = """\
[experiment]
rollout = "turns"
entrypoint = "main.py"
model_path = "openai/mock"
dataset = "rows"
[evaluation]
n = 2
[secrets]
required = []
"""

ROLLOUT = """\
import asyncio, json, uuid
from urllib.parse import urlsplit
from osmosis_runner.rollout import AgentWorkflow, Grader, serve


async def ask(ctx, messages):
    url, body = urlsplit(ctx.base_url), json.dumps({"model": "m", "messages": messages}).encode()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST {url.path}/chat/completions HTTP/1.1\\r\\nhost: {url.netloc}\\r\\nconnection: close\\r\\n"
    head += f"authorization: Bearer {ctx.api_key}\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    if b" 200 " not in answer.split(b"\\r\\n", 1)[0]:
        raise RuntimeError(answer[:200])
    return json.loads(answer.partition(b"\\r\\n\\r\\n")[2])["choices"][0]["message"]


class Turns(AgentWorkflow):
    async def run(self, ctx):
        messages, item = list(ctx.prompt), ctx.metadata["row"]
        for turn in range(TURNS):
            call = f"{item}-{turn}-{uuid.uuid4().hex[:12]}"
            messages.append({"role": "user", "content": json.dumps({"id": call, "rollout": call, "kind": "slow"})})
            messages.append(await ask(ctx, messages))
        if item % 10 == 3:
            raise ValueError(f"row {item} fails on purpose")
        return messages


class Scorer(Grader):
    async def grade(self, ctx):
        item = ctx.metadata["row"]
        ctx.sample.remove_sample = item % 10 == 7
        ctx.set_reward((item % 4) / 3)


serve(Turns, Scorer)
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What is to be the same however a run was disturbed."""

    status: str
    reward: float | None
    error_type: str | None


@dataclass
class Chaos:
    """One folder in which both runs happen."""

    root: Path
    upstream: CountingUpstream
    seed: int
    kills: Counter[str] = field(default_factory=Counter[str])
    starts: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - the numbers are no secret

    def lay(self, rows: int) -> None:
        """Make the workspace."""
        for folder in ("configs/eval", "configs/training", "rollouts/turns", "data"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / "configs/eval/chaos.toml").write_text(CONFIG)
        (self.root / "rollouts/turns/main.py").write_text(f"TURNS = {TURNS}\n{ROLLOUT}")
        lines = (json.dumps({"user_prompt": f"row {row}", "metadata": {"row": row}}) for row in range(rows))
        (self.root / "data/rows.jsonl").write_text("\n".join(lines) + "\n")

    def run_dir(self, name: str) -> Path:
        """Where a run's files are."""
        return self.root / ".osmosis" / "evals" / name

    async def start(self, name: str) -> asyncio.subprocess.Process:
        """Start a supervisor, which begins the run or goes on with it."""
        self.starts += 1
        arguments = ("--json", "eval", "run", "configs/eval/chaos.toml", "--yes", "--name", name)
        model = ("--api-base", self.upstream.url, "--api-key-env", "CHAOS_KEY", "--skip-preflight")
        with (self.root / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "osmosis_cli", *arguments, "--max-in-flight", str(IN_FLIGHT), *model),
                cwd=self.root,
                env={**os.environ, "CHAOS_KEY": "key-of-the-chaos"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def calm(self, name: str) -> None:
        """One run that nobody disturbs."""
        code = await (await self.start(name)).wait()
        if code != 0:
            raise RuntimeError(f"the undisturbed run ended with {code}:\n{self.log(name)}")

    async def rage(self, name: str, kills: int) -> None:
        """One run whose processes are killed so many times, started again whenever it ends before its time."""
        while True:
            supervisor = await self.start(name)
            async with asyncio.TaskGroup() as group:
                killing = group.create_task(self._kill(name, supervisor.pid, kills))
                code = await supervisor.wait()
                killing.cancel()
            if code == 0:
                return
            if code not in (PARTIAL, -signal.SIGKILL):
                raise RuntimeError(f"a supervisor ended with {code}:\n{self.log(name)}")

    def log(self, name: str) -> str:
        """The end of what the supervisors of a run wrote."""
        return (self.root / f"{name}.log").read_text("utf-8", "replace")[-2000:]

    async def _kill(self, name: str, supervisor: int, kills: int) -> None:
        """Kill until the supervisor is killed, or it has been often enough."""
        journal = self.run_dir(name) / "events.jsonl"
        if self.kills.total() < kills and self.random.random() < EARLY_SHARE:
            await asyncio.sleep(self.random.random() * EARLY_S)
            self._end("supervisor", supervisor)
            return
        suspects_until = 0
        while self.kills.total() < kills:
            wanted = finals(journal) + self.random.randint(*FRESH)
            while finals(journal) < wanted:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.005)
            role = self.random.choices(ROLES, WEIGHTS)[0]
            # A row is condemned when the server dies with it twice, which is right and not what is tried here: so what
            # was in flight at its death is given the time to show that it was not the cause.
            if role == "server" and finals(journal) < suspects_until:
                role = self.random.choice(("supervisor", "bridge"))
            pid = supervisor if role == "supervisor" else self._pid_of(name, role)
            if pid is not None and self._end(role, pid):
                if role == "supervisor":
                    return
                if role == "server":
                    suspects_until = finals(journal) + 2 * IN_FLIGHT + 1

    def _end(self, role: str, pid: int) -> bool:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.kills[role] += 1
        return True

    def _pid_of(self, name: str, role: str) -> int | None:
        word = b"osmosis_bridge" if role == "bridge" else b"main.py"
        for pid in marked(mark_of(self.run_dir(name))):
            try:
                if word in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
            except OSError:
                continue
        return None


def mark_of(run: Path) -> str:
    """What every process of a run carries in its environment."""
    return json.loads((run / "manifest.json").read_text())["local_run_id"]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def finals(journal: Path) -> int:
    """How many results a journal holds."""
    try:
        content = journal.read_bytes()
    except OSError:
        return 0
    return content.count(b"\n") - content.count(b'"status":"cancelled"')


def item_of(record: Mapping[str, Any]) -> Item:
    """Which item a record is of."""
    return record["row_index"], record["run_index"]


def results_of(run: Path) -> dict[Item, Result]:
    """The results of a run, from its sorted index."""
    return {
        item_of(line): Result(line["status"], line.get("reward"), line.get("error_type"))
        for line in lines_of(run / "index.jsonl")
    }


def run_twice(run: Path) -> Iterator[str]:
    """Items with more than one result, and calls of an item that began after its result was recorded."""
    records = lines_of(run / "events.jsonl")
    ended = {item_of(record): record for record in records if record["status"] != "cancelled"}
    counted = Counter(item_of(record) for record in records if record["status"] != "cancelled")
    yield from (f"item {item} has {count} results" for item, count in counted.items() if count != 1)
    own = {record["rollout_id"]: item_of(record) for record in records}
    for call in lines_of(run / "calls.jsonl"):
        item = own.get(call["rollout_id"])
        last = ended.get(item) if item is not None else None
        if last is not None and moment(call["started_at"]) > moment(last["finished_at"]):
            yield f"item {item} called at {call['started_at']}, its result is of {last['finished_at']}"


def moment(text: str) -> datetime:
    """A time of a record."""
    return datetime.fromisoformat(text)


def miscounted(run: Path, upstream: CountingUpstream) -> Iterator[str]:
    """Tokens that the provider gave for recorded calls and the run does not count."""
    recorded = {call["upstream_request_id"] for call in lines_of(run / "calls.jsonl") if "usage" in call}
    billed = sum(upstream.counts[call].tokens for call in recorded if call in upstream.counts)
    spent = json.loads((run / "metrics.json").read_text())["summary"]["tokens_spent"]
    if spent != billed:
        yield f"{spent} tokens are counted as spent, the provider gave {billed} for the calls in the ledger"


async def leftovers(mark: str) -> list[int]:
    """Processes of a run that do not end."""
    until = time.monotonic() + 10.0
    while (left := marked(mark)) and time.monotonic() < until:  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.05)
    return left


async def rampage(root: Path, kills: int, seed: int = 0) -> tuple[Chaos, list[str]]:
    """Run calmly, run in chaos, and compare; the chaos and what does not add up."""
    upstream = CountingUpstream(seed)
    await upstream.start()
    chaos = Chaos(root, upstream, seed)
    chaos.lay(ROWS_A_KILL * kills // 2 + 2 * IN_FLIGHT)
    calm, wild = chaos.run_dir("calm"), chaos.run_dir("wild")
    found: list[str] = []
    try:
        await chaos.calm("calm")
        upstream.counts.clear()
        await chaos.rage("wild", kills)
        expected, got = results_of(calm), results_of(wild)
        found += [f"item {item}: {got.get(item)}, undisturbed {expected[item]}" for item in expected
                  if got.get(item) != expected[item]]  # fmt: skip
        found += [f"item {item} is none of the undisturbed run" for item in got.keys() - expected.keys()]
        found += [*run_twice(wild), *miscounted(wild, upstream)]
        found += [f"process {pid} is left" for pid in await leftovers(mark_of(wild))]
        if chaos.kills.total() < kills:
            found.append(f"only {chaos.kills.total()} of {kills} kills came to pass before the run was over")
    finally:
        await upstream.stop()
    return chaos, found


def unrecorded(chaos: Chaos) -> tuple[int, int]:
    """Calls that the provider answered and no ledger line tells of, and their tokens: the bridge died under them."""
    recorded = {call.get("upstream_request_id") for call in lines_of(chaos.run_dir("wild") / "calls.jsonl")}
    lost = [
        count.tokens for call, count in chaos.upstream.counts.items() if call not in recorded and count.tokens
    ]
    return len(lost), sum(lost)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="An evaluation whose processes are killed at random.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        chaos, found = uvloop.run(rampage(Path(folder), given.kills, given.seed))
        calls, tokens = unrecorded(chaos)
    told = ", ".join(f"{role} {chaos.kills[role]}" for role in ROLES)
    print(
        f"{chaos.kills.total()} kills ({told}), {chaos.starts - 1} starts, {time.monotonic() - began:.0f} s"
    )
    print(
        f"{calls} calls ({tokens} tokens) were in flight when the bridge was killed; nobody can know what they cost"
    )
    print("\n".join(found) or "everything adds up")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
