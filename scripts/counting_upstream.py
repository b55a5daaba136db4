"""A provider on loopback that answers at once, misbehaves as a request asks, and keeps its own count of what it gave.

The count is the truth that a bridge's accounts are held to. What it does with a request is said by the last message,
`{"id": ..., "rollout": ..., "kind": ...}` as JSON text; how many tokens a reply cost, it draws by itself. Knows nothing
of the bridge.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

JSON_HEAD = (
    b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\nx-request-id: %b\r\ncontent-length: %d\r\n\r\n"
)
SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"x-request-id: %b\r\ntransfer-encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"
PACE_S = 0.004
"""Between the chunks of a slow stream."""


@dataclass
class Count:
    """What one rollout asked and was given; `unmetered` counts answers begun of which no usage was given."""

    requests: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    max_context_tokens: int = 0
    unmetered: int = 0

    def give(self, usage: dict[str, Any]) -> None:
        """Count the usage of one reply."""
        prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
        self.tokens += usage.get("total_tokens", prompt + completion)
        self.prompt_tokens += prompt
        self.completion_tokens += completion
        self.cached_tokens += usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
        self.max_context_tokens = max(
            self.max_context_tokens, prompt + completion, usage.get("total_tokens", 0)
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: who asks for what, and the how-manieth of its id it is, from 1."""

    id: str
    rollout: str
    kind: str
    stream: bool
    attempt: int


