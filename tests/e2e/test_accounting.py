"""Accounts under load: whatever happens to calls, every figure equals the provider's own count.

200 rollouts make 50 calls each, interleaved: answered in every way, retried by their client, left in every moment,
without usage, failing. What is compared: the provider's count, the totals told while rollouts are open and when they
are closed, the whole bridge's totals, and sums over the ledger.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

import pytest
import uvloop

from bridge_process import TOKEN, BridgeProcess, bridge_process
from counting_upstream import Count, CountingUpstream
from osmosis_bridge.upstream import Timeouts
from osmosis_bridge.upstream.http import HttpTransport
from soak import Caller, Order, comes_to_hold

ROLLOUTS, CALLS = 200, 50
HANGING_S = 50


@dataclass
class Rollout:
    """One rollout's client: what it does is drawn, how often it called is counted."""

    id: str
    caller: Caller
    upstream: CountingUpstream
    chance: random.Random
    sent: int = 0
    refused: int = 0
    replayed: int = 0
    statuses: list[int] = field(default_factory=list)

    async def play(self) -> None:
        ways = list(WAYS)
        for number in range(CALLS):
            way = ways[(number + self.chance.randrange(3)) % len(ways)]
            await WAYS[way](self, f"{self.id}.{number}.{way}")

    def order(self, asked_id: str, kind: str, *, stream: bool | None = None) -> Order:
        return Order(asked_id, self.id, kind, self.chance.random() < 0.5 if stream is None else stream)

    async def ask(self, order: Order, mark: int | None = None) -> bytes:
        self.sent += 1
        seen = await self.caller.ask(order, mark)
        self.statuses.append(seen.status)
        return seen.body

    async def asking(self, order: Order, mark: int | None = None) -> asyncio.Future[bytes]:
        """A call that the upstream has, and that is not answered yet."""
        asking = asyncio.ensure_future(self.ask(order, mark))
        arrived = asyncio.ensure_future(self.upstream.arrival(order.id).wait())
        await asyncio.wait({asking, arrived}, return_when=asyncio.FIRST_COMPLETED)
        assert arrived.done(), f"{order.id} was answered before the upstream had it: {asking.result()!r}"
        return asking

    async def leave(self, order: Order, mark: int | None = None) -> None:
        """Leave as soon as the upstream has the call."""
        asking = await self.asking(order, mark)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

    async def leave_midway(self, order: Order, mark: int | None = None) -> None:
        """Leave after the first piece of a stream."""
        self.sent += 1
        await self.caller.first_chunk(order, mark)


def answered(kind: str, *, stream: bool | None = None) -> Callable[[Rollout, str], Awaitable[object]]:
    return lambda rollout, asked_id: rollout.ask(rollout.order(asked_id, kind, stream=stream))


def left(kind: str) -> Callable[[Rollout, str], Awaitable[object]]:
    return lambda rollout, asked_id: rollout.leave(rollout.order(asked_id, kind))


def left_midway(kind: str) -> Callable[[Rollout, str], Awaitable[object]]:
    return lambda rollout, asked_id: rollout.leave_midway(rollout.order(asked_id, kind, stream=True))


async def retried(rollout: Rollout, asked_id: str) -> None:
    """What failed is sent again, marked as an SDK marks it."""
    order = rollout.order(asked_id, "flaky")
    await rollout.ask(order, 0)
    await rollout.ask(order, 1)


async def retried_after_leaving(rollout: Rollout, asked_id: str) -> None:
    """A client that lost patience midway sends the call again: it is another call, since the first has no end."""
    order = rollout.order(asked_id, "impatient", stream=True)
    await rollout.leave_midway(order, 0)
    await rollout.ask(order, 1)


async def replayed(rollout: Rollout, asked_id: str) -> None:
    """A reply that was lost on its way is given once more, and one after that is asked for anew."""
    order = rollout.order(asked_id, "ok")
    first = await rollout.ask(order, 0)
    assert await rollout.ask(order, 1) == first
    rollout.replayed += 1


async def joined(rollout: Rollout, asked_id: str) -> None:
    """A retry of a call that still runs waits for its reply."""
    order = rollout.order(asked_id, "slow")
    first = await rollout.asking(order, 0)
    second = await rollout.ask(order, 1)
    assert second == await first
    rollout.replayed += 1


async def sampled_twice(rollout: Rollout, asked_id: str) -> None:
    """The same call again, not marked as a retry, is a new sample."""
    order = rollout.order(asked_id, "ok")
    await rollout.ask(order, 0)
    await rollout.ask(order, 0)


async def refused(rollout: Rollout, asked_id: str) -> None:
    """The bridge itself says no; the provider hears nothing of it."""
    rollout.refused += 1
    await rollout.ask(Order(asked_id, rollout.id, "ok", stream="yes"))  # pyright: ignore[reportArgumentType] - on purpose


WAYS: dict[str, Callable[[Rollout, str], Awaitable[object]]] = {
    "ok": answered("ok"),
    "retried": retried,
    "left_first": left("hang"),
    "stream": answered("ok", stream=True),
    "no_usage": answered("no_usage"),
    "replayed": replayed,
    "status_400": answered("status_400"),
    "cumulative": answered("cumulative", stream=True),
    "left_midway": left_midway("hang_midway"),
    "no_total": answered("no_total"),
    "joined": joined,
    "status_500": answered("status_500"),
    "left_counted": left_midway("hang_counted"),
    "big_total": answered("big_total"),
    "retried_after_leaving": retried_after_leaving,
    "cut": answered("cut", stream=True),
    "sampled_twice": sampled_twice,
    "in_band": answered("in_band"),
    "left_plain": left("hang_plain"),
    "first_error": answered("first_error", stream=True),
    "refused": refused,
    "slow": answered("slow"),
}


