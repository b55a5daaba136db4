"""C: what comes in: bodies of every size and framing, and requests made to smuggle, split or inject."""

from __future__ import annotations

import asyncio
import gzip

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, alone, exchange, needing
from osmosis_bridge.conformance.checks import (
    brief,
    called,
    error_object,
    forwarded,
    full_error,
    header_absent,
    not_called,
    ours,
    says,
    status,
    survives,
)
from osmosis_bridge.conformance.packing import BROTLI, Coder, deflated, gzipped, zstandard_packed
from osmosis_bridge.conformance.samples import WHOLE, completion
from osmosis_bridge.conformance.script import plain, stream
from osmosis_bridge.conformance.stage import Stage

OK = plain(completion())
MIB = 1 << 20


def sized(case_id: str, title: str, megabytes: int) -> Case:
    """A request with an image of this size."""
    fields = '"x":"' + "QUJD" * (megabytes * MIB // 4) + '"'
    return exchange(case_id, title, Ask(fields), OK, says("hello"), forwarded)


async def _too_large(stage: Stage) -> Fault | None:
    """Over the limit: 413 as JSON, no provider call; the body need not be read."""
    limit = stage.target.knobs.max_body or 0
    stage.play(OK)
    body = Ask('"x":"' + "y" * limit + '"')
    for ask in (body, Ask(body.fields, transfer="chunked")):
        reply = await stage.ask(ask)
        seen = await stage.seen(ask, reply)
        if found := status(413)(seen) or full_error(seen) or not_called(seen):
            return found
    return None


async def _announced(stage: Stage) -> Fault | None:
    """A length far beyond the limit is refused before the body comes."""
    async with stage.wire() as wire:
        head = stage.request(Ask(headers=(("Content-Length", "99999999999"),))).split(b"\r\n\r\n")[0]
        await wire.send(head + b"\r\n\r\n{")
        reply = await wire.reply(8.0)
    return None if reply.status in {400, 413} else Fault("413 without reading the body", brief(reply))


async def _gzipped(stage: Stage) -> Fault | None:
    stage.play(OK)
    body = gzip.compress(Ask('"seed":5').body(stage.token, stage.target.model))
    ask = Ask(raw=body, headers=(("Content-Encoding", "gzip"),))
    reply = await stage.ask(ask)
    seen = await stage.seen(Ask('"seed":5'), reply)
    if reply.status in {400, 415}:
        return ours(error_object)(seen)
    return says("hello")(seen) or forwarded(seen)


async def _bad_gzip(stage: Stage) -> Fault | None:
    ask = Ask(raw=b"\x1f\x8bnot gzip", headers=(("Content-Encoding", "gzip"),))
    reply = await stage.ask(ask)
    return None if 400 <= reply.status < 500 else Fault("a 4xx for a broken gzip body", brief(reply))


async def _bomb(stage: Stage) -> Fault | None:
    """A small body that would inflate to a gigabyte is refused, not inflated."""
    body = gzip.compress(b"[" * (1 << 30), 6) if stage.target.knobs.max_body is None else gzip.compress(b"[" * (stage.target.knobs.max_body * 2), 1)  # fmt: skip
    reply = await stage.ask(Ask(raw=body, headers=(("Content-Encoding", "gzip"),)))
    return None if 400 <= reply.status < 500 else Fault("a 4xx for a body that inflates beyond the limit", brief(reply))  # fmt: skip


def packed_request(case_id: str, encoding: str, pack: Coder, *, chunks: bool = False) -> Case:
    """A packed request is read, or refused as 4xx; never taken for what it is not."""

    async def play(stage: Stage) -> Fault | None:
        stage.play(OK)
        plain_ask = Ask('"seed":5')
        body = pack(plain_ask.body(stage.token, stage.target.model))
        reply = await stage.ask(
            Ask(
                raw=body,
                headers=(("Content-Encoding", encoding),),
                transfer="chunked" if chunks else "length",
            )
        )
        seen = await stage.seen(plain_ask, reply)
        if 400 <= reply.status < 500:
            return ours(error_object)(seen) or not_called(seen)
        return says("hello")(seen) or forwarded(seen)

    return Case(case_id, f"a request in {encoding} is read, or refused as 4xx", play)


async def _old_client(stage: Stage) -> Fault | None:
    """A client of HTTP/1.0 gets a reply that it can read: no chunks."""
    for streaming in (False, True):
        token = stage.play(stream(*WHOLE) if streaming else OK, f"s{streaming:d}")
        request = stage.request(Ask(stream=streaming), token).replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\n", 1)
        async with stage.wire(token) as wire:
            await wire.send(request)
            reply = await wire.reply(5.0)
        if reply.content() != "hello" or reply.header("transfer-encoding") is not None:
            return Fault("an answer without chunks", f"{reply.header('transfer-encoding')} {brief(reply)}")
    return None


async def _accepting(stage: Stage) -> Fault | None:
    """A client that takes gzip gets what it can read, labelled as what it is."""
    for encoding in ("gzip, deflate, br, zstd", "identity;q=0, *;q=0.5", "*"):
        token = stage.play(OK, f"e{len(encoding)}")
        reply = await stage.ask(Ask(headers=(("Accept-Encoding", encoding),)), token)
        if reply.content() != "hello":
            return Fault("an answer", brief(reply))
    return None


SIZES = (
    packed_request("C6-request-deflate", "deflate", deflated),
    packed_request("C6-request-br", "br", BROTLI),
    packed_request("C6-request-zstd", "zstd", zstandard_packed),
    packed_request("C6-request-identity", "identity", bytes),
    packed_request("C6-request-gzip-chunked", "gzip", gzipped, chunks=True),
    packed_request("C6-request-unknown", "snappy", bytes),
    Case("C-old-client", "a client of HTTP/1.0 gets a reply that it can read", _old_client),
    Case("C6-accept", "a client that takes encodings gets what it can read", _accepting),
    sized("C4-2mb", "a body of 2 MB is no problem", 2),
    alone(sized("C4-9mb", "a body of 9 MB is no problem", 9)),
    alone(sized("C4-24mb", "a body of 24 MB is no problem", 24)),
    needing(alone(Case("C4-too-large", "over the limit: 413 as JSON, by length and by chunks", _too_large, "ours")), "max_body"),
    needing(Case("C4-announced", "a length beyond the limit is refused before the body comes", _announced, "ours"), "max_body"),
    exchange("C-chunked-request", "a request in chunks is read", Ask('"seed":5', transfer="chunked"), OK, says("hello"), forwarded),
    Case("C6-request-gzip", "a gzipped request is read, or refused as 4xx", _gzipped),
    Case("C6-request-bad-gzip", "a request that says gzip and is none is a 4xx", _bad_gzip),
    needing(alone(Case("C6-request-bomb", "a body that inflates beyond the limit is refused", _bomb, "ours")), "max_body"),
)  # fmt: skip


async def _pipelined(stage: Stage) -> Fault | None:
    """Two requests in one write get two replies, in order."""
    first, second = (stage.play(plain(completion(f'{{"role":"assistant","content":"{n}"}}')), f"n{n}") for n in (1, 2))  # fmt: skip
    async with stage.wire() as wire:
        await wire.send(stage.request(Ask(), first) + stage.request(Ask(), second))
        one = await wire.reply()
    return None if one.content() == "1" else Fault("the first reply first", brief(one))


async def _kept(stage: Stage) -> Fault | None:
    """Five calls on one connection of the client."""
    async with stage.wire() as wire:
        for number in range(5):
            token = stage.play(OK, f"n{number}")
            await wire.send(stage.request(Ask(), token))
            reply = await wire.reply()
            if reply.content() != "hello":
                return Fault(f"call {number + 1} answered", brief(reply))
    return None


async def _expect(stage: Stage) -> Fault | None:
    """A client that waits for 100 Continue is answered."""
    stage.play(OK)
    whole = stage.request(Ask(headers=(("Expect", "100-continue"),)))
    head, _, body = whole.partition(b"\r\n\r\n")
    async with stage.wire() as wire:
        await wire.send(head + b"\r\n\r\n")
        await asyncio.sleep(0.2)
        await wire.send(body)
        reply = await wire.reply()
    return None if reply.content() == "hello" else Fault("an answer", brief(reply))


async def _slow_request(stage: Stage) -> Fault | None:
    """A request that comes in small pieces is read."""
    stage.play(OK)
    whole = stage.request(Ask())
    async with stage.wire() as wire:
        for start in range(0, len(whole), 37):
            await wire.send(whole[start : start + 37])
            await asyncio.sleep(0.005)
        reply = await wire.reply()
    return None if reply.content() == "hello" else Fault("an answer", brief(reply))


def smuggled(case_id: str, title: str, framing: str, outer: str = "") -> Case:
    """A request that hides a second one: the second must never reach the provider.

    `framing` holds the framing headers; `outer` the body, in which INNER is the hidden request.
    """

    async def play(stage: Stage) -> Fault | None:
        stage.play(OK)
        hidden = stage.play(OK, "hidden")
        inner = stage.request(Ask(), hidden).decode("latin-1")
        chunk = outer.replace("INNER", inner)
        fields = framing.replace("LENGTH", str(len(chunk)))
        lines = [f"POST {stage.address.prefix}{stage.target.path.replace('{rollout}', stage.rollout)} HTTP/1.1", f"Host: {stage.address.authority}"]  # fmt: skip
        lines += [f"Authorization: {stage.authorization()}", "Content-Type: application/json"]
        data = "\r\n".join(lines) + "\r\n" + fields + "\r\n\r\n" + chunk
        async with stage.wire() as wire:
            await wire.send(data.encode("latin-1"))
            await wire.reply(1.5)
        await asyncio.sleep(0.1)
        leaks = [call for call in stage.received() if b"hidden" in call.head + call.body]
        if stage.received(hidden) or leaks:
            return Fault("the hidden request never reaches the provider", "it did")
        return None

    return Case(case_id, title, play)


SMUGGLING = (
    smuggled("C-te-and-cl", "Transfer-Encoding and Content-Length together", "Content-Length: LENGTH\r\nTransfer-Encoding: chunked", "0\r\n\r\nINNER"),
    smuggled("C-cl-and-te", "the same in the other order", "Transfer-Encoding: chunked\r\nContent-Length: 4", "0\r\n\r\nINNER"),
    smuggled("C-two-cl", "two lengths that differ", "Content-Length: 0\r\nContent-Length: LENGTH", "INNER"),
    smuggled("C-cl-list", "a list of lengths", "Content-Length: 0, LENGTH", "INNER"),
    smuggled("C-te-space", "a blank before the colon", "Transfer-Encoding : chunked\r\nContent-Length: LENGTH", "0\r\n\r\nINNER"),
    smuggled("C-te-fold", "a folded Transfer-Encoding", "Transfer-Encoding:\r\n chunked\r\nContent-Length: LENGTH", "0\r\n\r\nINNER"),
    smuggled("C-te-odd", "a Transfer-Encoding nobody knows", "Transfer-Encoding: xchunked\r\nContent-Length: 0", "INNER"),
    smuggled("C-te-twice", "chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: LENGTH", "0\r\n\r\nINNER"),
    smuggled("C-bare-lf", "a bare LF ends no header", "X-A: b\nContent-Length: 0\r\nContent-Length: LENGTH", "INNER"),
    smuggled("C-bare-cr", "a bare CR ends no header", "X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: LENGTH", "0\r\n\r\nINNER"),
    smuggled("C-chunk-overflow", "a chunk size beyond 64 bits", "Transfer-Encoding: chunked", "10000000000000000\r\nx\r\n0\r\n\r\nINNER"),
    smuggled("C-chunk-sign", "a chunk size with a sign", "Transfer-Encoding: chunked", "+0\r\n\r\nINNER"),
    smuggled("C-cl-plus", "a length with a sign", "Content-Length: +0", "INNER"),
    smuggled("C-nul-header", "a NUL in a header", "X-A: \x00b\r\nContent-Length: 0\r\nContent-Length: LENGTH", "INNER"),
)  # fmt: skip


def refused_line(case_id: str, title: str, line: str) -> Case:
    """An odd request line: no answer of the model, no crash."""

    async def play(stage: Stage) -> Fault | None:
        stage.play(OK)
        whole = stage.request(Ask())
        async with stage.wire() as wire:
            await wire.send(
                line.replace("PATH", stage.target.path).encode("latin-1")
                + b"\r\n"
                + whole.split(b"\r\n", 1)[1]
            )
            reply = await wire.reply(3.0)
        targets = [call.target for call in stage.received() if "evil" in call.target]
        if reply.status == 500 or targets:
            return Fault("no 500, and nothing of the line at the provider", brief(reply))
        return None

    return Case(case_id, title, play)


def _no_injection(seen: Seen) -> Fault | None:
    """The names in `x-osmosis-stripped` cannot make a header of their own."""
    if b"\r\nset-cookie" in seen.reply.raw.lower() or b"\nx-injected" in seen.reply.raw.lower():
        return Fault("no injected header", seen.reply.raw[:200].decode("latin-1"))
    return None


def odd_names(case_id: str, title: str, fields: str, *checks: Check) -> Case:
    """Controls whose names are made to break a header."""
    return exchange(case_id, title, Ask(fields), OK, survives, _no_injection, header_absent("set-cookie", "x-injected"), ours(status(200, 400)), *checks)  # fmt: skip


REQUESTS = (
    Case("C-pipelined", "two requests in one write are answered in order", _pipelined),
    Case("C-kept-client", "five calls on one connection of the client", _kept),
    Case("C-expect", "a client that waits for 100 Continue is answered", _expect),
    Case("C-slow-request", "a request that comes in small pieces is read", _slow_request),
    refused_line("C-absolute", "an absolute target does not steer the call", "POST http://evil.example/v1/chat/completions HTTP/1.1"),
    refused_line("C-connect", "CONNECT is no 500", "CONNECT evil.example:443 HTTP/1.1"),
    refused_line("C-long-line", "a path of 100 kB is no 500", "POST /" + "a" * 100_000 + " HTTP/1.1"),
    refused_line("C-http-2", "a version that does not exist is no 500", "POST PATH HTTP/9.9"),
    refused_line("C-odd-method", "a method that does not exist is no 500", "BREW PATH HTTP/1.1"),
    refused_line("C-non-ascii-path", "bytes beyond ASCII in the path are no 500", "POST /v1/\xff\xfe/evil HTTP/1.1"),
    odd_names("C-header-injection", "CR and LF in a field's name make no header", r'"litellm_a\r\nset-cookie: a=b\r\nx-injected: 1":1,"aws_x\nx-injected: 1":2'),
    odd_names("C-header-nul", "NUL and controls in a field's name make no header", r'"litellm_\u0000\u001b[31m":1,"aws_\u007f":2'),
    odd_names("C-header-unicode", "letters beyond Latin-1 in a field's name are no 500", '"litellm_日本":1,"aws_é":2,"azure_\\ud800":3'),
    odd_names("C-header-many", "5,000 stripped controls are no 500", ",".join(f'"litellm_{n}":1' for n in range(5000)), ours(called(1))),
    exchange("C-many-headers-in", "70 headers of the client are no problem", Ask(headers=tuple((f"X-H{n}", "v") for n in range(70))), OK, says("hello")),
    exchange("C-huge-header-in", "a header of 1 MB is a 4xx or a closed connection, no 500", Ask(headers=(("X-Big", "h" * MIB),)), OK, lambda seen: Fault("no 500", brief(seen.reply)) if seen.reply.status == 500 else None),
)  # fmt: skip

CASES: tuple[Case, ...] = (*SIZES, *SMUGGLING, *REQUESTS)
