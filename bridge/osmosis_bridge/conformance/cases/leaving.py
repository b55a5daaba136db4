"""C: a client that leaves, at every moment: the upstream is closed within a second, and one record is kept."""

from __future__ import annotations

import asyncio
from typing import Literal

from osmosis_bridge.conformance.case import ASKED_TO_STREAM, Ask, Case, Fault
from osmosis_bridge.conformance.checks import brief, says
from osmosis_bridge.conformance.exact import at, show
from osmosis_bridge.conformance.samples import ROLE, WHOLE, completion, said
from osmosis_bridge.conformance.script import Hold, Pause, Script, Send, chunked, head, plain, raw, stream
from osmosis_bridge.conformance.stage import Stage

SILENT = raw(Hold())
"""Nothing is ever answered."""
BEGUN = stream(ROLE, said("hel"), Hold(), whole=False)
"""Two chunks, then silence."""
HEAD_ONLY = raw(head(200, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")), Hold())
HALF_PLAIN = raw(
    head(200, ("Content-Type", "application/json"), ("Content-Length", "9000")),
    completion().encode()[:40],
    Hold(),
)
SLOW_BODY = raw(
    head(200, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")),
    *(step for n in range(120) for step in (Send(chunked(said(f"{n} "))), Pause(0.05))),
)
"""Six seconds of talk."""


def leaving(
    case_id: str,
    title: str,
    ask: Ask,
    script: Script,
    marker: bytes | None,
    how: Literal["fin", "rst"] = "fin",
) -> Case:
    """The client goes once the upstream has the request, or once `marker` has come."""

    async def play(stage: Stage) -> Fault | None:
        stage.play(script)
        began = await stage.leave(ask, marker, how)
        if any(call.unstreamed for call in stage.received()):
            return Fault(ASKED_TO_STREAM, "it was asked for a plain reply")
        if not began:
            return Fault("the exchange begins", f"{len(stage.received())} requests at the upstream")
        return await closed(stage) or await cancelled(stage)

    return Case(case_id, title, play)


async def closed(stage: Stage) -> Fault | None:
    """The upstream sees its peer close within a second."""
    limit = 1.0 * stage.target.patience
    seconds = await stage.gone(stage.received()[0])
    if seconds is None or seconds > limit:
        return Fault(
            f"upstream closed within {limit:g} s", "never" if seconds is None else f"{seconds:.1f} s"
        )
    return None


async def cancelled(stage: Stage) -> Fault | None:
    """Exactly one record, cancelled."""
    ledger = stage.target.ledger
    if ledger is None:
        return None
    records = await ledger.of(stage.rollout, patience=4.0)
    states = [show(at(record, "status")) for record in records]
    return None if states == ['"cancelled"'] else Fault("one record, cancelled", ", ".join(states) or "none")


STREAM = Ask(stream=True)


async def _mixed(stage: Stage) -> Fault | None:
    """Forty clients leave at different moments; the forty-first is served."""
    names = [stage.play((SILENT, BEGUN, SLOW_BODY, HALF_PLAIN)[n % 4], f"n{n}") for n in range(40)]

    async def one(number: int) -> None:
        ask = Ask(stream=number % 4 in {1, 2})
        async with stage.wire(names[number]) as wire:
            await wire.send(stage.request(ask, names[number]))
            await stage.arrived(1, names[number])
            await asyncio.sleep(number % 5 * 0.02)
            wire.leave("rst" if number % 3 else "fin")

    await asyncio.gather(*(one(number) for number in range(40)))
    open_still = 0
    for name in names:
        for call in stage.received(name):
            open_still += await stage.gone(call, 2.0 * stage.target.patience) is None
    if open_still:
        return Fault("40 upstream exchanges closed", f"{open_still} still open")
    stage.play(stream(*WHOLE))
    return says("hello")(await stage.exchange(STREAM))


async def _next_call(stage: Stage) -> Fault | None:
    """What was left over of an abandoned reply never reaches the next client."""
    abandoned = stage.play(raw(head(200, ("Content-Type", "application/json"), ("Content-Length", "400")), b'{"x":"left', Pause(0.3), b"over" * 100), "old")  # fmt: skip
    async with stage.wire(abandoned) as wire:
        await wire.send(stage.request(Ask(), abandoned))
        await stage.arrived(1, abandoned)
        await asyncio.sleep(0.05)
        wire.leave("fin")
    for number in range(4):
        seen = await stage.exchange(Ask(), stage.play(plain(completion()), f"n{number}"))
        if found := says("hello")(seen):
            return Fault(found.expected, brief(seen.reply))
        await asyncio.sleep(0.15)
    return None


async def _half_request(stage: Stage) -> Fault | None:
    """A client that leaves in the middle of its request costs no provider call."""
    stage.play(plain(completion()))
    whole = stage.request(Ask('"x":"' + "y" * 5000 + '"'))
    async with stage.wire() as wire:
        await wire.send(whole[:-500])
        await asyncio.sleep(0.1)
        wire.leave("fin")
    await asyncio.sleep(0.3)
    return Fault("no provider call for half a request", "one was made") if stage.received() else None


CASES: tuple[Case, ...] = (
    leaving("C1-stream-first", "client leaves a stream before its first byte: upstream closed within a second", STREAM, SILENT, None),
    leaving("C1-stream-head", "client leaves between the upstream's head and its first event", STREAM, HEAD_ONLY, None),
    leaving("C1-stream-middle", "client leaves a stream that has fallen silent", STREAM, BEGUN, b'"hel"'),
    leaving("C1-stream-talking", "client leaves a stream that goes on talking", STREAM, SLOW_BODY, b'"3 "'),
    leaving("C1-plain", "client leaves a plain call before its reply", Ask(), SILENT, None),
    leaving("C1-plain-half", "client leaves a plain call in the middle of the upstream's reply", Ask(), HALF_PLAIN, None),
    leaving("C1-stream-first-reset", "the same by reset, before the first byte", STREAM, SILENT, None, "rst"),
    leaving("C1-stream-middle-reset", "the same by reset, in the middle", STREAM, BEGUN, b'"hel"', "rst"),
    leaving("C1-plain-reset", "the same by reset, plain", Ask(), SILENT, None, "rst"),
    Case("C1-forty", "forty clients leave at many moments; the next is served", _mixed, alone=True),
    Case("C1-leftover", "what an abandoned reply left over never reaches the next client", _next_call),
    Case("C1-half-request", "half a request costs no provider call", _half_request),
)  # fmt: skip
