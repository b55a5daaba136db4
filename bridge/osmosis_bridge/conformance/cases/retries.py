"""C: what an SDK sends again is paid for once; what only looks the same is a new sample. And signs of life."""

from __future__ import annotations

import asyncio

from osmosis_bridge.conformance.case import Ask, Case, Fault, exchange, needing
from osmosis_bridge.conformance.checks import brief, called, fault, says, status
from osmosis_bridge.conformance.exact import integer, show
from osmosis_bridge.conformance.reply import Reply
from osmosis_bridge.conformance.samples import HELLO, WHOLE, completion
from osmosis_bridge.conformance.script import Hold, Pause, Script, head, plain, raw, stream
from osmosis_bridge.conformance.stage import Stage

OK = plain(completion())
SLOW = raw(
    Pause(0.6),
    head(200, ("Content-Type", "application/json"), ("Content-Length", str(len(completion()))))
    + completion().encode(),
    end="keep",
)


def marked(count: int, *, streaming: bool = False, fields: str = "") -> Ask:
    """A call of an SDK that counts its retries."""
    return Ask(fields, stream=streaming, headers=(("X-Stainless-Retry-Count", str(count)),))


def counted(stage: Stage, want: int, replies: list[Reply]) -> Fault | None:
    """Every reply good, and this many requests at the upstream."""
    bad = [reply for reply in replies if reply.content() != "hello"]
    if bad:
        return Fault("every attempt answered", brief(bad[0]))
    got = len(stage.received())
    return None if got == want else Fault(f"{want} request(s) at the upstream", str(got))


def replayed(case_id: str, title: str, script: Script, *, streaming: bool) -> Case:
    """A first attempt that ended, then the same again with a mark."""

    async def play(stage: Stage) -> Fault | None:
        stage.play(script)
        replies = [await stage.ask(marked(n, streaming=streaming)) for n in (0, 1)]
        if found := counted(stage, 1, replies):
            return found
        if replies[0].body != replies[1].body:
            return Fault("the same reply once more", brief(replies[1]))
        got = await stage.totals()
        return None if integer(got.get("tokens")) == 10 else Fault("10 tokens, counted once", show(dict(got)))

    return Case(case_id, title, play, "ours")


async def _joined(stage: Stage) -> Fault | None:
    """A retry that comes while the first attempt runs joins it."""
    stage.play(SLOW)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(stage.ask(marked(0)))
        await stage.arrived()
        second = group.create_task(stage.ask(marked(1)))
    return counted(stage, 1, [first.result(), second.result()])


async def _left(stage: Stage) -> Fault | None:
    """The client gave up on the first attempt: the retry is answered, by a new call if need be."""
    stage.play(SLOW)
    async with stage.wire() as wire:
        await wire.send(stage.request(marked(0)))
        await stage.arrived()
        wire.leave("fin")
    await asyncio.sleep(0.1)
    reply = await stage.ask(marked(1))
    return None if reply.content() == "hello" else Fault("the retry is answered", brief(reply))


async def _new_samples(stage: Stage) -> Fault | None:
    stage.play(OK)
    return counted(stage, 3, [await stage.ask(ask) for ask in (Ask(), Ask(), marked(0))])


async def _once_each(stage: Stage) -> Fault | None:
    """One retry for one attempt: the next unmarked pair is new, and a second retry does not go without a call."""
    stage.play(OK)
    replies = [await stage.ask(marked(n)) for n in (0, 1, 0, 1)]
    return counted(stage, 2, replies)


async def _other_body(stage: Stage) -> Fault | None:
    stage.play(OK)
    return counted(stage, 2, [await stage.ask(marked(0)), await stage.ask(marked(1, fields='"seed":1'))])


async def _other_rollout(stage: Stage) -> Fault | None:
    """The same body of another rollout is its own call."""
    stage.play(OK)
    first = await stage.ask(marked(0))
    other = await stage.ask(marked(1), rollout=f"{stage.rollout}-b")
    return counted(stage, 2, [first, other])


async def _failed_first(stage: Stage) -> Fault | None:
    """A failed attempt is not replayed: the retry asks the provider again."""
    stage.play(plain('{"error":{"message":"no","type":"x","param":null,"code":null}}', 500))
    first = await stage.ask(marked(0))
    stage.play(OK)
    second = await stage.ask(marked(1))
    if first.status < 500:
        return Fault("an error first", brief(first))
    return counted(stage, 2, [second])


async def _odd_mark(stage: Stage) -> Fault | None:
    """A mark that is no number is no mark."""
    stage.play(OK)
    odd = [Ask(headers=(("X-Stainless-Retry-Count", value),)) for value in ("-1", "many", "1e9", "")]
    return counted(stage, 4, [await stage.ask(ask) for ask in odd])


async def _heartbeat(stage: Stage) -> Fault | None:
    """While a stream is silent, comments come: before its first event and between events."""
    for name, script in (
        ("early", stream(Pause(1.2), *WHOLE)),
        ("middle", stream(*HELLO[:2], Pause(1.2), *HELLO[2:], *WHOLE[-2:])),
    ):
        token = stage.play(script, name)
        reply = await stage.ask(Ask(stream=True), token)
        comments = [line for line in reply.body.split(b"\n") if line.startswith(b":")]
        if reply.content() != "hello" or not reply.done:
            return Fault("the answer, whole", brief(reply))
        if not comments:
            return Fault(f"comments while the stream is silent ({name})", brief(reply))
    return None


CASES: tuple[Case, ...] = (
    replayed("C-retry-replay", "a marked retry of a finished call is given the same reply, and paid once", OK, streaming=False),
    replayed("C-retry-replay-stream", "a marked retry of a finished stream too", stream(*WHOLE), streaming=True),
    Case("C-retry-join", "a marked retry joins the attempt that still runs", _joined, "ours"),
    Case("C-retry-left", "a retry after the client gave up is answered", _left, "ours"),
    Case("C-retry-new-samples", "unmarked identical calls are new samples", _new_samples),
    Case("C-retry-once", "an attempt serves one retry", _once_each, "ours"),
    Case("C-retry-other-body", "a retry with another body is a new call", _other_body),
    Case("C-retry-other-rollout", "a retry of another rollout is a new call", _other_rollout),
    Case("C-retry-failed", "a failed attempt is not replayed", _failed_first),
    Case("C-retry-odd-mark", "a mark that is no number is no mark", _odd_mark),
    needing(Case("S15-heartbeat", "a silent stream shows signs of life", _heartbeat, "ours"), "heartbeat"),
    needing(
        exchange("S15-no-heartbeat-in-json", "a plain reply is JSON also when it was waited for", Ask(), SLOW, status(200), says("hello"),
                 called(1), lambda seen: None if seen.reply.json is not None else fault("JSON", seen)),
        "heartbeat",
    ),
    needing(
        exchange("S15-late-error", "an error after signs of life is an error event", Ask(stream=True),
                 raw(head(200, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")), Hold(1.2), end="reset"),
                 lambda seen: None if seen.reply.errors() and not seen.reply.done else fault("an error, no [DONE]", seen)),
        "heartbeat",
    ),
)  # fmt: skip
