"""Amazon's event-stream framing: bytes to messages. Knows the frames and nothing of completions.

A frame: total length and header length (4 bytes each, big endian), CRC-32 of those 8 bytes, headers, payload, CRC-32 of
all before it. A header: length of its name (1 byte), name, type (1 byte), value; only text (7) is read here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

_PRELUDE: Final = 12
_LONGEST: Final = 16 * 1024 * 1024
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES, _TEXT = 6, 7


class FrameBroken(Exception):
    """The bytes are no event stream."""


class Frame(msgspec.Struct, frozen=True):
    """One message: its text headers, and its payload."""

    headers: dict[str, str]
    payload: bytes


class FrameSplitter:
    """Collects bytes and gives out frames as they are complete."""

    def __init__(self) -> None:
        self._pending = bytearray()

    @property
    def torn(self) -> bool:
        """Whether half a frame is waiting for the rest."""
        return bool(self._pending)

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """The frames that end within `piece`, one by one; raises `FrameBroken` behind the last one that is whole."""
        self._pending += piece
        while len(self._pending) >= _PRELUDE:
            total = int.from_bytes(self._pending[:4])
            if not 16 <= total <= _LONGEST or zlib.crc32(self._pending[:8]) != int.from_bytes(
                self._pending[8:12]
            ):
                raise FrameBroken("a frame's lengths are damaged")
            if len(self._pending) < total:
                return
            frame = _frame(bytes(self._pending[:total]))
            del self._pending[:total]
            yield frame


def _frame(raw: bytes) -> Frame:
    if zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:]):
        raise FrameBroken("a frame is damaged")
    end = _PRELUDE + int.from_bytes(raw[4:8])
    if end > len(raw) - 4:
        raise FrameBroken("a frame's headers are longer than the frame")
    return Frame(_headers(raw[_PRELUDE:end]), raw[end:-4])


def _headers(raw: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    place = 0
    while place < len(raw):
        name_end = place + 1 + raw[place]
        if name_end >= len(raw):
            raise FrameBroken("a header is cut short")
        name, kind = raw[place + 1 : name_end].decode("utf-8", "replace"), raw[name_end]
        start = name_end + 1
        if kind in (_BYTES, _TEXT):
            size = int.from_bytes(raw[start : start + 2])
            start += 2
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise FrameBroken("a header's type is unknown")
        if start + size > len(raw):
            raise FrameBroken("a header is cut short")
        if kind == _TEXT:
            found[name] = raw[start : start + size].decode("utf-8", "replace")
        place = start + size
    return found


def encode_frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One frame."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + bytes([_TEXT]) + len(value.encode()).to_bytes(2) + value.encode()
        for name, value in headers.items()
    )
    prelude = (16 + len(head) + len(payload)).to_bytes(4) + len(head).to_bytes(4)
    front = prelude + zlib.crc32(prelude).to_bytes(4) + head + payload
    return front + zlib.crc32(front).to_bytes(4)
