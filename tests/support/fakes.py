"""Fakes that many tests share: an upstream that follows a script, a ledger that can refuse, a client that takes notes.

Every fake gives way once per wait (`asyncio.sleep(0)`), so that a test can stop the code at any of its waits.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from structlog.testing import CapturingLogger
from structlog.typing import FilteringBoundLogger

from osmosis_bridge.accounts import Accounts
from osmosis_bridge.call import Admitted, Call
from osmosis_bridge.entry import Headers
from osmosis_bridge.errors import LedgerFailed
from osmosis_bridge.ledger import Ledger, Trouble
from osmosis_bridge.policy import Policy
from osmosis_bridge.redact import Redactor
from osmosis_bridge.serve import Bridge, Target
from osmosis_bridge.upstream import Endpoint, TransportError

SSE = ((b"content-type", b"text/event-stream"),)
JSON = ((b"content-type", b"application/json"),)
FOREVER = "a piece that never comes"

Piece = bytes | TransportError | str


@dataclass
class Answer:
    """What the upstream does once: its head, then its body piece by piece; an error is raised, `FOREVER` waits."""

    pieces: Sequence[Piece] = ()
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = JSON


class FakeExchange:
    """One scripted reply being read."""

    def __init__(self, transport: FakeTransport, answer: Answer) -> None:
        self.status = answer.status
        self.headers = list(answer.headers)
        self._pieces = list(answer.pieces)
        self._transport = transport
        self._open = True

    def header(self, name: bytes) -> bytes | None:
        return next((value for given, value in self.headers if given == name), None)

    async def chunk(self) -> bytes:
        await self._transport.step()
        piece = self._pieces[0] if self._pieces else b""
        if piece == FOREVER:
            await asyncio.Event().wait()
        self._pieces = self._pieces[1:]
        if isinstance(piece, TransportError):
            raise piece
        return piece if isinstance(piece, bytes) else b""

    async def pour(self, take: Callable[[bytes], bool]) -> bool:
        while piece := await self.chunk():
            if not take(piece):
                return True
        return False

    async def whole(self, limit: int) -> bytes:
        body = b""
        while piece := await self.chunk():
            body += piece
        if len(body) > limit:
            raise TransportError("too_large", "more than the caller would take")
        return body

    def close(self) -> None:
        if self._open:
            self._open = False
            self._transport.open_exchanges -= 1


class FakeTransport:
    """Answers in the order of its script, the last answer again and again; `fail_at` breaks the k-th wait of all."""

    def __init__(self, *answers: Answer | TransportError, fail_at: int | None = None) -> None:
        self.answers = list(answers)
        self.fail_at = fail_at
        self.steps = 0
        self.open_exchanges = 0
        self.sent: list[dict[str, Any]] = []

    async def step(self) -> None:
        self.steps += 1
        await asyncio.sleep(0)
        if self.steps == self.fail_at:
            raise TransportError("cut", "the connection was reset")

    async def open(
        self,
        method: bytes,
        endpoint: Endpoint,
        path: bytes,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        queue: str = "",
    ) -> FakeExchange:
        self.sent.append(
            {
                "target": endpoint.target(path),
                "headers": dict(headers),
                "body": body,
                "method": method,
                "queue": queue,
            }
        )
        await self.step()
        answer = self.answers[min(len(self.sent), len(self.answers)) - 1]
        if isinstance(answer, TransportError):
            raise answer
        self.open_exchanges += 1
        return FakeExchange(self, answer)

    async def close(self) -> None:
        """Nothing is kept open between calls."""


class FakeLedger:
    """Keeps lines in memory; refuses the `fail_at`-th append, or all from `fail_from` on, until it is mended."""

    def __init__(self, fail_at: int | None = None, fail_from: int | None = None) -> None:
        self.fail_at = fail_at
        self.fail_from = fail_from
        self.appends = self.syncs = 0
        self.lines: list[bytes] = []
        self.waiting: list[bytes] = []
        self.trouble: Trouble | None = None

    @property
    def held(self) -> int:
        return len(self.waiting)

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def append(self, line: bytes) -> None:
        self.appends += 1
        if self.appends == self.fail_at or self.appends >= (self.fail_from or self.appends + 1):
            self.trouble = Trouble("calls.jsonl", "cannot be written: no space left", "make room")
            raise LedgerFailed(str(self.trouble), code="ledger_unavailable")
        self.mend()
        self.lines.append(line)

    def hold(self, line: bytes, *, admitted: bool) -> bool:
        self.waiting.append(line)
        return True

    def mend(self) -> None:
        """Write what waits, as the ledger does once it can."""
        self.lines += self.waiting
        self.waiting, self.trouble, self.fail_from = [], None, None

    async def sync(self) -> None:
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise LedgerFailed(str(self.trouble), code="ledger_unavailable", status=503)
        self.syncs += 1

    async def close(self) -> None:
        await self.sync()


@dataclass
class FakeReply:
    """What a client saw: status, headers, the pieces in order; `ended` once the reply is complete."""

    started: bool = False
    ended: bool = False
    status: int | None = None
    headers: dict[bytes, bytes] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        await self.start(status, headers)
        await self.end(body)

    async def start(self, status: int, headers: Headers) -> None:
        assert not self.started, "a reply begins once"
        self.started, self.status, self.headers = True, status, dict(headers)
        await asyncio.sleep(0)

    async def send(self, piece: bytes) -> None:
        assert self.started, "nothing is sent before the head"
        assert not self.ended, "nothing follows the end"
        self.pieces.append(piece)
        await asyncio.sleep(0)

    def push(self, piece: bytes) -> bool:
        """Every other piece is waited for."""
        if len(self.pieces) % 2:
            return False
        assert self.started, "nothing is sent before the head"
        assert not self.ended, "nothing follows the end"
        self.pieces.append(piece)
        return True

    async def end(self, piece: bytes) -> None:
        await self.send(piece)
        self.ended = True


def sse(*data: object, done: bool = True) -> bytes:
    """Events of JSON data, and `[DONE]`."""
    frames = [b"data: " + json.dumps(item).encode() + b"\n\n" for item in data]
    return b"".join(frames) + (b"data: [DONE]\n\n" if done else b"")


def delta(content: str | None = None, finish: str | None = None, **fields: object) -> dict[str, object]:
    """One chunk of a chat completion."""
    choice = {"index": 0, "delta": {} if content is None else {"content": content}, "finish_reason": finish}
    return {"id": "c-1", "object": "chat.completion.chunk", "model": "up/real", "choices": [choice], **fields}


def completion(content: str = "56", **fields: object) -> bytes:
    """A plain chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps(
        {"id": "c-1", "object": "chat.completion", "model": "up/real", "choices": [choice], **fields}
    ).encode()


