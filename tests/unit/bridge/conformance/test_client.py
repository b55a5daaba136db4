"""The raw client: where it calls, and what it says of a connection that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from osmosis_bridge.conformance.client import Address, Wire


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8400", Address("127.0.0.1", 8400, False, "")),
        ("http://h/v1/", Address("h", 80, False, "")),
        ("https://h/gateway/v1", Address("h", 443, True, "/gateway")),
    ],
)
def test_a_url_is_taken_with_or_without_v1(url: str, address: Address) -> None:
    assert Address.parse(url) == address


@pytest.mark.parametrize("url", ["127.0.0.1:8400", "ftp://h", "http://"])
def test_what_is_no_url_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="no http"):
        Address.parse(url)


def against(reply: bytes, use: Callable[[Wire], Awaitable[None]], *, close: bool = True) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        await writer.drain()
        if not close:
            await reader.read()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with Wire(Address.parse(f"http://127.0.0.1:{port}")) as wire:
            await use(wire)
        server.close()
        await asyncio.sleep(0.01)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("reply", "end"),
    [
        (b"HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\nab", "clean"),
        (b"HTTP/1.1 200 x\r\ncontent-length: 3\r\n\r\nab", "cut"),
        (b"HTTP/1.1 200 x\r\n\r\nab", "clean"),
        (b"", "cut"),
        (b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "cut"),
    ],
)
def test_the_end_of_a_reply_is_told(reply: bytes, end: str) -> None:
    async def use(wire: Wire) -> None:
        assert (await wire.reply(5)).end == end

    against(reply, use)


def test_a_reply_that_does_not_come_is_waited_for_only_so_long() -> None:
    async def use(wire: Wire) -> None:
        assert (await wire.reply(0.05)).end == "waiting"

    against(b"HTTP/1.1 200 x\r\ncontent-length: 3\r\n\r\n", use, close=False)


def test_reading_may_stop_at_a_marker() -> None:
    async def use(wire: Wire) -> None:
        assert await wire.read_until(b"lo", 5)
        assert not await wire.read_until(b"never", 5)

    against(b"hello", use)
