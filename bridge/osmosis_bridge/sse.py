"""Server-sent events: bytes to events. Knows the framing and nothing of completions.

Rules for whoever edits this file: the events found do not depend on how the bytes were split into pieces
(`tests/properties/test_sse_split.py`), and the joined `raw` of all events equals the bytes that came in, a byte order
mark at the start and blank lines at the end excepted, so that a relay which passes every `raw` on has changed nothing.

Framing after the HTML standard, section "server-sent events": lines end in LF, CRLF or CR; a blank line ends an event;
a line that begins with a colon is a comment; `data` lines of one event are joined with LF.
"""

from __future__ import annotations

import re

import msgspec

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


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

    __slots__ = ("_buffer", "_limit", "_started")

    def __init__(self, limit: int = 16 * 1024 * 1024) -> None:
        self._buffer = b""
        self._limit = limit
        self._started = False

    def feed(self, piece: bytes) -> list[Event]:
        """The events that end within `piece`."""
        buffer = self._buffer + piece if self._buffer else piece
        if not self._started:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._buffer = buffer
                return []
            buffer = buffer.removeprefix(_BOM)
            self._started = True
        if b"\r" in buffer or b"\n\n\n" in buffer or buffer.startswith(b"\n"):
            return self._feed_any(buffer)
        *blocks, rest = buffer.split(b"\n\n")
        self._keep(rest)
        return [parse_event(block + b"\n\n") for block in blocks]

    def finish(self) -> Event | None:
        """The event that the end of the stream left unterminated, if any; some servers end that way."""
        rest, self._buffer = self._buffer, b""
        return parse_event(rest) if rest.strip(b"\r\n") else None

    def _feed_any(self, buffer: bytes) -> list[Event]:
        """The same for any mix of line ends, and for blank lines before an event, which belong to it.

        A CR at the very end counts at once; an LF that comes after it is a blank line like any other.
        """
        events: list[Event] = []
        start = line_start = 0
        for match in _LINE_END.finditer(buffer):
            blank = match.start() == line_start
            line_start = match.end()
            if blank and buffer[start : match.start()].strip(b"\r\n"):
                events.append(parse_event(buffer[start:line_start]))
                start = line_start
        self._keep(buffer[start:])
        return events

    def _keep(self, rest: bytes) -> None:
        if len(rest) > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")
        self._buffer = rest


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


def encode_event(data: bytes) -> bytes:
    """One event with `data`, which may hold line feeds."""
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


def comment(text: bytes = b"keep-alive") -> bytes:
    """A comment block; clients pass over it."""
    return b": " + text + b"\n\n"
