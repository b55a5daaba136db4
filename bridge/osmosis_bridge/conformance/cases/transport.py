"""C: the way to the provider: encodings, HTTP oddities, connections that close, many calls at once."""

from __future__ import annotations

import asyncio
import zlib

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, alone, exchange, needing
from osmosis_bridge.conformance.checks import (
    brief,
    called,
    error_object,
    error_says,
    fault,
    header_absent,
    ours,
    says,
    status,
    status_between,
    stream_fails,
)
from osmosis_bridge.conformance.packing import (
    BROTLI,
    Coder,
    deflated,
    gzipped,
    raw_deflated,
    two_members,
    zstandard_packed,
)
from osmosis_bridge.conformance.samples import HELLO, ROLE, WHOLE, completion, finish, said, usage
from osmosis_bridge.conformance.script import (
    DONE,
    Drip,
    Hold,
    Pause,
    Script,
    Send,
    Until,
    chunked,
    head,
    plain,
    raw,
    stream,
)
from osmosis_bridge.conformance.stage import Stage

ANSWER = completion().encode()
STREAM = b"".join(WHOLE)
JSON = ("Content-Type", "application/json")
EVENTS = ("Content-Type", "text/event-stream")
CHUNKED = ("Transfer-Encoding", "chunked")
PLAIN_ASK, STREAM_ASK = Ask(), Ask(stream=True)


PACKERS: dict[str, tuple[str, Coder]] = {
    "gzip": ("gzip", gzipped),
    "deflate": ("deflate", deflated),
    "raw-deflate": ("deflate", raw_deflated),
    "br": ("br", BROTLI),
    "zstd": ("zstd", zstandard_packed),
    "gzip-members": ("gzip", two_members),
    "upper": ("GZIP", gzipped),
    "x-gzip": ("x-gzip", gzipped),
}


def answered(case_id: str, title: str, script: Script, *checks: Check) -> Case:
    """A plain call that must be answered."""
    return exchange(case_id, title, PLAIN_ASK, script, says("hello"), *checks)


def streamed(case_id: str, title: str, script: Script, *checks: Check) -> Case:
    """A streamed call that must be answered."""
    return exchange(case_id, title, STREAM_ASK, script, says("hello"), *checks)


def packed(word: str) -> tuple[Case, Case]:
    """A compressed reply, plain and streamed."""
    encoding, pack = PACKERS[word]
    field = ("Content-Encoding", encoding)
    plainly = plain(pack(ANSWER), 200, field)
    flowing = raw(head(200, EVENTS, field, CHUNKED), chunked(pack(STREAM)), b"0\r\n\r\n", end="keep")
    bare = ours(header_absent("content-encoding"))
    return (
        answered(f"C6-{word}", f"a reply in {word} arrives inflated or as announced", plainly, bare),
        streamed(f"C6-{word}-stream", f"a stream in {word} arrives inflated or as announced", flowing, bare),
    )


def _flushed() -> list[Send | Until]:
    """A gzip stream whose chunks can be read one by one."""
    packer = zlib.compressobj(wbits=31)
    steps: list[Send | Until] = []
    for frame, marker in ((ROLE, b"assistant"), (said("hel"), b'"hel"'), (said("lo"), b'"lo"')):
        steps += [Send(chunked(packer.compress(frame) + packer.flush(zlib.Z_SYNC_FLUSH))), Until(marker)]
    rest = packer.compress(b"".join((finish(), usage(), DONE))) + packer.flush()
    return [*steps, Send(chunked(rest))]


def _on_time(seen: Seen) -> Fault | None:
    late = [call.late for call in seen.calls if call.late is not None]
    return Fault("a chunk arrives before the next is sent", f"{late[0]!r} was held back") if late else None


