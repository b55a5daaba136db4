"""The tolerant reader: replies however they are framed and split, and what of them counts as an answer."""

from __future__ import annotations

import pytest

from osmosis_bridge.conformance.packing import gzipped
from osmosis_bridge.conformance.reply import Event, Reply, ReplyReader, read_events

BODY = b'{"choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}]}'
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-A:  b \r\n\r\n" % len(BODY) + BODY
CHUNKS = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5\r\n"
    + BODY[:5]
    + b"\r\n%X;x=y\r\n" % (len(BODY) - 5)
    + BODY[5:]
    + b"\r\n0\r\n\r\n"
)


def read(wire: bytes, size: int) -> ReplyReader:
    reader = ReplyReader()
    for start in range(0, len(wire), size):
        reader.feed(wire[start : start + size])
    return reader


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("wire", [LENGTH, CHUNKS])
def test_a_reply_is_read_however_it_is_split(wire: bytes, size: int) -> None:
    reader = read(wire, size)
    assert reader.complete
    reply = reader.reply("clean")
    assert (reply.status, reply.body, reply.raw) == (200, BODY, wire)
    assert reply.content() == "hello"
    assert reply.finishes() == ["stop"]


def test_headers_are_found_by_their_lower_name() -> None:
    reply = read(LENGTH, 100).reply("clean")
    assert reply.header("x-a") == "b"
    assert reply.header("x-b") is None


def test_interim_replies_come_before_the_one_that_counts() -> None:
    reader = read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\na: b\r\n\r\n" + LENGTH, 9)
    assert reader.complete
    assert reader.interim == 2
    assert reader.status == 200


@pytest.mark.parametrize("wire", [LENGTH[:-1], CHUNKS[:-5]])
def test_a_body_that_stops_early_is_cut(wire: bytes) -> None:
    reader = read(wire, 50)
    assert not reader.complete
    assert reader.reply("cut").end == "cut"


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    assert read(b"HTTP/1.1 200 OK\r\n\r\n" + BODY, 9).reply("cut").end == "clean"


def test_nothing_at_all_is_no_reply() -> None:
    reply = ReplyReader().reply("cut")
    assert (reply.status, reply.end) == (0, "cut")


@pytest.mark.parametrize("head", [b"HTTP/1.1 204 x\r\n\r\n", b"HTTP/1.1 400 x\r\ncontent-length: 0\r\n\r\n"])
def test_a_reply_that_cannot_have_a_body_is_complete_with_its_head(head: bytes) -> None:
    assert read(head, 3).complete


def test_a_reply_to_head_is_complete_with_its_head() -> None:
    reader = ReplyReader(bodiless=True)
    reader.feed(b"HTTP/1.1 405 x\r\ncontent-length: 50\r\n\r\n")
    assert reader.complete


def test_a_packed_body_is_unpacked() -> None:
    packed = gzipped(BODY)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
    assert read(head + packed, 11).reply("clean").body == BODY


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: a\n\n", [Event("", "a")]),
        (b"data:a\r\n\r\ndata: b\r\rdata: c\n\n", [Event("", "a"), Event("", "b"), Event("", "c")]),
        (b"data: a\ndata:  b\n\n", [Event("", "a\n b")]),
        (b"event: error\nid: 1\n: note\ndata: a\nretry: 3\nfoo\n\n", [Event("error", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event("", "a")]),
        ("data: a\u2028b\u0085c\n\n".encode(), [Event("", "a\u2028b\u0085c")]),
        (b"data: half", []),
        (b"data: half\n", []),
        (b": only notes\n\n", []),
    ],
)
def test_events_are_read_as_the_standard_says(text: bytes, events: list[Event]) -> None:
    assert read_events(text) == events


def stream(*payloads: str) -> Reply:
    body = "".join(f"data: {payload}\n\n" for payload in payloads).encode()
    return Reply(200, (("content-type", "text/event-stream"),), body, body, "clean")


def test_a_stream_is_put_together_by_choice() -> None:
    reply = stream(
        '{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}',
        '{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"length"}]}',
        '{"choices":[{"index":0,"delta":{"content":"c"},"finish_reason":"stop"}]}',
        "[DONE]",
    )
    assert (reply.content(), reply.content(1)) == ("ac", "b")
    assert (reply.finishes(), reply.finishes(1)) == (["stop"], ["length"])
    assert reply.done
    assert len(reply.payloads()) == 3


def test_only_an_error_object_is_one_that_a_client_raises() -> None:
    assert stream('{"error":{"message":"x"}}').errors() == [{"message": "x"}]
    assert stream('{"error":"x"}', '{"error":null}', '{"object":"error","message":"x"}').errors() == []
    assert Reply(400, (), b"", b'{"error":{"message":"x"}}', "clean").errors() == [{"message": "x"}]
