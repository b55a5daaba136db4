"""Fakes of what the runner waits for: a transport that answers from a script, a rollout's author, a watcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from osmosis_bridge.upstream import Endpoint, TransportError
from osmosis_runner.attempt import Ended
from osmosis_runner.faults import SidecarError
from osmosis_runner.journal import JournalRecord
from osmosis_runner.plan import WorkItem
from osmosis_runner.sidecar import Spoken
from osmosis_runner.totals import Totals
from osmosis_runner.web import Answer, Site

Scripted = tuple[int, object] | TransportError


@dataclass
class ScriptedExchange:
    """A reply that is there at once."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]
    closed: bool = False

    def header(self, name: bytes) -> bytes | None:
        return dict(self.headers).get(name)

    async def chunk(self) -> bytes:
        body, self.body = self.body, b""
        return body

    async def pour(self, take: Callable[[bytes], bool]) -> bool:
        while piece := await self.chunk():
            if not take(piece):
                return True
        return False

    async def whole(self, limit: int) -> bytes:
        return await self.chunk()

    def close(self) -> None:
        self.closed = True


@dataclass
class ScriptedTransport:
    """Answers requests in turn; `asked` keeps method, path, headers and body of each."""

    script: list[Scripted]
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    asked: list[tuple[bytes, bytes, Sequence[tuple[bytes, bytes]], bytes]] = field(default_factory=list)
    exchanges: list[ScriptedExchange] = field(default_factory=list)

    async def open(
        self,
        method: bytes,
        endpoint: Endpoint,
        path: bytes,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        queue: str = "",
    ) -> ScriptedExchange:
        self.asked.append((method, path, headers, body))
        await asyncio.sleep(0)
        step = self.script.pop(0)
        if isinstance(step, TransportError):
            raise step
        status, value = step
        content = value if isinstance(value, bytes) else msgspec.json.encode(value)
        exchange = ScriptedExchange(status, content, self.headers)
        self.exchanges.append(exchange)
        return exchange

    async def close(self) -> None: ...


def site(*script: Scripted, headers: Sequence[tuple[bytes, bytes]] = ()) -> tuple[Site, ScriptedTransport]:
    """A site whose server answers from the script."""
    transport = ScriptedTransport(list(script), list(headers))
    return Site(transport, Endpoint.parse("http://127.0.0.1:1")), transport


async def turns(count: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_true(holds: Callable[[], Any], within_s: float = 9.0) -> None:
    """Wait for something to hold."""
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.005)


Step = Answer | TransportError
GOOD = Answer(200, [], b"{}")


def failed(status: int, code: str | None = None, message: str = "no") -> Answer:
    """A reply with an error body."""
    return Answer(status, [], msgspec.json.encode({"error": {"message": message, "code": code}}))


class FakeChild:
    """A process that lives until a test says otherwise."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.pid = 0
        self.stopped: list[float] = []

    async def dies(self) -> bool:
        return self.exited.is_set()

    def describe_exit(self) -> str:
        return "the process exited with code 1"

    async def kill(self) -> None:
        self.exited.set()

    async def stop(self, grace_s: float) -> None:
        self.stopped.append(grace_s)
        self.exited.set()


class FakeSidecar:
    """A bridge whose replies to calls are scripted, and which closes every rollout with the same totals."""

    def __init__(self, *steps: Step, totals: Totals | None = None) -> None:
        self.steps = list(steps)
        self.whole = totals or Totals()
        self.close_fault: SidecarError | None = None
        self.child = FakeChild()
        self.asked: list[str] = []
        self.closed: list[str] = []
        self.told: Spoken | None = None
        self.heard: list[str] = []
        self.restarts = 0
        self.fault: SidecarError | None = None

    async def restart(self) -> None:
        await asyncio.sleep(0)
        if self.fault:
            raise self.fault
        self.restarts += 1
        self.child = FakeChild()

    def base_url(self, rollout_id: str) -> str:
        return f"http://bridge/v1/rollouts/{rollout_id}"

    def bearer_of(self, rollout_id: str) -> str:
        return f"orb-{rollout_id}"

    async def complete(self, rollout_id: str, body: bytes, within_s: float) -> Answer:
        self.asked.append(rollout_id)
        step = self.steps.pop(0)
        if isinstance(step, TransportError):
            raise step
        return step

    async def spoken(self, rollout_id: str) -> Spoken | None:
        assert rollout_id not in self.closed
        self.heard.append(rollout_id)
        return self.told

    async def totals(self, rollout_id: str) -> Totals:
        return self.whole

    async def close(self, rollout_id: str) -> Totals:
        if self.close_fault:
            raise self.close_fault
        self.closed.append(rollout_id)
        return self.whole


def ended(row: int, status: str = "success", **fields: Any) -> Ended:
    """An attempt at run 0 of a row that is over; keywords go to the record where they belong there."""
    own = {name: fields.pop(name) for name in list(fields) if name in Ended.__struct_fields__}
    record: dict[str, Any] = {"row_index": row, "run_index": 0, "rollout_id": f"r{row}", "duration_ms": 5}
    return Ended(WorkItem(row, 0), JournalRecord(**{**record, "status": status, **fields}), **own)