GZIP = ("Content-Encoding", "gzip")
ERROR = b'{"error":{"message":"boom-7","type":"t","param":null,"code":null}}'
ENCODINGS = (
    *(case for word in PACKERS for case in packed(word)),
    streamed("C6-flushed", "a compressed stream is passed on chunk by chunk", raw(head(200, EVENTS, GZIP, CHUNKED), *_flushed(), b"0\r\n\r\n", end="keep"), ours(_on_time)),
    streamed("C6-one-byte", "a compressed stream one byte a write", raw(head(200, EVENTS, GZIP, ("Connection", "close")), Drip(gzipped(STREAM)))),
    exchange("C6-error", "a compressed error is read", PLAIN_ASK, plain(gzipped(ERROR), 400, GZIP), status(400), error_says("boom-7")),
    exchange("C6-error-stream", "a compressed error to a stream request is read", STREAM_ASK, plain(BROTLI(ERROR), 429, ("Content-Encoding", "br")), status(429), error_says("boom-7")),
    exchange("C6-lie", "a body that is not what its encoding says is an error", PLAIN_ASK, plain(ANSWER, 200, GZIP), status_between(500, 599), error_object),
    exchange("C6-cut", "a compressed body that is cut is an error", PLAIN_ASK, plain(gzipped(ANSWER)[:-12], 200, GZIP), status_between(500, 599), error_object),
    exchange("C6-unknown", "an encoding nobody knows is not passed on as an answer", PLAIN_ASK, plain(b"\x00\x01\x02", 200, ("Content-Encoding", "snappy")), status_between(500, 599), error_object),
    exchange("C6-cut-stream", "a compressed stream that is cut is an error", STREAM_ASK, raw(head(200, EVENTS, GZIP, CHUNKED), chunked(gzipped(b"".join(HELLO[:3]))[:-10])), stream_fails()),
    answered("C6-identity", "identity is no encoding", plain(ANSWER, 200, ("Content-Encoding", "identity"))),
    answered("C6-empty", "an empty content-encoding is none", plain(ANSWER, 200, ("Content-Encoding", ""))),
)  # fmt: skip


def _no_bare_line(seen: Seen) -> Fault | None:
    """The reply's head has no line end that is not CR LF."""
    lines = seen.reply.raw.partition(b"\r\n\r\n")[0].replace(b"\r\n", b"")
    return fault("no bare CR or LF in the reply's head", seen) if b"\r" in lines or b"\n" in lines else None


LENGTH = f"Content-Length: {len(ANSWER)}\r\n".encode()
TYPED = b"Content-Type: application/json\r\n"


def wired(status_line: bytes, *rest: bytes, end: str = "keep") -> Script:
    """A plain reply written by hand."""
    return raw(status_line + b"\r\n" + b"".join(rest), end="keep" if end == "keep" else "close")


