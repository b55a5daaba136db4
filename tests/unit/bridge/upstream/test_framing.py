"""Where a reply ends, without a connection around it; `test_connection.py` holds the framing of whole exchanges."""

from __future__ import annotations

import asyncio

from fake_wire import wired
from osmosis_bridge.upstream.exchange import HttpExchange
from osmosis_bridge.upstream.framing import Framing

REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


def begun(method: bytes = b"POST") -> tuple[Framing, HttpExchange]:
    async def make() -> HttpExchange:
        return wired().ask()

    exchange = asyncio.run(make())
    framing = Framing()
    framing.begin(exchange, method)
    return framing, exchange


def test_nothing_is_read_before_a_request_or_after_the_end_of_the_connection() -> None:
    framing = Framing()
    assert framing.feed(REPLY) == "bytes came unasked"
    framing, _ = begun()
    framing.drop()
    assert framing.feed(REPLY) == "bytes came unasked"


def test_an_exchange_is_filled_and_the_connection_may_be_kept() -> None:
    framing, exchange = begun()
    assert not framing.began
    assert framing.feed(REPLY[:9]) is None
    assert framing.began
    assert framing.feed(REPLY[9:]) is None
    assert (exchange.status, exchange.pieces, exchange.ended, framing.keep) == (200, [b"hi"], True, True)


def test_bytes_after_the_end_spoil_only_the_connection() -> None:
    for more in (REPLY, b"H", b"nonsense"):
        framing, exchange = begun()
        assert framing.feed(REPLY + more) is None
        assert (exchange.pieces, exchange.ended, framing.keep) == ([b"hi"], True, False)


def test_a_head_alone_answers_head() -> None:
    framing, exchange = begun(b"HEAD")
    assert framing.feed(REPLY[:-2]) is None
    assert (exchange.ended, exchange.framed, framing.keep) == (True, True, False)


def test_what_comes_first_must_be_http() -> None:
    for junk in (b"\r\n" + REPLY, b"RTSP/1.0 200 OK\r\n", b"ICE/1.0 200 OK\r\n", b"\0"):
        framing, _ = begun()
        assert framing.feed(junk) == "the reply is not HTTP/1.1: it does not begin with 'HTTP/'"