@dataclass
class CountingUpstream:
    """Serves on a free port between `start` and `stop`."""

    seed: int = 0
    counts: dict[str, Count] = field(default_factory=dict[str, Count])
    open: int = 0
    """Connections that are open, those included that wait for another request."""
    busy: int = 0
    """Connections whose request is not wholly answered yet."""
    port: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - the numbers are no secret
        self._attempts: Counter[str] = Counter()
        self._arrivals: dict[str, asyncio.Event] = {}

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self) -> int:
        """How many requests arrived."""
        return sum(count.requests for count in self.counts.values())

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(partial(_Connection, self), "127.0.0.1", 0, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening."""
        self._server.close()
        await self._server.wait_closed()

    def arrival(self, asked_id: str) -> asyncio.Event:
        """Set when a request of this id arrives."""
        return self._arrivals.setdefault(asked_id, asyncio.Event())

    def take(self, body: bytes) -> Asked:
        """Count one request."""
        fields = json.loads(body)
        order = json.loads(fields["messages"][-1]["content"])
        self._attempts[order["id"]] += 1
        asked = Asked(
            order["id"],
            order["rollout"],
            order["kind"],
            bool(fields.get("stream")),
            self._attempts[order["id"]],
        )
        self.of(asked.rollout).requests += 1
        if event := self._arrivals.pop(asked.id, None):
            event.set()
        return asked

    def of(self, rollout: str) -> Count:
        """The count of one rollout."""
        return self.counts.setdefault(rollout, Count())

    def usage(self, asked: Asked, *, counted: bool = True) -> dict[str, Any]:
        """What a reply costs; it is drawn here, and counted unless it is only on the way to the final figure."""
        prompt, completion = self._random.randint(1, 5000), self._random.randint(0, 900)
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
        if asked.kind != "no_total":
            usage["total_tokens"] = prompt + completion + (77 if asked.kind == "big_total" else 0)
        if prompt % 2:
            usage["prompt_tokens_details"] = {"cached_tokens": prompt // 3}
        if counted:
            self.of(asked.rollout).give(usage)
        return usage


def chunk(content: str | None, finish: str | None = None, usage: dict[str, Any] | None = None) -> bytes:
    """One event of a stream."""
    delta = {} if content is None else {"content": content}
    made: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    made["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
    if usage is not None:
        made["usage"] = usage
    return b"data: %b\n\n" % json.dumps(made).encode()


def usage_chunk(usage: dict[str, Any]) -> bytes:
    """The event that holds nothing but usage."""
    return b"data: %b\n\n" % json.dumps({"id": "c", "model": "m", "choices": [], "usage": usage}).encode()


def completion(usage: dict[str, Any] | None) -> bytes:
    """A plain reply."""
    message = {"role": "assistant", "content": "ok"}
    made: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    made["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
    if usage is not None:
        made["usage"] = usage
    return json.dumps(made).encode()


def error(status: int) -> bytes:
    """The body of an error."""
    return json.dumps({"error": {"message": f"told to answer {status}", "code": "told"}}).encode()


class _Connection(asyncio.Protocol):
    """One connection: requests one after another, each answered as it asks."""

    def __init__(self, upstream: CountingUpstream) -> None:
        self._upstream = upstream
        self._buffer = b""
        self._wire: asyncio.Transport
        self._pacing: asyncio.TimerHandle | None = None
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("asyncio.Transport", transport)
        self._upstream.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.open -= 1
        self._is_busy(busy=False)
        if self._pacing is not None:
            self._pacing.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (body := self._next_body()) is not None:
            asked = self._upstream.take(body)
            self._is_busy(busy=True)
            answer: Callable[[Asked], None] = getattr(self, f"_{asked.kind}")
            answer(asked)

    def _is_busy(self, *, busy: bool) -> None:
        self._upstream.busy += busy - self._busy
        self._busy = busy

    def _next_body(self) -> bytes | None:
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return None
        at = head.lower().index(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return None
        self._buffer = rest[length:]
        return rest[:length]

    def _say(self, asked: Asked, body: bytes, status: int = 200) -> None:
        self._wire.write(JSON_HEAD % (status, asked.id.encode(), len(body)) + body)
        self._is_busy(busy=False)

    def _stream(self, asked: Asked, *frames: bytes, whole: bool = True) -> None:
        pieces = [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames]
        self._wire.write(SSE_HEAD % asked.id.encode() + b"".join(pieces) + (END if whole else b""))
        self._is_busy(busy=not whole)

    def _ok(self, asked: Asked) -> None:
        usage = self._upstream.usage(asked)
        if asked.stream:
            self._stream(asked, chunk("o"), chunk("k"), chunk(None, "stop"), usage_chunk(usage), DONE)
        else:
            self._say(asked, completion(usage))

    _no_total = _big_total = _ok

    def _no_usage(self, asked: Asked) -> None:
        self._upstream.of(asked.rollout).unmetered += 1
        if asked.stream:
            self._stream(asked, chunk("ok"), chunk(None, "stop"), DONE)
        else:
            self._say(asked, completion(None))

    def _cumulative(self, asked: Asked) -> None:
        """Usage on every chunk, each the figure so far; the last one counts."""
        so_far = [self._upstream.usage(asked, counted=place == 2) for place in range(3)]
        self._stream(asked, *(chunk("x", None, usage) for usage in so_far), chunk(None, "stop"), DONE)

    def _status_400(self, asked: Asked) -> None:
        self._say(asked, error(400), 400)

    def _status_500(self, asked: Asked) -> None:
        self._say(asked, error(500), 500)

    def _in_band(self, asked: Asked) -> None:
        """An error in the middle of a stream; as a plain reply, one under status 200."""
        if not asked.stream:
            self._say(asked, error(200))
            return
        self._upstream.of(asked.rollout).unmetered += 1
        self._stream(asked, chunk("x"), b"data: %b\n\n" % error(500), DONE)

    def _first_error(self, asked: Asked) -> None:
        self._stream(asked, b"data: %b\n\n" % error(429), DONE)

    def _cut(self, asked: Asked) -> None:
        self._upstream.of(asked.rollout).unmetered += 1
        self._stream(asked, chunk("x"), whole=False)
        self._wire.close()

    def _hang(self, asked: Asked) -> None:
        """No word at all: who asks must leave."""
        self._upstream.of(asked.rollout).unmetered += 1

    def _hang_plain(self, asked: Asked) -> None:
        """Half a plain reply, then silence."""
        self._upstream.of(asked.rollout).unmetered += 1
        self._wire.write(JSON_HEAD % (200, asked.id.encode(), 5000) + b'{"id":"c",')

    def _hang_midway(self, asked: Asked) -> None:
        """One chunk, then silence."""
        self._upstream.of(asked.rollout).unmetered += 1
        self._stream(asked, chunk("x"), whole=False)

    def _hang_counted(self, asked: Asked) -> None:
        """One chunk that tells its cost so far, then silence."""
        self._stream(asked, chunk("x", None, self._upstream.usage(asked)), whole=False)

    def _flaky(self, asked: Asked) -> None:
        """Fails once, then answers."""
        if asked.attempt == 1:
            self._status_500(asked)
        else:
            self._ok(asked)

    def _impatient(self, asked: Asked) -> None:
        """Hangs midway once, then answers."""
        if asked.attempt == 1:
            self._hang_midway(asked)
        else:
            self._ok(asked)

    def _slow(self, asked: Asked) -> None:
        """A stream whose chunks come one by one, or a plain reply that takes its time; counted when it is complete."""
        if asked.stream:
            self._wire.write(SSE_HEAD % asked.id.encode())
            frames = iter([chunk("o"), chunk("k"), chunk("!"), chunk(None, "stop")])
            self._pace(partial(self._next_frame, asked, frames))
        else:
            self._pace(partial(self._ok, asked))

    def _next_frame(self, asked: Asked, frames: Iterator[bytes]) -> None:
        frame = next(frames, None)
        if frame is None:
            last = usage_chunk(self._upstream.usage(asked)) + DONE
            self._wire.write(b"%x\r\n%b\r\n" % (len(last), last) + END)
            self._is_busy(busy=False)
            return
        self._wire.write(b"%x\r\n%b\r\n" % (len(frame), frame))
        self._pace(partial(self._next_frame, asked, frames))

    def _pace(self, go_on: Callable[[], None]) -> None:
        self._pacing = asyncio.get_running_loop().call_later(PACE_S, go_on)
