"""Server-sent events: bytes to events. Knows the framing and nothing of completions.

Rules for whoever edits this file: the events found do not depend on how the bytes were split into pieces
(`tests/properties/test_sse_split.py`), and the joined `raw` of all events equals the bytes that came in, a byte order
mark at the start, blank lines at the end and long runs of them excepted, so that a relay which passes every `raw` on
has changed nothing. Work is linear in the bytes, however small the pieces.

Framing after the HTML standard, section "server-sent events": lines end in LF, CRLF or CR; a blank line ends an event;
a line that begins with a colon is a comment; `data` lines of one event are joined with LF.
"""

from __future__ import annotations

import re

import msgspec

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLANK = re.compile(rb"(?:\n|\r(?!\n))[\r\n]")
_BLANKS_KEPT = 64


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event or comment block: its exact bytes, and what its fields say.

    `data` is None for a block without a data line (comments, ids, retry hints).
    """

    raw: bytes
    data: bytes | None
    name: bytes | None = None


class EventTooLarge(Exception):
    """An event grew beyond the limit without ending."""


class EventSplitter:
    """Collects bytes and gives out events as soon as they are complete.

    `limit` is the largest event in bytes; beyond it `feed` raises `EventTooLarge`.
    """

    __slots__ = ("_limit", "_pending", "_started")

    def __init__(self, limit: int = 16 * 1024 * 1024) -> None:
        self._pending = bytearray()
        self._limit = limit
        self._started = False

    @property
    def between(self) -> bool:
        """Whether the next byte begins an event."""
        return self._started and not self._pending

    def feed(self, piece: bytes) -> list[Event]:
        """The events that end within `piece`."""
        if self._pending:
            if self._started and not _may_end(bytes(self._pending[-1:]) + piece):
                # Most pieces of a large event come this way: what is pending is not read again for each.
                self._pending += piece
                self._check_size()
                return []
            piece = bytes(self._pending) + piece
            self._pending.clear()
        if not self._started:
            if len(piece) < len(_BOM) and _BOM.startswith(piece):
                self._pending += piece
                return []
            piece = piece.removeprefix(_BOM)
            self._started = True
        if b"\r" in piece or b"\n\n\n" in piece or piece.startswith(b"\n"):
            return self._feed_any(piece)
        *blocks, rest = piece.split(b"\n\n")
        self._keep(rest)
        return [parse_event(block + b"\n\n") for block in blocks]

    def finish(self) -> Event | None:
        """The event that the end of the stream left unterminated, if any; some servers end that way."""
        rest = bytes(self._pending)
        self._pending.clear()
        return parse_event(rest) if rest.strip(b"\r\n") else None

    def _feed_any(self, buffer: bytes) -> list[Event]:
        """The same for any mix of line ends, and for blank lines before an event, which belong to it.

        A CR at the very end counts at once; an LF that comes after it is a blank line like any other.
        """
        events: list[Event] = []
        start = line_start = 0
        content = False
        for match in _LINE_END.finditer(buffer):
            if match.start() > line_start:
                content = True
            elif content:
                events.append(parse_event(buffer[start : match.end()]))
                start = match.end()
                content = False
            line_start = match.end()
        self._keep(buffer[start:])
        return events

    def _keep(self, rest: bytes) -> None:
        if len(rest) > _BLANKS_KEPT and not rest.strip(b"\r\n"):
            return
        self._pending += rest
        self._check_size()

    def _check_size(self) -> None:
        if len(self._pending) > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")


def _may_end(text: bytes) -> bool:
    """Whether a line of `text` may be blank, and so end an event."""
    return (b"\n" in text or b"\r" in text) and _BLANK.search(text) is not None


def parse_event(raw: bytes) -> Event:
    """Read the fields of one block of bytes, its ending blank line included or not."""
    one_line = raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw
    if one_line and raw.startswith(b"data: ") and raw.endswith(b"\n\n"):
        return Event(raw, raw[6:-2])
    data: list[bytes] = []
    name: bytes | None = None
    for line in _LINE_END.split(raw):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return Event(raw, b"\n".join(data) if data else None, name)


def with_data(event: Event, data: bytes) -> bytes:
    """The bytes of `event` with other data; its other fields stay where they can."""
    if event.data is not None and event.raw.count(event.data) == 1:
        return event.raw.replace(event.data, data)
    head = b"" if event.name is None else b"event: " + event.name + b"\n"
    return head + encode_event(data)


def encode_event(data: bytes) -> bytes:
    """One event with `data`, which may hold line feeds."""
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


def comment(text: bytes = b"keep-alive") -> bytes:
    """A comment block; clients pass over it."""
    return b": " + text + b"\n\n"
