"""A bridge in a process of its own, started as users start it, and asked to stop at the end.

Also a scripted upstream in a thread, for tests whose clients are not on an event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from osmosis_bridge.bearers import rollout_bearer
from osmosis_bridge.conformance.script import Script, Send
from osmosis_bridge.conformance.upstream import Received, ScriptedUpstream

TOKEN = "run-bearer-for-tests-4711"
KEY = "provider-key-for-tests-0815"
MODEL = "openai/upstream-model"
WAIT_S = 30.0
"""Seconds after which a process that does not do what it should counts as hanging."""
# What of the environment a bridge under test gets: enough to run, and nobody's keys.
_KEPT = (
    "PYTHONPATH",
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "VIRTUAL_ENV",
    "UV_CACHE_DIR",
    "XDG_CACHE_HOME",
)
T = TypeVar("T")


@dataclass
class BridgeProcess:
    """A bridge that answers: where, how to call it, and what it writes."""

    process: subprocess.Popen[bytes]
    folder: Path
    url: str = ""
    token: str = TOKEN
    spawned_at: float = field(default_factory=time.monotonic)

    @property
    def ledger(self) -> Path:
        return self.folder / "calls.jsonl"

    @property
    def log(self) -> str:
        """Everything it said on stdout and stderr."""
        return (self.folder / "log.txt").read_text("utf-8")

    @property
    def ready_file(self) -> Path:
        return self.folder / "ready.json"

    def bearer(self, rollout_id: str) -> str:
        return rollout_bearer(self.token, rollout_id)

    def base_url(self, rollout_id: str | None = None) -> str:
        return f"{self.url}/v1" if rollout_id is None else f"{self.url}/v1/rollouts/{rollout_id}"

    def records(self, rollout_id: str | None = None) -> list[dict[str, Any]]:
        """The records in the ledger so far, of one rollout or of all; a torn line fails."""
        text = self.ledger.read_text("utf-8") if self.ledger.exists() else ""
        found = [json.loads(line) for line in text.splitlines()]
        return [record for record in found if rollout_id in (None, record["rollout_id"])]

    def record(self, rollout_id: str) -> dict[str, Any]:
        """The one record of a rollout, waited for; more than one fails."""
        eventually(lambda: self.records(rollout_id), "no record was written")
        (record,) = self.records(rollout_id)
        return record

    def resident_mb(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(WAIT_S)


def eventually(holds: Callable[[], T], otherwise: str = "it never came to hold") -> T:
    """Wait until something holds; what it gave. The deadline only fails a hang."""
    deadline = time.monotonic() + WAIT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)
    return found


def environment(**more: str) -> dict[str, str]:
    """A small environment in which nothing is configured but what a test names."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | more


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "osmosis_bridge", *arguments]


def run_bridge(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A bridge command that is expected to end by itself."""
    return subprocess.run(
        command(*arguments),
        env=environment(**environ),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def spawn(folder: Path, *flags: str, environ: Mapping[str, str], within: Sequence[str] = ()) -> BridgeProcess:
    """Start `serve` with these flags only, behind the command `within`; its output goes to `log.txt` of the folder."""
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [*within, *command("serve", *flags)],
            env=environ,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return BridgeProcess(process, folder)


def until_ready(bridge: BridgeProcess) -> BridgeProcess:
    """Wait for the ready file."""
    eventually(lambda: bridge.ready_file.exists() or bridge.process.poll() is not None, "it was never ready")
    assert bridge.process.poll() is None, bridge.log
    bridge.url = json.loads(bridge.ready_file.read_text())["url"]
    return bridge


@contextmanager
def bridge_process(
    folder: Path,
    upstream: str | None,
    *flags: str,
    model: str = MODEL,
    environ: Mapping[str, str] | None = None,
    token: str = TOKEN,
) -> Iterator[BridgeProcess]:
    """A bridge for an upstream's base URL; leaving asks it to stop, and it must end with exit code 0."""
    given = {"OSMOSIS_BRIDGE_TOKEN": token, "OPENAI_API_KEY": KEY} if environ is None else dict(environ)
    where = () if upstream is None else ("--api-base", upstream)
    files = ("--ready-file", str(folder / "ready.json"), "--ledger", str(folder / "calls.jsonl"))
    bridge = spawn(
        folder,
        *("--model", model, *where, "--port", "0", *files, "--log-format", "json", *flags),
        environ=environment(**given),
    )
    bridge.token = token
    try:
        yield until_ready(bridge)
        bridge.send(signal.SIGTERM)
        status = bridge.wait()
        assert status == 0, f"the bridge ended with {status}: {bridge.log[-2000:]}"
    finally:
        if bridge.process.poll() is None:
            bridge.process.kill()
            bridge.process.wait()


@dataclass(frozen=True)
class Played:
    """One conversation with the scripted upstream: the messages that call it up, and what arrived of it."""

    token: str
    scripted: ScriptedUpstream

    @property
    def messages(self) -> list[Any]:
        return [{"role": "user", "content": f"case:{self.token}"}]

    @property
    def received(self) -> list[Received]:
        return list(self.scripted.received(self.token))

    @property
    def body(self) -> dict[str, Any]:
        """The body of the one request that arrived."""
        (received,) = self.received
        return json.loads(received.body)


@dataclass
class UpstreamThread:
    """A scripted upstream whose event loop turns in a thread, for clients that have none."""

    scripted: ScriptedUpstream = field(default_factory=ScriptedUpstream)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.scripted.port}/v1"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    @contextmanager
    def serving(self) -> Iterator[UpstreamThread]:
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        try:
            self.run(self.scripted.start())
            yield self
            self.run(self.scripted.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(WAIT_S)
            self._loop.close()

    def closed_at(self, received: Received) -> Future[float]:
        """When the peer closes the connection of a request, in seconds of the monotonic clock."""

        async def wait() -> float:
            await received.peer_closed.wait()
            return time.monotonic()

        return asyncio.run_coroutine_threadsafe(wait(), self._loop)

    def play(self, script: Script, *later: Script) -> Played:
        """Answer a new conversation with a script; with several, the k-th request gets the k-th or the last.

        Several scripts must each be one whole reply.
        """
        played = Played(f"e2e.{secrets.token_hex(8)}", self.scripted)
        if later:
            whole = [_whole_reply(each) for each in (script, *later)]
            script = Script((Send(lambda _: whole[min(len(played.received), len(whole)) - 1]),))
        self.scripted.play(played.token, script)
        return played


def _whole_reply(script: Script) -> bytes:
    pieces = [step.data for step in script.steps if isinstance(step, Send)]
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))
