"""Amazon's event-stream framing."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.eventstream import Frame, FrameBroken, FrameSplitter, encode_frame

ONE = encode_frame({":event-type": "a", ":message-type": "event"}, b'{"x":1}')
TWO = encode_frame({}, b"")


def test_frames_do_not_depend_on_how_the_bytes_are_split() -> None:
    whole = list(FrameSplitter().feed(ONE + TWO))
    assert whole == [Frame({":event-type": "a", ":message-type": "event"}, b'{"x":1}'), Frame({}, b"")]
    for size in (1, 3, 7, 16):
        splitter, found = FrameSplitter(), []
        for place in range(0, len(ONE + TWO), size):
            found += splitter.feed((ONE + TWO)[place : place + size])
        assert found == whole
        assert not splitter.torn


def test_half_a_frame_is_torn() -> None:
    splitter = FrameSplitter()
    assert list(splitter.feed(ONE[:-1])) == []
    assert splitter.torn


@pytest.mark.parametrize("place", range(0, len(ONE), 5))
def test_a_damaged_frame_is_broken(place: int) -> None:
    damaged = bytearray(ONE)
    damaged[place] ^= 0x40
    with pytest.raises(FrameBroken):
        list(FrameSplitter().feed(bytes(damaged) + TWO))


def test_frames_that_are_whole_come_before_a_broken_one_of_the_same_piece() -> None:
    damaged = bytearray(ONE)
    damaged[-1] ^= 0x40
    found: list[Frame] = []
    with pytest.raises(FrameBroken):
        found.extend(FrameSplitter().feed(ONE + TWO + bytes(damaged)))
    assert found == [Frame({":event-type": "a", ":message-type": "event"}, b'{"x":1}'), Frame({}, b"")]


def test_headers_of_other_types_are_passed_over() -> None:
    import zlib

    headers = b"\x01t\x00" + b"\x01i\x04" + b"\x00\x00\x00\x07" + b"\x01n\x07\x00\x01v"
    prelude = (16 + len(headers)).to_bytes(4) + len(headers).to_bytes(4)
    front = prelude + zlib.crc32(prelude).to_bytes(4) + headers
    assert list(FrameSplitter().feed(front + zlib.crc32(front).to_bytes(4))) == [Frame({"n": "v"}, b"")]
