"""A disk that fails at any write, cut or sync, for as long as it likes: when it works again every call has one record.

The rule, held for every k: every call has exactly one record; what the records say was used is what the provider
counted; no reply that ended as a success lacks a record on disk; what was refused meanwhile never reached the provider.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from bridge_process import BridgeProcess, bridge_process, eventually
from fakes import (
    SSE,
    Answer,
    FakeExchange,
    FakeReply,
    FakeTransport,
    a_bridge,
    a_call,
    completion,
    delta,
    request,
    sse,
)
from mock_provider import COMPLETION_TOKENS, PROMPT_TOKENS, MockProvider
from osmosis_bridge import ledger as ledger_module
from osmosis_bridge.errors import LedgerFailed
from osmosis_bridge.ledger import FileLedger
from osmosis_bridge.serve import Bridge

CALLS = 8
MOST = 200


class Counting(FakeTransport):
    """Answers the n-th call with n prompt tokens, streams and plain replies by turns, and counts what it gave."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0

    async def open(self, *request: Any) -> FakeExchange:
        self.sent.append({"body": request[4]})
        number = len(self.sent)
        self.tokens += number + 1
        usage = {"prompt_tokens": number, "completion_tokens": 1, "total_tokens": number + 1}
        ended = [delta("a"), delta(finish="stop"), {"choices": [], "usage": usage}]
        stream = b'"stream":true' in request[4].replace(b" ", b"")
        await self.step()
        self.open_exchanges += 1
        answer = Answer([sse(*ended)], headers=SSE) if stream else Answer([completion(usage=usage)])
        return FakeExchange(self, answer)


class Disk:
    """Fails from the `at`-th operation on, `fault_count` times; a write that fails gets `room` bytes out first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, fault_count: int, room: int) -> None:
        self.count = 0
        self._faults = range(at, at + fault_count)
        self._room = room
        self._partial = False
        self._real = {name: getattr(os, name) for name in ("write", "pwrite", "ftruncate", "fsync")}
        for name in self._real:
            monkeypatch.setattr(os, name, getattr(self, name))

    @property
    def met(self) -> bool:
        return self.count >= self._faults.start

    def mend(self) -> None:
        self._faults = range(self._faults.start, self._faults.start)

    def write(self, fd: int, content: bytes) -> int:
        if self._partial or not self._step():
            if not self._partial:
                return self._real["write"](fd, content)
            self._partial = False
            raise OSError(errno.ENOSPC, "No space left on device")
        if self._room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._partial = True
        return self._real["write"](fd, content[: self._room])

    def pwrite(self, fd: int, content: bytes, at: int) -> int:
        self._raise_if_due()
        return self._real["pwrite"](fd, content, at)

    def ftruncate(self, fd: int, size: int) -> None:
        self._raise_if_due()
        self._real["ftruncate"](fd, size)

    def fsync(self, fd: int) -> None:
        self._raise_if_due()
        self._real["fsync"](fd)

    def _step(self) -> bool:
        """Whether this operation is one that fails."""
        self.count += 1
        return self.count in self._faults

    def _raise_if_due(self) -> None:
        if self._step():
            raise OSError(errno.EIO, "Input/output error")


async def play(bridge: Bridge, disk: Disk, ledger: FileLedger) -> list[FakeReply]:
    """Two calls at a time, a sync after each pair; then the disk works, and the last one comes."""
    replies: list[FakeReply] = []

    async def one(number: int) -> None:
        reply = FakeReply()
        replies.append(reply)
        call = a_call(request(stream=number % 2 == 0))
        await bridge.serve(msgspec.structs.replace(call, call_id=f"call-{number}"), reply)

    for number in range(0, CALLS, 2):
        await asyncio.gather(one(number), one(number + 1))
        with contextlib.suppress(LedgerFailed):
            await ledger.sync()
    disk.mend()
    async with asyncio.timeout(10):
        while ledger.trouble is not None:
            await asyncio.sleep(0.001)
    await one(CALLS)
    return replies


def each(run: Callable[[int], bool]) -> Iterator[int]:
    for k in itertools.count(1):
        assert k < MOST
        if not run(k):
            return
        yield k


@pytest.mark.parametrize("room", [0, 1, 40])
@pytest.mark.parametrize("fault_count", [1, 2, 7])
def test_wherever_a_disk_fails_every_call_has_one_record_when_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault_count: int, room: int
) -> None:
    monkeypatch.setattr(ledger_module, "RETRY_FIRST_S", 0.002)
    monkeypatch.setattr(ledger_module, "RETRY_LAST_S", 0.002)
    refused = 0

    def run(k: int) -> bool:
        nonlocal refused
        path = tmp_path / f"{k}.jsonl"
        with monkeypatch.context() as patch:
            disk, transport = Disk(patch, k, fault_count, room), Counting()

            async def main() -> list[FakeReply]:
                ledger = FileLedger(path)
                bridge = a_bridge(transport, ledger)
                replies = await play(bridge, disk, ledger)
                await ledger.close()
                assert bridge.accounts.whole.tokens == transport.tokens
                assert transport.open_exchanges == 0
                return replies

            replies = asyncio.run(main())
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        check(records, replies, transport)
        refused += sum(record["status"] == "refused" for record in records)
        return disk.met

    met = list(each(run))
    assert len(met) > CALLS, "every write and every sync was tried"
    assert refused > 0


def check(records: list[dict[str, Any]], replies: list[FakeReply], transport: Counting) -> None:
    names = [record["call_id"] for record in records]
    assert sorted(names) == [f"call-{number}" for number in range(CALLS + 1)]
    paid = [record for record in records if record["status"] != "refused"]
    assert len(paid) == len(transport.sent)
    assert sum(record["usage"]["total_tokens"] for record in paid) == transport.tokens
    assert all(
        (record["http_status"], record["error_code"]) == (503, "ledger_unavailable")
        for record in records
        if record["status"] == "refused"
    )
    well = sum(reply.status == 200 and b'"error"' not in reply.body for reply in replies)
    assert well == sum(record["status"] == "ok" for record in records)
    assert records[-1]["status"] == "ok", "it serves again"


# --- the same as an operator meets it: a process, and a file that may not grow


def limit(bridge: BridgeProcess, more: int | None) -> None:
    """From now on no file of the bridge may grow beyond what its ledger has and so many bytes; None: any may."""
    _, hard = resource.prlimit(bridge.process.pid, resource.RLIMIT_FSIZE)
    size = hard if more is None else bridge.ledger.stat().st_size + more
    resource.prlimit(bridge.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def ask(bridge: BridgeProcess, text: str = "hi") -> httpx.Response:
    headers = {"authorization": f"Bearer {bridge.token}"}
    body = {"messages": [{"role": "user", "content": text}]}
    return httpx.post(f"{bridge.url}/v1/chat/completions", headers=headers, json=body, timeout=20)


def figures(bridge: BridgeProcess) -> str:
    return httpx.get(f"{bridge.url}/metrics", headers={"authorization": f"Bearer {bridge.token}"}).text


def padded(folder: Path) -> Path:
    """A folder with a ledger larger than the bridge's log will be, which is under the same limit."""
    (folder / "calls.jsonl").write_text(json.dumps({"rollout_id": "before", "pad": "x" * 200_000}) + "\n")
    return folder


