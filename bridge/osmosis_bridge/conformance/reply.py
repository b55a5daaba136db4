"""Bytes of a reply to a `Reply`: a tolerant reader of HTTP/1.1 and of event streams, without I/O.

It shares no code with the bridge. It reads whatever a proxy sends and judges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from osmosis_bridge.conformance.exact import Exact, at, items, members, parsed_or_none
from osmosis_bridge.conformance.packing import unpacked

End: TypeAlias = Literal["clean", "cut", "waiting"]
"""clean: the body ended as announced; cut: closed before; waiting: the deadline came first."""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    name: str
    data: str

    @property
    def json(self) -> Exact:
        """The data as exact JSON, None when it is not JSON."""
        return parsed_or_none(self.data)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the client saw of one exchange."""

    status: int
    """0 when no head came."""
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in order."""
    raw: bytes
    """All bytes of the connection, as they came."""
    body: bytes
    """The body, framing and content encoding undone."""
    end: End
    seconds: float = 0.0

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def is_stream(self) -> bool:
        """Whether it says that it is an event stream."""
        return (self.header("content-type") or "").lower().startswith("text/event-stream")

    @property
    def json(self) -> Exact:
        """The body as exact JSON, None when it is not JSON."""
        return parsed_or_none(self.body)

    def events(self) -> list[Event]:
        """The complete events of the body that carry data."""
        return read_events(self.body)

    def payloads(self) -> list[Exact]:
        """The JSON of every event but `[DONE]`."""
        return [event.json for event in self.events() if event.data.strip() != "[DONE]"]

    @property
    def done(self) -> bool:
        """Whether `[DONE]` came."""
        return any(event.data.strip() == "[DONE]" for event in self.events())

    def errors(self) -> list[dict[str, Exact]]:
        """The error objects that an OpenAI client would raise: `error` of a data payload, or of the body."""
        found = [at(payload, "error") for payload in (self.payloads() if self.is_stream else [self.json])]
        return [members(error) for error in found if members(error)]

    def content(self, index: int = 0) -> str:
        """The text of one choice, streamed or not."""
        if not self.is_stream:
            texts = [at(self.json, "choices", index, "message", "content")]
        else:
            texts = [at(choice, "delta", "content") for choice in self.choices(index)]
        return "".join(text for text in texts if isinstance(text, str))

    def choices(self, index: int = 0) -> list[Exact]:
        """The choices of every chunk, or of the completion, that have this index."""
        listed = [c for p in self.payloads() if p for c in items(at(p, "choices"))]
        if not self.is_stream:
            listed = items(at(self.json, "choices"))
        return [choice for choice in listed if _index(choice) == index]

    def finishes(self, index: int = 0) -> list[Exact]:
        """The finish reasons that were given for a choice, null left out."""
        reasons = [at(choice, "finish_reason") for choice in self.choices(index)]
        return [reason for reason in reasons if reason is not None]


def _index(choice: Exact) -> int:
    text = getattr(at(choice, "index"), "text", "0")
    return int(text) if str(text).isdigit() else 0


def read_events(body: bytes) -> list[Event]:
    """Events as the HTML standard reads them: LF, CRLF and CR end a line, and nothing else does."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: list[Event] = []
    name, data = "", list[str]()
    for line in lines[:-1]:
        if not line:
            if data:
                found.append(Event(name, "\n".join(data)))
            name, data = "", []
            continue
        key, _, value = line.partition(":")
        if key == "data":
            data.append(value.removeprefix(" "))
        elif key == "event":
            name = value.removeprefix(" ")
    return found


@dataclass(slots=True)
class ReplyReader:
    """Fed the bytes of a connection, tells when a reply is complete."""

    raw: bytearray = field(default_factory=bytearray)
    body: bytearray = field(default_factory=bytearray)
    """Framing undone, encoding not."""
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    interim: int = 0
    """How many 1xx heads came first."""
    complete: bool = False
    bodiless: bool = False
    """Whether no body can follow, as in reply to HEAD."""
    _rest: bytearray = field(default_factory=bytearray)
    _left: int | None = None
    """Bytes left of a body or chunk; None: until close."""
    _chunked: bool = False

    def feed(self, data: bytes) -> None:
        """Take bytes as they came."""
        self.raw += data
        self._rest += data
        while not self.complete and self._advance():
            pass

    def reply(self, end: End, seconds: float = 0.0) -> Reply:
        """What was seen, with the encoding undone as far as it can be."""
        decoded = unpacked(bytes(self.body), dict(self.headers).get("content-encoding", ""))
        if end == "cut" and self._left is None and not self._chunked and self.status:
            end = "clean"
        return Reply(self.status, self.headers, bytes(self.raw), decoded, end, seconds)

    def _advance(self) -> bool:
        if not self.status:
            return self._read_head()
        if self._chunked and self._left is None:
            return self._read_chunk_size()
        return self._read_body()

    def _read_head(self) -> bool:
        head, found, rest = bytes(self._rest).partition(b"\r\n\r\n")
        if not found:
            return False
        self._rest = bytearray(rest)
        lines = head.split(b"\r\n")
        words = lines[0].split(b" ", 2)
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if 100 <= status < 200:
            self.interim += 1
            return True
        self.status = status
        pairs = (line.partition(b":") for line in lines[1:])
        self.headers = tuple(
            (k.strip().lower().decode("latin-1"), v.strip().decode("latin-1")) for k, _, v in pairs
        )
        self._frame()
        return bool(status)

    def _frame(self) -> None:
        fields = dict(self.headers)
        self._chunked = "chunked" in fields.get("transfer-encoding", "").lower() and not self.bodiless
        length = fields.get("content-length")
        if self._chunked:
            return
        if self.bodiless or self.status in {204, 304} or length == "0":
            self.complete = True
        elif length is not None and length.isdigit():
            self._left = int(length)

    def _read_chunk_size(self) -> bool:
        line, found, rest = bytes(self._rest).partition(b"\r\n")
        if not found:
            return False
        size = int(line.split(b";")[0], 16)
        if size == 0:
            self.complete = rest.startswith(b"\r\n") or b"\r\n\r\n" in rest
            return False
        self._rest = bytearray(rest)
        self._left = size + 2
        return True

    def _read_body(self) -> bool:
        if not self._rest:
            return False
        if self._left is None:
            self.body += self._rest
            self._rest.clear()
            return False
        taken = bytes(self._rest[: self._left])
        del self._rest[: self._left]
        self._left -= len(taken)
        self.body += taken
        if self._left > 0:
            return False
        if self._chunked:
            del self.body[-2:]
            self._left = None
        else:
            self.complete = True
        return True
