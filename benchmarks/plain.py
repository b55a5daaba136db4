#!/usr/bin/env python3
"""The upstream and the load clients in Python, for machines without a C compiler; slower, and so the report says.

    plain.py upstream|load|streams ARGUMENTS       as the C programs of the same names take and print them

Runs on uvloop where it is installed. Knows HTTP/1.1 as far as these three need it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

try:
    from uvloop import run
except ImportError:
    run = asyncio.run

MARK = re.compile(rb"@@(\d+),(\d+),(\d+)@@")
STAMP = re.compile(rb"##(\d{16})")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nx-request-id: req-1\r\n"
FIXED: dict[str, object] = {"id": "chatcmpl-1", "created": 1760000000, "model": "mock-1"}
USAGE = {"prompt_tokens": 200, "completion_tokens": 50, "total_tokens": 250}


def clock_us() -> int:
    """Microseconds of the clock that every process of this machine shares."""
    return time.monotonic_ns() // 1000


def whole(body: object, kind: bytes = b"application/json") -> bytes:
    """A reply with its length."""
    encoded = json.dumps(body, separators=(",", ":")).encode()
    return HEAD % kind + b"Content-Length: %d\r\n\r\n" % len(encoded) + encoded


def completion() -> bytes:
    """The answer to a call that does not stream."""
    message = {"role": "assistant", "content": "A sentence that says as little as the last. " * 14}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return whole({**FIXED, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def event(choices: list[object], **more: object) -> bytes:
    """One event of a stream, framed as a chunk."""
    body = {**FIXED, "object": "chat.completion.chunk", "choices": choices, **more}
    text = b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(text), text)


class Seen:
    """What the upstream was asked."""

    def __init__(self) -> None:
        self.requests = self.rows = self.first_row_us = self.last_row_us = 0

    def note(self, body: bytes) -> None:
        """Count a request."""
        self.requests += 1
        if b"@@row" in body:
            self.last_row_us = clock_us()
            self.first_row_us = self.first_row_us or self.last_row_us
            self.rows += 1


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    """Head and body of one request or reply; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        low = head.lower()
        if b"\ntransfer-encoding:" in low:
            return head, await read_chunks(reader)
        length = re.search(rb"\ncontent-length: *(\d+)", low)
        return head, await reader.readexactly(int(length[1])) if length else b""
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    """A chunked body."""
    parts: list[bytes] = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readline()
    return b"".join(parts)


async def upstream(arguments: Sequence[str]) -> None:
    """Serve until killed."""
    seen, plain = Seen(), completion()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (message := await read_message(reader)) is not None:
            head, body = message
            if head.startswith(b"GET /reset"):
                seen.__init__()
            if head.startswith(b"GET"):
                writer.write(whole(vars(seen)))
                continue
            seen.note(body)
            await reply(writer, body, plain)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", int(arguments[0]), limit=1 << 22, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def reply(writer: asyncio.StreamWriter, body: bytes, plain: bytes) -> None:
    """Answer one call as its mark says."""
    marked = MARK.search(body)
    wait, chunks, gap = (int(part) for part in marked.groups()) if marked else (0, 50, 20)
    if wait:
        await asyncio.sleep(wait / 1e3)
    if not re.search(rb'"stream" *: *true', body):
        writer.write(plain)
        return
    writer.write(
        HEAD % b"text/event-stream" + b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    first = time.monotonic()
    for index in range(chunks):
        delta = {"content": f"##{clock_us():016d} word{index}"}
        writer.write(event([{"index": 0, "delta": delta, "finish_reason": None}]))
        await asyncio.sleep(max(0.0, first + (index + 1) * gap / 1e3 - time.monotonic()))
    writer.write(event([{"index": 0, "delta": {}, "finish_reason": "stop"}]) + event([], usage=USAGE))
    writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def request_of(arguments: Sequence[str], headers: Sequence[str]) -> bytes:
    """The request every connection sends."""
    body = Path(arguments[2]).read_bytes()
    head = f"POST {arguments[1]} HTTP/1.1\r\nHost: 127.0.0.1:{arguments[0]}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n" + "".join(f"{header}\r\n" for header in headers)
    return head.encode() + b"\r\n" + body


def quantile_ms(sorted_us: Sequence[int], share: float) -> float:
    """A quantile of microseconds, in milliseconds; -1 of nothing."""
    return sorted_us[int(share * (len(sorted_us) - 1))] / 1000 if sorted_us else -1.0


class Tally:
    """What came of a client's calls or streams."""

    def __init__(self) -> None:
        self.took: list[int] = []
        self.firsts: list[int] = []
        self.transits: list[int] = []
        self.ok = self.bad_status = self.broken = self.incomplete = 0
        self.first_at = self.last_at = 0


async def load(arguments: Sequence[str]) -> dict[str, object]:
    """Closed-loop calls."""
    request, tally = request_of(arguments, arguments[6:]), Tally()
    callers, pause, seconds = int(arguments[3]), int(arguments[4]) / 1e6, float(arguments[5])
    begin = time.monotonic()

    async def call(index: int) -> None:
        await asyncio.sleep(pause * index / callers)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(arguments[0]), limit=1 << 22)
        while time.monotonic() < begin + seconds:
            asked = clock_us()
            writer.write(request)
            message = await read_message(reader)
            if message is None:
                tally.broken += 1
                return
            tally.took.append(clock_us() - asked)
            tally.bad_status += message[0][9:12] != b"200"
            await asyncio.sleep(pause)
        writer.close()

    outcomes = await asyncio.gather(*map(call, range(callers)), return_exceptions=True)
    tally.broken += sum(isinstance(outcome, BaseException) for outcome in outcomes)
    took, wall = sorted(tally.took), time.monotonic() - begin
    quantiles = {
        f"p{name}_ms": quantile_ms(took, share) for name, share in ((50, 0.5), (90, 0.9), (99, 0.99))
    }
    counts = {"requests": len(took), "seconds": wall, "rate": len(took) / wall}
    return {
        **counts,
        **quantiles,
        "max_ms": quantile_ms(took, 1),
        "bad_status": tally.bad_status,
        "broken": tally.broken,
    }


