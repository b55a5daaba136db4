"""Where a reply begins and ends in a stream of bytes, and whether another may follow it.

Pure: bytes are fed in, an exchange is filled, a problem comes back as a sentence. Knows HTTP/1.1's replies by way of
httptools (llhttp, with none of its leniencies on) and the limits set here; knows nothing of sockets or of time.
"""

from __future__ import annotations

from typing import Final

import httptools

from osmosis_bridge.upstream.exchange import HttpExchange

__all__ = ["HEADER_COUNT_LIMIT", "HEAD_LIMIT", "Framing"]

HEAD_LIMIT: Final = 64 * 1024
"Most bytes of a reply's head; also of all else that is not body between two pieces of it (extensions, trailers)."
HEADER_COUNT_LIMIT: Final = 200
_TELLING: Final = frozenset({b"content-length", b"content-encoding", b"transfer-encoding"})
_TOO_LONG: Final = f"the reply has more than {HEAD_LIMIT} bytes of headers or framing"
_SWITCHED: Final = "the upstream switched to another protocol unasked"


class Framing:
    """The replies of one connection, one after another; the parser's callbacks run inside `feed`."""

    __slots__ = ("_exchange", "_method", "_parser", "_quiet", "began", "keep")

    def __init__(self) -> None:
        self.began = False
        "Whether any byte came since the last request."
        self.keep = False
        "Once the reply has ended: whether the connection can be used again, for all the bytes so far say."
        self._exchange: HttpExchange | None = None
        self._method = b""
        self._quiet = 0
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def begin(self, exchange: HttpExchange, method: bytes) -> None:
        """A request was sent; what comes next fills this exchange."""
        self._exchange = exchange
        self._method = method
        self._quiet = 0
        self.began = self.keep = False

    def drop(self) -> None:
        """No more will be fed. Parser and framing hold each other; this frees both without a collection."""
        self._parser = self._exchange = None

    def feed(self, data: bytes) -> str | None:
        """Read on; returns what is wrong with the reply, if anything is."""
        exchange, parser = self._exchange, self._parser
        if exchange is None or parser is None:
            return "bytes came unasked"
        if not self.began:
            self.began = True
            # The parser reads RTSP and ICE too, and skips empty lines.
            if data[:1] != b"H":
                return "the reply is not HTTP/1.1: it does not begin with 'HTTP/'"
        quiet = self._quiet = self._quiet + len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return _SWITCHED
        except httptools.HttpParserError as error:
            # Bytes after a whole reply spoil the connection and not the reply.
            self.keep = False
            return None if exchange.ended else f"the reply is not HTTP/1.1: {error}"
        if quiet > HEAD_LIMIT and self._quiet == quiet and not exchange.ended:
            return _TOO_LONG
        return None

    def on_message_begin(self) -> None:
        """See a second reply where one was asked for."""
        if self._exchange is not None and self._exchange.ended:
            self.keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header."""
        exchange = self._exchange
        if exchange is None or exchange.started:  # a trailer
            return
        name = name.lower()
        value = value.rstrip()
        exchange.headers.append((name, value))
        if name in _TELLING:
            _note(exchange, name, value)

    def on_headers_complete(self) -> None:
        """Judge the head and hand it out, unless it is an interim one."""
        exchange, parser = self._exchange, self._parser
        if exchange is None or parser is None or exchange.started:
            return
        status = parser.get_status_code()
        if problem := self._head_problem(exchange, status, parser.get_http_version()):
            exchange.fail("malformed", problem)
        elif status < 200:
            # An interim reply: the real one follows.
            exchange.headers.clear()
            exchange.codings = None
            exchange.framed = False
        elif exchange.failure is None:
            exchange.status = status
            if self._method == b"HEAD" or status in (204, 304):
                exchange.framed = True
                exchange.codings = None
                # The parser does not know the method, and would wait for the body that a HEAD's reply describes.
                exchange.ended = self._method == b"HEAD"
            exchange.started = True
            exchange.wake()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body; whoever feeds tells the reader."""
        exchange = self._exchange
        if exchange is None or exchange.ended:
            return
        self._quiet = 0
        exchange.pieces.append(body)
        exchange.buffered += len(body)

    def on_message_complete(self) -> None:
        """Note that the body is whole."""
        exchange, parser = self._exchange, self._parser
        if exchange is None or parser is None or not exchange.started or exchange.ended:
            return
        exchange.ended = True
        self.keep = parser.should_keep_alive()

    def _head_problem(self, exchange: HttpExchange, status: int, version: str) -> str | None:
        if status == 101:
            return _SWITCHED
        if status < 100:
            return "the reply has a status below 100"
        if version not in ("1.1", "1.0"):
            return "the reply is not HTTP/1.1 or HTTP/1.0"
        headers = exchange.headers
        if len(headers) > HEADER_COUNT_LIMIT:
            return f"the reply has more than {HEADER_COUNT_LIMIT} headers"
        if (
            self._quiet > HEAD_LIMIT
            and sum(len(name) + len(value) + 4 for name, value in headers) > HEAD_LIMIT
        ):
            return _TOO_LONG
        return None


def _note(exchange: HttpExchange, name: bytes, value: bytes) -> None:
    if name == b"content-encoding":
        exchange.codings = [*(exchange.codings or ()), value]
        return
    if name == b"transfer-encoding" and (exchange.framed or value.lower() != b"chunked"):
        exchange.fail("malformed", "the reply has a transfer-encoding other than 'chunked'")
    exchange.framed = True