OK = b"HTTP/1.1 200 OK"
ODDITIES = (
    answered("C-no-reason", "a status line without a reason", wired(b"HTTP/1.1 200 ", TYPED, LENGTH, b"\r\n", ANSWER)),
    answered("C-http-1.0", "an HTTP/1.0 reply that ends by closing", wired(b"HTTP/1.0 200 OK", TYPED, b"\r\n", ANSWER, end="close")),
    answered("C-until-close", "an HTTP/1.1 reply that ends by closing", wired(OK, TYPED, b"Connection: close\r\n\r\n", ANSWER, end="close")),
    answered("C-close-length", "Connection: close with a length", wired(OK, TYPED, LENGTH, b"Connection: close\r\n\r\n", ANSWER, end="close")),
    answered("C-header-case", "headers in odd cases and spacing", wired(OK, b"CONTENT-type:application/json\r\ncOnTeNt-LeNgTh:   %d  \r\n\r\n" % len(ANSWER), ANSWER)),
    answered("C-chunk-extension", "chunk extensions", wired(OK, TYPED, b"Transfer-Encoding: chunked\r\n\r\n", b"%x;a=b;c=\"d\"\r\n%s\r\n0;x\r\n\r\n" % (len(ANSWER), ANSWER))),
    answered("C-trailers", "trailers after the last chunk are no headers", wired(OK, TYPED, b"Transfer-Encoding: chunked\r\nTrailer: x-t\r\n\r\n", chunked(ANSWER), b"0\r\nx-t: trailer-canary\r\n\r\n"), header_absent("x-t")),
    answered("C-chunk-case", "Transfer-Encoding: Chunked, sizes with capitals and zeros", wired(OK, TYPED, b"Transfer-Encoding: Chunked\r\n\r\n", b"000%X\r\n%s\r\n00\r\n\r\n" % (len(ANSWER), ANSWER))),
    answered("C-100", "an interim 100 is skipped", wired(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, TYPED, LENGTH, b"\r\n", ANSWER)),
    answered("C-103", "interim 102 and 103 are skipped", wired(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, TYPED, LENGTH, b"\r\n", ANSWER)),
    streamed("C-100-stream", "an interim reply before a stream", raw(b"HTTP/1.1 100 Continue\r\n\r\n", Pause(0.02), head(200, EVENTS, CHUNKED), *(chunked(f) for f in WHOLE), b"0\r\n\r\n", end="keep")),
    answered("C-one-byte", "a plain reply one byte a write", raw(Drip(head(200, JSON, ("Content-Length", str(len(ANSWER)))) + ANSWER), end="keep")),
    answered("C-slow", "a plain reply in slow pieces", raw(head(200, JSON, ("Content-Length", str(len(ANSWER)))), ANSWER[:9], Pause(0.4), ANSWER[9:50], Pause(0.4), ANSWER[50:], end="keep")),
    answered("C-late", "a reply that takes a while to begin", raw(Pause(1.5), head(200, JSON, ("Content-Length", str(len(ANSWER)))) + ANSWER, end="keep")),
    answered("C-many-headers", "a reply with 80 headers", plain(ANSWER, 200, *((f"x-h{n}", "v") for n in range(80)))),
    exchange("C-same-lengths", "the same content-length twice is one, or an error", PLAIN_ASK, wired(OK, TYPED, LENGTH, LENGTH, b"\r\n", ANSWER), lambda seen: error_object(seen) if seen.reply.status >= 500 else says("hello")(seen)),
    exchange("C-two-lengths", "two different lengths are an error", PLAIN_ASK, wired(OK, TYPED, LENGTH, b"Content-Length: 5\r\n\r\n", ANSWER, end="close"), status_between(500, 599), ours(status(502)), error_object),
    exchange("C-bad-length", "a length that is no number is an error", PLAIN_ASK, wired(OK, TYPED, b"Content-Length: -1\r\n\r\n", ANSWER, end="close"), status_between(500, 599), ours(status(502)), error_object),
    exchange("C-bad-header", "a header line without a colon is no answer, or is left out", PLAIN_ASK, wired(OK, TYPED, b"nonsense\r\n", LENGTH, b"\r\n", ANSWER, end="close"), lambda seen: None if seen.reply.status >= 500 else says("hello")(seen)),
    answered("C-many-interim", "twenty interim replies", wired(b"HTTP/1.1 100 Continue\r\n\r\n" * 20 + OK, TYPED, LENGTH, b"\r\n", ANSWER)),
    exchange("C-length-overflow", "a length beyond 64 bits is an error", PLAIN_ASK, wired(OK, TYPED, b"Content-Length: 99999999999999999999999\r\n\r\n", ANSWER, end="close"), status_between(500, 599), error_object),
    exchange("C-chunk-size-overflow", "a chunk size beyond 64 bits is an error", PLAIN_ASK, wired(OK, TYPED, b"Transfer-Encoding: chunked\r\n\r\n", b"fffffffffffffffffffff\r\n" + ANSWER, end="close"), status_between(500, 599), error_object),
    exchange("C-te-gzip", "a transfer coding nobody asked for is an error, or undone", PLAIN_ASK, raw(head(200, JSON, ("Transfer-Encoding", "gzip, chunked")) + chunked(gzipped(ANSWER)) + b"0\r\n\r\n"), lambda seen: None if seen.reply.status >= 500 else says("hello")(seen)),
    exchange("C-splitting-cr", "a bare CR in a relayed header makes no header", PLAIN_ASK, wired(OK, TYPED, b"x-request-id: a\rset-cookie: evil=1\r\n", LENGTH, b"\r\n", ANSWER, end="close"), header_absent("set-cookie"), _no_bare_line),
    exchange("C-splitting-lf", "nor a bare LF", PLAIN_ASK, wired(OK, TYPED, b"x-request-id: a\nset-cookie: evil=1\r\n", LENGTH, b"\r\n", ANSWER, end="close"), header_absent("set-cookie")),
    exchange("C-splitting-fold", "nor a folded line", PLAIN_ASK, wired(OK, TYPED, b"x-request-id: a\r\n b\r\n", LENGTH, b"\r\n", ANSWER, end="close"), _no_bare_line),
    exchange("C-latin-header", "a relayed header beyond ASCII is no 500", PLAIN_ASK, wired(OK, TYPED, b"x-request-id: \xe9\xff\r\n", LENGTH, b"\r\n", ANSWER), lambda seen: error_object(seen) if seen.reply.status >= 500 else None),
    exchange("C-huge-header", "a header of 4 MB is given up", PLAIN_ASK, wired(OK, TYPED, b"x-big: " + b"h" * 4_000_000 + b"\r\n", LENGTH, b"\r\n", ANSWER, end="close"), lambda seen: error_object(seen) if seen.reply.status >= 500 else says("hello")(seen)),
)  # fmt: skip