def figures(count: Count) -> dict[str, int]:
    """The provider's count, as the bridge names things."""
    made = {
        name.name: getattr(count, name.name)
        for name in fields(count)
        if name.name not in ("requests", "unmetered")
    }
    return {**made, "calls_without_usage": count.unmetered}


def summed(records: list[dict[str, Any]]) -> dict[str, int]:
    """The same figures from the ledger's lines alone."""
    counted: defaultdict[str, int] = defaultdict(int)
    for record in records:
        usage = record.get("usage", {})
        prompt, completion = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        counted["tokens"] += usage.get("total_tokens", prompt + completion)
        counted["prompt_tokens"] += prompt
        counted["completion_tokens"] += completion
        counted["cached_tokens"] += usage.get("cached_tokens", 0)
        context = max(counted["max_context_tokens"], prompt + completion, usage.get("total_tokens", 0))
        counted["max_context_tokens"] = context
        counted["calls_without_usage"] += record.get("usage_source") == "missing"
    return dict(counted)


@dataclass
class Run:
    """All that was told of one run."""

    rollouts: list[Rollout]
    counts: dict[str, Count]
    live: dict[str, dict[str, Any]]
    closed: dict[str, dict[str, Any]]
    whole: dict[str, Any]
    records: dict[str, list[dict[str, Any]]]
    requests: int


async def whole_run(bridge: BridgeProcess, upstream: CountingUpstream) -> Run:
    timeouts = Timeouts(idle=60, slot=60)
    async with HttpTransport(max_connections=2 * ROLLOUTS, timeouts=timeouts) as transport:
        caller = Caller(transport, bridge.url, TOKEN)
        rollouts = [Rollout(f"r{place}", caller, upstream, random.Random(place)) for place in range(ROLLOUTS)]
        async with asyncio.TaskGroup() as playing:
            for rollout in rollouts:
                playing.create_task(rollout.play())
        assert await comes_to_hold(lambda: upstream.busy == 0), "an upstream exchange is left open"
        live = {one.id: await caller.fetch(b"GET", f"/v1/rollouts/{one.id}/usage") for one in rollouts}
        closed = {one.id: await caller.fetch(b"POST", f"/v1/rollouts/{one.id}/close") for one in rollouts}
        whole = await caller.fetch(b"GET", "/usage")
    records: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in bridge.records():
        records[record["rollout_id"]].append(record)
    return Run(rollouts, upstream.counts, live, closed, whole, records, upstream.requests)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    async def main() -> Run:
        upstream = CountingUpstream(seed=1)
        await upstream.start()
        # In a thread: the bridge is started and stopped by calls that wait.
        serving = bridge_process(tmp_path_factory.mktemp("accounts"), upstream.url)
        bridge = await asyncio.to_thread(serving.__enter__)
        try:
            async with asyncio.timeout(HANGING_S):
                return await whole_run(bridge, upstream)
        finally:
            await asyncio.to_thread(serving.__exit__, None, None, None)
            await upstream.stop()

    return uvloop.run(main())


def test_every_call_that_was_sent_is_recorded_exactly_once(run: Run) -> None:
    for rollout in run.rollouts:
        records = run.records[rollout.id]
        assert sorted(record["seq"] for record in records) == list(range(1, rollout.sent + 1))
        assert sum(record["status"] == "refused" for record in records) == rollout.refused
        assert sum("replay_of" in record for record in records) == rollout.replayed
        assert len(records) - rollout.refused - rollout.replayed == run.counts[rollout.id].requests
    ids = [record["call_id"] for records in run.records.values() for record in records]
    assert len(set(ids)) == len(ids) == sum(rollout.sent for rollout in run.rollouts)
    assert len(ids) > ROLLOUTS * CALLS


def test_the_totals_of_every_rollout_are_the_providers_own_count(run: Run) -> None:
    for rollout in run.rollouts:
        expected = {"rollout_id": rollout.id, "calls": rollout.sent, **figures(run.counts[rollout.id])}
        assert run.live[rollout.id] == expected
        assert run.closed[rollout.id] == expected
        assert summed(run.records[rollout.id]) == figures(run.counts[rollout.id])


def test_the_whole_bridges_totals_are_their_sum(run: Run) -> None:
    every = [figures(count) for count in run.counts.values()]
    expected = {name: sum(one[name] for one in every) for name in every[0]}
    expected["max_context_tokens"] = max(one["max_context_tokens"] for one in every)
    sent = sum(rollout.sent for rollout in run.rollouts)
    assert run.whole == {**expected, "calls": sent, "rollouts": ROLLOUTS}


def test_the_mix_was_a_mix(run: Run) -> None:
    statuses: defaultdict[str, int] = defaultdict(int)
    for records in run.records.values():
        for record in records:
            statuses[record["status"]] += 1
    assert min(statuses.values()) >= ROLLOUTS
    assert set(statuses) == {"ok", "refused", "upstream_error", "truncated", "cancelled"}
    assert all(count.tokens > 0 for count in run.counts.values())