def log_lines(bridge: BridgeProcess, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in bridge.log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def test_a_bridge_whose_ledger_may_not_grow_refuses_and_recovers_by_itself(tmp_path: Path) -> None:
    with MockProvider() as provider, bridge_process(padded(tmp_path), provider.url) as bridge:
        assert ask(bridge).status_code == 200
        limit(bridge, 50)
        paid = ask(bridge)
        assert (paid.status_code, paid.json()["error"]["code"]) == (500, "ledger_unavailable")
        assert paid.headers["x-should-retry"] == "false"
        for _ in range(3):
            refused = ask(bridge)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            message = refused.json()["error"]["message"]
            assert f"the ledger '{bridge.ledger}' cannot be written: File too large" in message
        assert len(provider.bodies) == 2
        health = httpx.get(f"{bridge.url}/health")
        assert (health.status_code, health.json()["status"]) == (503, "failing")
        assert "osmosis_bridge_ledger_failing 1\n" in figures(bridge)
        assert "osmosis_bridge_ledger_records_waiting 4\n" in figures(bridge)
        limit(bridge, None)
        eventually(lambda: httpx.get(f"{bridge.url}/health").status_code == 200)
        assert ask(bridge).status_code == 200
        records = bridge.records("default")
    assert [(r["status"], r["http_status"], r["seq"]) for r in records] == [
        ("ok", 200, 1), ("upstream_error", 500, 2), *(("refused", 503, seq) for seq in (3, 4, 5)), ("ok", 200, 6)
    ]  # fmt: skip
    used = sum(r["usage"]["total_tokens"] for r in records if "usage" in r)
    assert used == len(provider.bodies) * (PROMPT_TOKENS + COMPLETION_TOKENS)
    assert len(log_lines(bridge, "the ledger fails, no call is served")) == 1
    assert len(log_lines(bridge, "the ledger is kept again")) == 1


def test_a_bridge_that_ends_with_records_it_could_not_write_says_so_and_leaves_them_in_its_log(
    tmp_path: Path,
) -> None:
    with MockProvider() as provider:
        context = bridge_process(padded(tmp_path), provider.url)
        with pytest.raises(AssertionError, match="the bridge ended with 1"), context as bridge:
            limit(bridge, 0)
            ask(bridge)
    (line,) = log_lines(bridge, "record not in the ledger")
    record = json.loads(line["record"])
    assert record["usage"]["total_tokens"] == PROMPT_TOKENS + COMPLETION_TOKENS
    assert bridge.log.splitlines()[-1].startswith(
        f"Error: the ledger '{bridge.ledger}' cannot be written: File too"
    )
    assert bridge.records("default") == []