async def _in_turn(stage: Stage, scripts: list[Script], gap: float) -> Fault | None:
    """Calls one after another, each of which must be answered, with exactly one request each.

    Afterwards the upstream hangs up, so that a pool that was poisoned harms no other case.
    """
    try:
        return await _each_answered(stage, scripts, gap)
    finally:
        stage.upstream.hang_up()


async def _each_answered(stage: Stage, scripts: list[Script], gap: float) -> Fault | None:
    for number, script in enumerate(scripts):
        token = stage.play(script, f"n{number}")
        seen = await stage.exchange(Ask(), token)
        if found := says("hello")(seen) or called(1)(seen):
            return Fault(f"call {number + 1}: {found.expected}", found.seen)
        await asyncio.sleep(gap)
    return None


def in_turn(case_id: str, title: str, scripts: list[Script], gap: float = 0.1) -> Case:
    """A case of several calls after each other."""

    async def play(stage: Stage) -> Fault | None:
        return await _in_turn(stage, scripts, gap)

    return alone(Case(case_id, title, play))


def _whole(end: str = "keep") -> Script:
    return plain(ANSWER, end="keep" if end == "keep" else "close")


INJECTED = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"x":1}'


async def _race(stage: Stage) -> Fault | None:
    """The upstream closes a kept connection while the next request is on its way: an answer or a clear 502."""
    for number in range(6):
        warm = stage.play(plain(ANSWER), f"w{number}")
        cold = stage.play(raw(b"", end="close"), f"c{number}")
        await stage.ask(Ask(), warm)
        reply = await stage.ask(Ask(), cold)
        if reply.status not in {502, 503} and (stage.target.ours or reply.status < 500):
            return Fault("a 502 for a connection closed instead of a reply", brief(reply))
        if len(stage.received(cold)) > 2:
            return Fault("at most one more try", f"{len(stage.received(cold))} requests")
    return None


async def _many(stage: Stage, count: int, *, streaming: bool) -> Fault | None:
    script = stream(*WHOLE) if streaming else plain(ANSWER)
    token = stage.play(script)

    async def one() -> str:
        reply = await stage.ask(Ask(stream=streaming), token)
        return "good" if reply.status == 200 and reply.content() == "hello" else brief(reply)

    results = await asyncio.gather(*(one() for _ in range(count)))
    bad = [result for result in results if result != "good"]
    if bad:
        return Fault(f"{count} good answers", f"{len(bad)} bad, such as {bad[0]}")
    sent = len(stage.received(token))
    return None if sent == count else Fault(f"{count} requests at the upstream", str(sent))


def many(case_id: str, title: str, count: int, *, streaming: bool) -> Case:
    """That many at once."""

    async def play(stage: Stage) -> Fault | None:
        return await _many(stage, count, streaming=streaming)

    return alone(Case(case_id, title, play))


async def _no_slot(stage: Stage) -> Fault | None:
    """All slots taken: the next waits, and is answered or told 503 with Retry-After; none is lost."""
    slots = stage.target.knobs.slots or 1
    token = stage.play(
        raw(Pause(0.5), head(200, JSON, ("Content-Length", str(len(ANSWER)))) + ANSWER, end="keep")
    )
    replies = await asyncio.gather(*(stage.ask(Ask(), token) for _ in range(slots + 50)))
    odd = [r for r in replies if r.status != 200 and not (r.status == 503 and r.header("retry-after"))]
    return Fault("200, or 503 with Retry-After", brief(odd[0])) if odd else None