async def streams(arguments: Sequence[str]) -> dict[str, object]:
    """Many streams at once."""
    request, tally = request_of(arguments, arguments[7:]), Tally()
    count, ramp, chunks, limit = int(arguments[3]), int(arguments[4]) / 1e3, int(arguments[5]), arguments[6]
    begin = time.monotonic()

    async def one(index: int) -> None:
        await asyncio.sleep(ramp * index / count)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(arguments[0]))
        asked = clock_us()
        writer.write(request)
        await read_stream(reader, asked, chunks, tally)
        writer.close()

    work = [asyncio.ensure_future(one(index)) for index in range(count)]
    _, late = await asyncio.wait(work, timeout=float(limit))
    for task in late:
        task.cancel()
    results = await asyncio.gather(*work, return_exceptions=True)
    broken = sum(isinstance(result, Exception) for result in results)
    return {
        "streams": count,
        "cut": broken + tally.broken,
        "unfinished": len(late),
        **stream_figures(tally, begin),
    }


async def read_stream(reader: asyncio.StreamReader, asked: int, wanted: int, tally: Tally) -> None:
    """Read one stream to its end."""
    rest, seen = b"", 0
    while piece := await reader.read(65536):
        now, rest = clock_us(), rest + piece
        if seen == 0 and rest.startswith(b"HTTP/") and rest[9:12] != b"200":
            tally.bad_status += 1
            return
        for stamp in STAMP.finditer(rest):
            tally.transits.append(now - int(stamp[1]))
            if seen == 0:
                tally.firsts.append(now - asked)
            seen += 1
            tally.first_at, tally.last_at = tally.first_at or now, now
        if b"[DONE]" in rest:
            tally.ok += seen == wanted
            tally.incomplete += seen != wanted
            return
        last = rest.rfind(b"##")
        rest = rest[last:] if len(rest) - last < 18 and last >= 0 else rest[-6:]
    tally.broken += 1


def stream_figures(tally: Tally, begin: float) -> dict[str, object]:
    """What the streams came to."""
    firsts, transits = sorted(tally.firsts), sorted(tally.transits)
    reading = (tally.last_at - tally.first_at) / 1e6
    return {
        "ok": tally.ok,
        "not_connected": 0,
        "bad_status": tally.bad_status,
        "incomplete": tally.incomplete,
        "chunks": len(transits),
        "seconds": time.monotonic() - begin,
        "chunks_per_s": len(transits) / reading if reading else 0.0,
        **{
            f"first_{name}_ms": quantile_ms(firsts, share)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1))
        },
        **{
            f"transit_{name}_ms": quantile_ms(transits, share)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1))
        },
    }


async def main(arguments: Sequence[str]) -> None:
    """Do what the first argument names."""
    role, rest = arguments[0], arguments[1:]
    if role == "upstream":
        await upstream(rest)
    else:
        print(json.dumps(await (load if role == "load" else streams)(rest)))


if __name__ == "__main__":
    run(main(sys.argv[1:]))
