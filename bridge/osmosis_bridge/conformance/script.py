"""What a scripted upstream does with one request, byte by byte.

A script is a list of steps and an ending. Nothing here waits or sends; `upstream.py` plays it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from osmosis_bridge.conformance.upstream import Received

Header: TypeAlias = tuple[str, str]
Ending: TypeAlias = Literal["keep", "close", "reset"]
"""keep: the connection waits for its next request; close: FIN; reset: RST."""
Framing: TypeAlias = Literal["chunked", "close", "length"]
"""How the end of a body is told: chunked, by closing, by content-length."""


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes at once; a function is given what was received."""

    data: bytes | Callable[[Received], bytes]


@dataclass(frozen=True, slots=True)
class Drip:
    """Write these bytes one at a time, each in a segment of its own."""

    data: bytes
    every: float = 0.0005


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Until:
    """Wait until the client has received `marker`: cause and effect, no clock.

    When it does not come in `seconds`, the exchange is marked late and goes on.
    """

    marker: bytes
    seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Hold:
    """Stay silent until the peer closes, at most this many seconds."""

    seconds: float = 6.0


Step: TypeAlias = Send | Drip | Pause | Until | Hold


@dataclass(frozen=True, slots=True)
class Script:
    """Steps played in order for one request, then the ending."""

    steps: tuple[Step, ...]
    end: Ending = "keep"
    stubborn: bool = False
    """Whether an event stream is played also to a request that asked for none."""

    @property
    def is_stream(self) -> bool:
        """Whether it is a 200 that says that it is an event stream."""
        sends = [step.data for step in self.steps if isinstance(step, Send | Drip)]
        return any(
            isinstance(data, bytes) and data.startswith(b"HTTP/1.1 200") and b"text/event-stream" in data
            for data in sends
        )


def head(status: int, *headers: Header, reason: str = "Scripted") -> bytes:
    """The head of a reply, headers as given and none added."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def chunked(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def plain(
    body: str | bytes,
    status: int = 200,
    *headers: Header,
    content_type: str = "application/json",
    end: Ending = "keep",
) -> Script:
    """A whole reply with a content-length; `content_type=""` leaves that header out."""
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    typed = (("Content-Type", content_type),) if content_type else ()
    start = head(status, *typed, ("Content-Length", str(len(data))), *headers)
    return Script((Send(start + data),), end)


def echoing(text: Callable[[Received], str], status: int, *headers: Header) -> Script:
    """A whole JSON reply whose body is written from what was received."""

    def reply(received: Received) -> bytes:
        data = text(received).encode()
        start = head(
            status, ("Content-Type", "application/json"), ("Content-Length", str(len(data))), *headers
        )
        return start + data

    return Script((Send(reply),))


def raw(*steps: bytes | Step, end: Ending = "close") -> Script:
    """Exactly these bytes and steps."""
    return Script(tuple(Send(step) if isinstance(step, bytes) else step for step in steps), end)


def stream(
    *frames: bytes | Step,
    framing: Framing = "chunked",
    end: Ending | None = None,
    whole: bool = True,
    headers: Sequence[Header] = (),
) -> Script:
    """A 200 event stream; each frame is a chunk of its own.

    `whole=False` leaves out what would say that the body is complete: the last chunk, or with
    `framing="length"` ten bytes of what was announced.
    """
    sent = [frame for frame in frames if isinstance(frame, bytes)]
    fields: list[Header] = list(headers)
    if not any(name.lower() == "content-type" for name, _ in fields):
        fields.append(("Content-Type", "text/event-stream; charset=utf-8"))
    if framing == "chunked":
        fields.append(("Transfer-Encoding", "chunked"))
    elif framing == "length":
        fields.append(("Content-Length", str(sum(map(len, sent)) + (0 if whole else 10))))
    else:
        fields.append(("Connection", "close"))
    steps: list[Step] = [Send(head(200, *fields))]
    steps += [_framed(frame, framing) for frame in frames]
    if framing == "chunked" and whole:
        steps.append(Send(LAST_CHUNK))
    natural: Ending = "keep" if whole and framing != "close" else "close"
    return Script(tuple(steps), end or natural)


def _framed(frame: bytes | Step, framing: Framing) -> Step:
    if not isinstance(frame, bytes):
        return frame
    return Send(chunked(frame) if framing == "chunked" else frame)


def data(payload: str | bytes) -> bytes:
    """One SSE event of one data line."""
    text = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
    return b"data: " + text + b"\n\n"


DONE = data("[DONE]")