async def _waiting_leaves(stage: Stage) -> Fault | None:
    """All slots taken: a client that leaves while it waits costs no provider call, and the slots come back."""
    slots = stage.target.knobs.slots or 1
    held = stage.play(raw(Hold(4.0), end="close"), "held")
    waiting = stage.play(plain(ANSWER), "waiting")
    async with asyncio.TaskGroup() as group:
        for _ in range(slots):
            group.create_task(_hold_slot(stage, held))
        await stage.arrived(slots, held)
        async with stage.wire(waiting) as wire:
            await wire.send(stage.request(PLAIN_ASK, waiting))
            await asyncio.sleep(0.15)
            wire.leave("fin")
    await asyncio.sleep(0.3)
    if stage.received(waiting):
        return Fault("no provider call for a client that left", "one was made")
    return says("hello")(await stage.exchange(PLAIN_ASK, stage.play(plain(ANSWER), "after")))


async def _hold_slot(stage: Stage, token: str) -> None:
    async with stage.wire(token) as wire:
        await wire.send(stage.request(PLAIN_ASK, token))
        await asyncio.sleep(0.8)
        wire.leave("fin")


async def _slow_reader(stage: Stage) -> Fault | None:
    """A client that does not read holds back its own upstream; nothing is piled up in between."""
    whole, size = 64_000_000, 65_000
    frames = (said(f"{number} " + "x" * size) for number in range(whole // size))
    stage.play(stream(*frames, finish(), DONE))
    async with stage.wire() as wire:
        await wire.send(stage.request(STREAM_ASK))
        await stage.arrived()
        await asyncio.sleep(1.5)
        taken = stage.received()[0].sent
        reply = await wire.reply(30.0)
    if taken > whole // 2:
        return Fault(
            "the upstream held back while the client does not read", f"{taken // 1_000_000} of 64 MB taken"
        )
    return None if reply.done and reply.end == "clean" else Fault("then the whole stream", brief(reply))


CONNECTIONS = (
    needing(alone(Case("C9-leave", "a client that leaves while it waits for a slot", _waiting_leaves, "ours")), "slots"),
    alone(Case("C10-slow-reader", "a client that reads slowly holds its upstream back", _slow_reader)),
    in_turn("C-kept", "calls after each other on kept connections", [_whole() for _ in range(5)], 0.0),
    in_turn("C-idle-close", "an upstream that closes idle connections without a word costs no call", [_whole("close") for _ in range(6)]),
    in_turn("C-idle-reset", "nor one that resets them", [Script((Send(head(200, JSON, ("Content-Length", str(len(ANSWER)))) + ANSWER), Pause(0.03)), "reset") for _ in range(6)]),
    in_turn("C-leftover-bytes", "bytes after the end of a reply never answer the next call", [raw(head(200, JSON, ("Content-Length", str(len(ANSWER)))) + ANSWER + INJECTED, end="keep"), _whole(), _whole()], 0.05),
    in_turn("C-leftover-chunks", "nor bytes after the last chunk", [raw(head(200, JSON, CHUNKED) + chunked(ANSWER) + b"0\r\n\r\n" + INJECTED, end="keep"), _whole(), _whole()], 0.05),
    in_turn("C-late-leftover", "nor bytes that come while the connection is idle", [raw(head(200, JSON, ("Content-Length", str(len(ANSWER)))) + ANSWER, Pause(0.05), INJECTED, end="keep"), _whole(), _whole()], 0.15),
    in_turn("C-both-framings", "a reply with length and chunks never answers the next call", [raw(head(200, JSON, CHUNKED, ("Connection", "close")) + chunked(ANSWER) + b"0\r\n\r\n"), _whole()], 0.05),
    Case("C-race", "an upstream that closes on the request is a 502, tried at most once more", _race),
    streamed("C-stream-slow-end", "the end of a stream's body may come late", stream(*WHOLE, Pause(0.4))),
    exchange("C-early-reply", "an error that comes before the whole request was read", Ask('"x":"' + "y" * 3_000_000 + '"'), plain(ERROR, 413, end="close"), status(413), error_says("boom-7")),
    many("C7-500", "500 plain calls at once, none fails, none is sent twice", 500, streaming=False),
    many("C7-500-streams", "500 streams at once, none fails, none is sent twice", 500, streaming=True),
    needing(alone(Case("C9-slots", "more calls than slots: all answered, or 503 with Retry-After", _no_slot, "ours")), "slots"),
    answered("C11-thinking", "an upstream that thinks for two seconds is waited for", raw(Hold(2.0), head(200, JSON, ("Content-Length", str(len(ANSWER)))) + ANSWER, end="keep")),
)  # fmt: skip

CASES: tuple[Case, ...] = (*ENCODINGS, *ODDITIES, *CONNECTIONS)
