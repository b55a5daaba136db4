"""A small proxy that relays faithfully, or with one deliberate fault, so that the conformance suite can be tested.

It hides usage from nobody and knows no errors: it is no model of a good proxy, only of a transparent one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

from osmosis_bridge.conformance import CaseResult, Target, run_suite, select
from osmosis_bridge.conformance.reply import Reply, ReplyReader
from osmosis_bridge.conformance.upstream import header_lines

KEY = "sk-mini-canary-0001"
BEARER = "mini-bearer-0001"

OnRequest = Callable[[bytes], bytes]
OnReply = Callable[[Reply], Reply]


@dataclass(frozen=True)
class Faults:
    """What the proxy does wrong; nothing by default.

    `request` changes the body on its way out; `reply` is given the whole reply (so that nothing is passed on before
    its end). `deaf`: a client that leaves is not noticed. `times`: how often the upstream is asked.
    """

    request: OnRequest | None = None
    reply: OnReply | None = None
    headers: tuple[str, ...] = ()
    deaf: bool = False
    times: int = 1
    key: str = KEY
    open_to_all: bool = False
    error: bytes = b'{"error":{"message":"no answer","type":"x","param":null,"code":null}}'


@dataclass
class MiniProxy:
    """Serves while it is entered, on a free port unless one is given."""

    upstream_port: int
    faults: Faults = field(default_factory=Faults)
    port: int = 0
    url: str = ""

    async def __aenter__(self) -> Self:
        self._serving: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=1 << 24, backlog=1024
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *why: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, OSError):
                await self._answer(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(header_lines(head))
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        if not self.faults.open_to_all and fields.get("authorization") != f"Bearer {BEARER}":
            writer.write(whole(401, (), self.faults.error))
        else:
            await self._relay(reader, writer, head.split(b" ", 2)[1].decode("latin-1"), body)
        await writer.drain()

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes
    ) -> None:
        outgoing = self.faults.request(body) if self.faults.request else body
        for _ in range(self.faults.times - 1):
            await self._ask(path, outgoing, None, asyncio.StreamReader())
        reply = await self._ask(path, outgoing, None if self.faults.reply else writer, reader)
        if not reply.status:
            writer.write(whole(502, (), self.faults.error))
        elif self.faults.reply:
            changed = self.faults.reply(reply)
            writer.write(whole(changed.status, changed.headers, changed.body))

    async def _ask(
        self, path: str, body: bytes, writer: asyncio.StreamWriter | None, client: asyncio.StreamReader
    ) -> Reply:
        """One exchange with the upstream; its bytes go to `writer` as they come."""
        upstream, out = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        out.write(self._head(path, len(body)) + body)
        parsed = ReplyReader()
        gone = asyncio.create_task(asyncio.Event().wait() if self.faults.deaf else client.read(1))
        try:
            while not parsed.complete:
                read = asyncio.create_task(upstream.read(65536))
                await asyncio.wait({read, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not read.done():
                    read.cancel()
                    return parsed.reply("waiting")
                try:
                    data = await read
                except ConnectionError:
                    data = b""
                if not data:
                    break
                parsed.feed(data)
                if writer is not None:
                    writer.write(data)
                    await writer.drain()
        finally:
            gone.cancel()
            out.transport.abort()
        return parsed.reply("clean" if parsed.complete else "cut")

    def _head(self, path: str, length: int) -> bytes:
        extra = "".join(f"{line}\r\n" for line in self.faults.headers)
        return (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.upstream_port}\r\n{extra}"
            f"Authorization: Bearer {self.faults.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n"
        ).encode()


def whole(status: int, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
    """A reply with a length; framing headers of the old one left out."""
    kept = [
        pair for pair in headers if pair[0] not in {"content-length", "transfer-encoding", "content-encoding"}
    ]
    if not any(name == "content-type" for name, _ in kept):
        kept.append(("content-type", "application/json"))
    lines = [
        f"HTTP/1.1 {status} x",
        *(f"{name}: {value}" for name, value in kept),
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def on_events(change: Callable[[list[bytes]], list[bytes]]) -> OnReply:
    """A fault in the events of a stream; other replies stay."""

    def reply(seen: Reply) -> Reply:
        if not seen.is_stream:
            return seen
        events = [event + b"\n\n" for event in seen.body.split(b"\n\n") if event]
        return replace(seen, body=b"".join(change(events)))

    return reply


def on_body(old: bytes, new: bytes) -> OnReply:
    """A fault in the text of every reply."""
    return lambda seen: replace(seen, body=seen.body.replace(old, new))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def judged(*patterns: str, faults: Faults | None = None, ours: bool = False) -> dict[str, CaseResult]:
    """The suite's verdict on a mini proxy, by case id; `ours` holds it to what only our own bridge promises."""

    async def run() -> dict[str, CaseResult]:
        port = free_port()
        async with MiniProxy(port, faults or Faults()) as proxy:
            target = Target(proxy.url, bearer=BEARER, patience=5.0, ours=ours)
            report = await run_suite(target, upstream_port=port, cases=select(patterns))
        assert report.results, f"no case is called {patterns}"
        return {case.id: case for case in report.results}

    return asyncio.run(run())


def failed(*patterns: str, faults: Faults | None = None, ours: bool = False) -> list[str]:
    """The ids of the cases that a mini proxy fails."""
    return sorted(
        case_id
        for case_id, case in judged(*patterns, faults=faults, ours=ours).items()
        if case.result == "failed"
    )
