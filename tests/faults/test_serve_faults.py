"""What if it breaks *here*? Every chunk, every append and every wait in turn, until a run comes through clean.

After each the same holds: one record (one that waits, and a 500, where the ledger refused it), no exchange left open,
no `[DONE]` after a failure, no success in a record without a finish, no usage that no record tells.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from fakes import (
    SSE,
    Answer,
    FakeLedger,
    FakeReply,
    FakeTransport,
    a_bridge,
    a_call,
    completion,
    delta,
    request,
    sse,
)
from osmosis_bridge.serve import Bridge

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
EVENTS = [
    sse(item, done=False)
    for item in (delta("he"), delta("y"), delta(finish="stop"), {"choices": [], "usage": USAGE})
]
STREAM = Answer([b": hello\n\n", *EVENTS, b"data: [DONE]\n\n", b""], headers=SSE)
PLAIN = Answer([completion(usage=USAGE)[:30], completion(usage=USAGE)[30:]])
REFUSED = Answer([b'{"error":', b'{"message":"no"}}'], status=429)
FAILED = Answer([EVENTS[0], sse({"error": {"message": "boom"}}, done=False), EVENTS[2]], headers=SSE)
CASES = {
    "stream": (STREAM, request(stream=True)),
    "plain": (PLAIN, request()),
    "refused by the provider": (REFUSED, request()),
    "failed within the stream": (FAILED, request(stream=True)),
    "refused by the bridge": (PLAIN, b'{"stream":1,"messages":[]}'),
}
TRIES = 60


class Scene:
    """One call on fresh fakes, and what must hold of it however it went."""

    def __init__(self, case: str, *, fail_at: int | None = None, fail_append: int | None = None) -> None:
        answer, self.body = CASES[case]
        self.transport = FakeTransport(answer, fail_at=fail_at)
        self.ledger = FakeLedger(fail_at=fail_append)
        self.reply = FakeReply()
        self.bridge: Bridge = a_bridge(self.transport, self.ledger)
        self.cancelled = False

    async def serve(self, retry_count: int | None = None) -> None:
        await self.bridge.serve(a_call(self.body, retry_count=retry_count), self.reply)

    def check(self) -> None:
        assert self.transport.open_exchanges == 0
        assert self.bridge.in_flight == 0
        assert self.ledger.appends == 1, "a call is recorded exactly once"
        waited = bool(self.ledger.held)
        self.ledger.mend()
        assert len(self.ledger.lines) == self.bridge.accounts.whole.calls == 1
        body = self.reply.body
        record = self.ledger.records[0]
        status = record["status"]
        assert self.bridge.accounts.whole.tokens == record.get("usage", {}).get("total_tokens")
        if status == "ok":
            assert self.ledger.records[0]["finish_reasons"]
            assert self.ledger.records[0]["usage"] == USAGE
        else:
            assert b"[DONE]" not in body, "a failure never looks like a success"
            assert self.cancelled or self.reply.ended, "a client that stays is told"
        if waited and not self.cancelled:
            assert "ledger_unavailable" in body.decode()
            assert status != "ok"
        if self.reply.ended and status != "ok":
            assert b'"error"' in body
        self.check_order()

    def check_order(self) -> None:
        """What was sent is a beginning of what an undisturbed run sends, up to an error at the end."""
        events = [part for part in self.reply.body.split(b"\n\n") if part]
        at = next((place for place, part in enumerate(events) if b'"error"' in part), len(events))
        assert at >= len(events) - 1, "nothing follows an error"


def each(case: str, run: Callable[[int], bool]) -> None:
    """Run k = 1, 2, ... until `run` says that its fault was not met."""
    for k in itertools.count(1):
        assert k < TRIES, f"{case} met a fault {TRIES} times"
        if not run(k):
            assert k > 1, "the loop must meet at least one fault"
            return


@pytest.mark.parametrize("case", [name for name in CASES if name != "refused by the bridge"])
def test_a_connection_that_breaks_at_any_wait_for_the_provider_leaves_one_record_and_nothing_open(
    case: str,
) -> None:
    def run(k: int) -> bool:
        scene = Scene(case, fail_at=k)
        asyncio.run(scene.serve())
        scene.check()
        return scene.transport.steps >= k

    each(case, run)


@pytest.mark.parametrize("case", CASES)
def test_a_ledger_that_refuses_any_append_leaves_nothing_open_no_success_and_a_record_for_later(
    case: str,
) -> None:
    def run(k: int) -> bool:
        scene = Scene(case, fail_append=k)
        asyncio.run(scene.serve())
        scene.check()
        if case == "stream":
            assert scene.ledger.records[0]["usage"] == USAGE
        return scene.ledger.appends >= k

    each(case, run)


async def cancel_at(scene: Scene, k: int, *, twice: bool, retry_count: int | None) -> bool:
    """Serve and cancel at the k-th turn of the loop; whether the call was still running then."""
    serving = asyncio.ensure_future(scene.serve(retry_count))
    for _ in range(k):
        await asyncio.sleep(0)
    if serving.done():
        await serving
        return False
    serving.cancel()
    scene.cancelled = True
    if twice:
        await asyncio.sleep(0)
        serving.cancel()
    await asyncio.wait((serving,))
    assert serving.cancelled() or serving.exception() is None
    return True


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("retry_count", [None, 0])
@pytest.mark.parametrize("case", CASES)
def test_a_client_that_leaves_at_any_wait_leaves_one_record_and_nothing_open(
    case: str, twice: bool, retry_count: int | None
) -> None:
    def run(k: int) -> bool:
        scene = Scene(case)
        met = asyncio.run(cancel_at(scene, k, twice=twice, retry_count=retry_count))
        scene.check()
        assert len(scene.bridge.attempts) <= 1
        return met

    each(case, run)


@pytest.mark.parametrize("case", CASES)
def test_a_client_that_leaves_while_the_ledger_refuses_leaves_nothing_open(case: str) -> None:
    def run(k: int) -> bool:
        scene = Scene(case, fail_append=1)
        met = asyncio.run(cancel_at(scene, k, twice=False, retry_count=None))
        scene.check()
        return met

    each(case, run)


@pytest.mark.parametrize("case", ["stream", "plain"])
def test_a_client_that_leaves_while_a_sign_of_life_is_sent_leaves_nothing_open(case: str) -> None:
    class StuckReply(FakeReply):
        """Takes the head and the signs of life, and then never gets them out until it is let go."""

        async def send(self, piece: bytes) -> None:
            if piece in (b": keep-alive\n\n", b" "):
                await asyncio.sleep(0.02)
            await super().send(piece)

    class SlowTransport(FakeTransport):
        async def step(self) -> None:
            await asyncio.sleep(0.003)
            await super().step()

    async def main(turns: int) -> None:
        scene = Scene(case)
        scene.transport = SlowTransport(CASES[case][0])
        scene.reply = StuckReply()
        scene.bridge = a_bridge(scene.transport, scene.ledger, keepalive_s=0.001, plain_keepalive_s=0.001)
        serving = asyncio.ensure_future(scene.serve())
        await asyncio.sleep(0.002 * turns)
        for _ in range(2):
            serving.cancel()
            await asyncio.sleep(0)
        scene.cancelled = True
        await asyncio.wait((serving,))
        assert scene.transport.open_exchanges == 0
        assert scene.ledger.appends == 1
        # The beat that was under way may still come to its end.
        await asyncio.sleep(0.03)

    for turns in range(12):
        asyncio.run(main(turns))


def test_calls_of_one_bridge_do_not_disturb_each_other_when_some_break() -> None:
    async def main() -> None:
        transport, ledger = FakeTransport(STREAM), FakeLedger(fail_at=5)
        bridge = a_bridge(transport, ledger)
        replies = [FakeReply() for _ in range(40)]
        calls = [
            asyncio.ensure_future(bridge.serve(a_call(request(stream=True), f"r-{number % 4}"), reply))
            for number, reply in enumerate(replies)
        ]
        await asyncio.sleep(0)
        for turn, call in enumerate(calls[::3]):
            for _ in range(turn % 5):
                await asyncio.sleep(0)
            call.cancel()
        await asyncio.wait(calls)
        assert transport.open_exchanges == 0
        assert (ledger.appends, len(ledger.lines)) == (40, 40)
        done = sum(reply.body.endswith(b"[DONE]\n\n") for reply in replies)
        assert done == sum(record["status"] == "ok" for record in ledger.records)
        totals = [bridge.accounts.totals(f"r-{number}").calls for number in range(4)]
        assert sum(totals) == bridge.accounts.whole.calls == 40

    asyncio.run(main())


def test_the_undisturbed_runs_are_what_the_loops_compare_with() -> None:
    seen = {}
    for case in CASES:
        scene = Scene(case)
        asyncio.run(scene.serve())
        scene.check()
        seen[case] = (scene.reply.status, scene.ledger.records[0]["status"])
    assert seen == {
        "stream": (200, "ok"), "plain": (200, "ok"), "refused by the provider": (429, "upstream_error"),
        "failed within the stream": (200, "upstream_error"), "refused by the bridge": (400, "refused"),
    }  # fmt: skip