def request(**fields: object) -> bytes:
    """The body of a chat request."""
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "7 times 8?"}], **fields}
    ).encode()


def a_call(body: bytes, rollout_id: str = "r-1", **fields: Any) -> Call:
    """A call that just came in."""
    return Call(
        call_id="call-1", rollout_id=rollout_id, seq=1, started_at=1_700_000_000.0, received=0.0, dialect="chat",
        body=body, **fields,
    )  # fmt: skip


def admitted(alias: str = "m", *, stream: bool = True, usage_asked: bool = False) -> Admitted:
    """A call that was admitted."""
    return Admitted(alias, json.dumps(alias).encode(), stream, usage_asked, b"{}", (), ())


def a_log(kept: CapturingLogger | None = None) -> FilteringBoundLogger:
    """A logger that writes nothing; `kept.calls` holds what it was told."""
    return structlog.wrap_logger(
        kept or CapturingLogger(), processors=[], wrapper_class=structlog.make_filtering_bound_logger("info")
    )


def a_bridge(transport: FakeTransport, ledger: Ledger | None = None, **fields: Any) -> Bridge:
    """A bridge on fakes; its clock stands still at 0 and its log is silent."""
    target = Target(
        provider="fake", model="up/real", endpoint=Endpoint.parse("http://127.0.0.1:9/v1"),
        plain_headers=((b"accept", b"application/json"),), stream_headers=((b"accept", b"text/event-stream"),),
    )  # fmt: skip
    parts: dict[str, Any] = {
        "policy": Policy("up/real"),
        "accounts": Accounts(),
        "redactor": Redactor(["the-secret-key"], ["gpu-7.internal"]),
        "log": a_log(),
        "clock": lambda: 0.0,
        **fields,
    }
    return Bridge(
        target=parts.pop("target", target), transport=transport, ledger=ledger or FakeLedger(), **parts
    )
