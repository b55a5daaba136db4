"""Event-stream frames that are whole by their checksums and yet none: broken, and nothing worse."""

from __future__ import annotations

import itertools
import random
import zlib

import pytest

from osmosis_bridge.native.eventstream import Frame, FrameBroken, FrameSplitter, encode_frame
from osmosis_bridge.native.witness import Witness


def checked(headers: bytes, payload: bytes = b"{}", *, header_length: int | None = None) -> bytes:
    """A frame whose checksums are right, whatever its headers hold."""
    length = len(headers) if header_length is None else header_length
    prelude = (16 + len(headers) + len(payload)).to_bytes(4) + length.to_bytes(4)
    front = prelude + zlib.crc32(prelude).to_bytes(4) + headers + payload
    return front + zlib.crc32(front).to_bytes(4)


BROKEN = {
    "a name beyond the headers": checked(b"\x09ab"),
    "no type": checked(b"\x02ab"),
    "no length": checked(b"\x02ab\x07\x00"),
    "a text beyond the headers": checked(b"\x02ab\x07\x00\x09x"),
    "a number cut short": checked(b"\x02ab\x05\x00"),
    "a type that is unknown": checked(b"\x02ab\x63"),
    "headers longer than the frame": checked(b"", header_length=1_000_000),
    "headers that reach into the checksum": checked(b"", b"", header_length=2),
}


@pytest.mark.parametrize("name", BROKEN)
def test_headers_that_are_none_are_broken_and_told_as_such(name: str) -> None:
    with pytest.raises(FrameBroken):
        list(FrameSplitter().feed(BROKEN[name]))
    witness = Witness("converse")
    witness.feed(BROKEN[name])
    witness.end()
    assert witness.broken is not None
    assert witness.broken.startswith("the provider's stream is broken: ")
    assert not witness.ended


@pytest.mark.parametrize("total", [0, 15, 16 * 1024 * 1024 + 1, 2**32 - 1])
def test_a_length_that_cannot_be_is_broken_before_it_is_waited_for(total: int) -> None:
    prelude = total.to_bytes(4) + bytes(4)
    with pytest.raises(FrameBroken):
        list(FrameSplitter().feed(prelude + zlib.crc32(prelude).to_bytes(4)))


def test_frames_are_the_same_wherever_the_bytes_are_cut() -> None:
    frames = [({":event-type": "ä"}, b""), ({}, b'{"a":1}'), ({"x": "y" * 300}, bytes(range(256)))]
    stream = b"".join(encode_frame(headers, payload) for headers, payload in frames)
    expected = [Frame(headers, payload) for headers, payload in frames]
    for one, other in itertools.combinations(range(0, len(stream), 7), 2):
        splitter = FrameSplitter()
        pieces = (stream[:one], stream[one:other], stream[other:])
        assert [frame for piece in pieces for frame in splitter.feed(piece)] == expected
        assert not splitter.torn


def test_no_bytes_are_worse_than_broken() -> None:
    chance = random.Random(7)
    whole = encode_frame({":event-type": "messageStop"}, b'{"stopReason":"end_turn"}')
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        witness = Witness("converse")
        witness.feed(bytes(damaged[: chance.randint(1, len(damaged))]))
        witness.end()
