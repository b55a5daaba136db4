"""One reply as its reader sees it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Coroutine

import pytest

from fake_wire import wired
from osmosis_bridge.upstream import Exchange, TransportError
from osmosis_bridge.upstream.exchange import HttpExchange

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"


def run(main: Callable[[], Coroutine[None, None, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(5):
            await main()

    asyncio.run(bounded())


def packed(body: bytes, name: bytes = b"gzip") -> bytes:
    return OK + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n%b" % (name, len(body), body)


def test_it_is_an_exchange() -> None:
    def takes(exchange: Exchange) -> Exchange:
        return exchange

    async def main() -> None:
        exchange: HttpExchange = wired().ask()
        assert takes(exchange) is exchange

    run(main)


def test_a_chunk_is_all_that_has_come_and_then_the_end() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(HELLO[:-3], HELLO[-3:-1])
        assert await exchange.chunk() == b"hell"
        wire.say(HELLO[-1:])
        assert [await exchange.chunk() for _ in range(3)] == [b"o", b"", b""]

    run(main)


def test_a_chunk_waits_for_bytes() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(exchange.chunk())
            await asyncio.sleep(0)
            wire.say(HELLO[:-4])
            assert await waiting == b"h"

    run(main)


def test_a_cancelled_wait_loses_nothing() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(exchange.chunk(), 0.001)
        wire.say(HELLO)
        assert await exchange.whole(5) == b"hello"

    run(main)


def test_a_wait_cancelled_just_as_bytes_come_loses_nothing() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(exchange.chunk())
            await asyncio.sleep(0)
            wire.say(HELLO)
            waiting.cancel()
        assert waiting.cancelled()
        assert await exchange.whole(5) == b"hello"

    run(main)


def test_two_readers_at_once_are_a_mistake() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(exchange.chunk())
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="two readers"):
                await exchange.chunk()
            wire.say(HELLO)
            assert await first == b"hello"

    run(main)


def poured(into: list[bytes], stop_at: bytes = b"never") -> Callable[[bytes], bool]:
    def take(piece: bytes) -> bool:
        into.append(piece)
        return piece != stop_at

    return take


def test_what_is_poured_is_handed_over_within_the_read_that_brought_it() -> None:
    async def main() -> None:
        wire, came = wired(), list[bytes]()
        exchange = wire.ask()
        wire.say(HELLO[:-4])
        async with asyncio.TaskGroup() as group:
            pouring = group.create_task(exchange.pour(poured(came)))
            await asyncio.sleep(0)
            assert came == [b"h"]
            wire.say(b"el")
            assert came == [b"h", b"el"]
            wire.say(b"lo")
            assert came == [b"h", b"el", b"lo"]
            assert await pouring is False
            assert await exchange.pour(poured(came)) is False

    run(main)


def test_pouring_stops_where_it_is_told_to_and_goes_on_from_there() -> None:
    async def main() -> None:
        wire, came = wired(), list[bytes]()
        exchange = wire.ask()
        wire.say(HELLO[:-4])
        assert await exchange.pour(poured(came, b"h")) is True
        async with asyncio.TaskGroup() as group:
            pouring = group.create_task(exchange.pour(poured(came, b"el")))
            await asyncio.sleep(0)
            wire.say(b"el")
            wire.say(b"l")
            assert await pouring is True
        assert came == [b"h", b"el"]
        wire.say(b"o")
        assert await exchange.pour(poured(came)) is False
        assert came == [b"h", b"el", b"lo"]

    run(main)


def test_pouring_that_is_cancelled_just_as_bytes_come_loses_nothing() -> None:
    async def main() -> None:
        wire, came = wired(), list[bytes]()
        exchange = wire.ask()
        async with asyncio.TaskGroup() as group:
            pouring = group.create_task(exchange.pour(poured(came)))
            await asyncio.sleep(0)
            pouring.cancel()
            wire.say(HELLO)
        assert pouring.cancelled()
        assert b"".join(came) + await exchange.whole(5) == b"hello"

    run(main)


def test_what_goes_wrong_with_whoever_takes_is_raised_to_whoever_pours() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(HELLO[:-5])

        def take(piece: bytes) -> bool:
            raise ZeroDivisionError(piece)

        pouring = asyncio.ensure_future(exchange.pour(take))
        await asyncio.sleep(0)
        wire.say(HELLO[-5:])
        with pytest.raises(ZeroDivisionError):
            await pouring

    run(main)


def test_what_came_before_a_failure_is_poured_before_it_is_raised() -> None:
    async def main() -> None:
        wire, came = wired(), list[bytes]()
        exchange = wire.ask()
        wire.say(HELLO[:-4])
        exchange.fail("cut", "the connection closed before the reply's end")
        with pytest.raises(TransportError, match="cut"):
            await exchange.pour(poured(came))
        assert came == [b"h"]

    run(main)


def test_what_is_packed_is_unpacked_on_the_way() -> None:
    async def main() -> None:
        wire, came = wired(), list[bytes]()
        exchange = wire.ask()
        sent = packed(gzip.compress(b"hello"))
        async with asyncio.TaskGroup() as group:
            pouring = group.create_task(exchange.pour(poured(came)))
            for at in range(0, len(sent), 7):
                wire.say(sent[at : at + 7])
                await asyncio.sleep(0)
            assert await pouring is False
        assert b"".join(came) == b"hello"

    run(main)


def test_a_packed_body_that_is_broken_fails_whoever_pours() -> None:
    async def main() -> None:
        wire, came = wired(), list[bytes]()
        exchange = wire.ask()
        pouring = asyncio.ensure_future(exchange.pour(poured(came)))
        await asyncio.sleep(0)
        wire.say(packed(b"no gzip"))
        with pytest.raises(TransportError, match="malformed"):
            await pouring

    run(main)


@pytest.mark.parametrize("split", [False, True])
def test_a_whole_body_may_be_as_large_as_the_limit_and_no_larger(split: bool) -> None:
    async def main() -> None:
        for limit, fits in ((5, True), (4, False), (0, False)):
            wire = wired()
            exchange = wire.ask()
            wire.say(HELLO[:-2])
            if not split:
                wire.say(HELLO[-2:])
            else:
                asyncio.get_running_loop().call_later(0.005, wire.say, HELLO[-2:])
            if fits:
                assert await exchange.whole(limit) == b"hello"
                continue
            with pytest.raises(TransportError) as caught:
                await exchange.whole(limit)
            assert caught.value.reason == "too_large"

    run(main)


def test_a_body_that_grows_too_large_closes_its_connection() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(HELLO[:-1])
        with pytest.raises(TransportError, match="too_large"):
            await exchange.whole(3)
        assert wire.transport.aborted

    run(main)


def test_a_bomb_is_too_large_long_before_it_is_unfolded() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        bomb = packed(gzip.compress(bytes(64 * 1024 * 1024)))
        wire.say(bomb)
        with pytest.raises(TransportError) as caught:
            await exchange.whole(1_000_000)
        assert caught.value.reason == "too_large"

    run(main)


def test_an_encoded_body_is_decoded_as_it_comes() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        reply = packed(gzip.compress(b"hello" * 100))
        wire.say(*(bytes([byte]) for byte in reply))
        assert await exchange.whole(500) == b"hello" * 100
        assert exchange.header(b"content-encoding") == b"gzip"

    run(main)


def test_an_encoded_body_that_ends_early_is_cut_though_the_framing_is_whole() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(packed(gzip.compress(b"hello" * 100)[:-4]))
        body = await exchange.chunk()
        assert body == b"hello" * 100
        for _ in range(2):
            with pytest.raises(TransportError) as caught:
                await exchange.chunk()
            assert caught.value.reason == "cut"

    run(main)


@pytest.mark.parametrize(
    ("reply", "detail"),
    [(packed(b"not gzip at all"), "gzip body is corrupt"), (packed(b"x", b"rot13"), "'rot13'")],
)
def test_an_unreadable_coding_leaves_the_status_readable(reply: bytes, detail: str) -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(reply.replace(b"200 OK", b"429 Busy"))
        await exchange.head()
        assert exchange.status == 429
        for _ in range(2):
            with pytest.raises(TransportError, match=detail) as caught:
                await exchange.chunk()
            assert caught.value.reason == "malformed"

    run(main)


def test_identity_named_is_identity() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(packed(b"hello", b"Identity"))
        assert [await exchange.chunk(), await exchange.chunk()] == [b"hello", b""]

    run(main)


def test_an_empty_body_may_claim_any_coding() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(packed(b""))
        assert await exchange.whole(1) == b""

    run(main)


def test_what_came_before_a_failure_is_handed_out_before_it() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(HELLO[:-1])
        wire.hang_up()
        assert await exchange.chunk() == b"hell"
        with pytest.raises(TransportError, match="before the reply's end"):
            await exchange.chunk()

    run(main)


def test_a_closed_exchange_never_looks_like_a_clean_end() -> None:
    async def main() -> None:
        for reply in (HELLO, HELLO[:-1], packed(gzip.compress(b"hello"))):
            wire = wired()
            exchange = wire.ask()
            wire.say(reply)
            exchange.close()
            with pytest.raises(TransportError, match="was closed"):
                await exchange.chunk()

    run(main)


def test_closing_wakes_the_reader() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        asyncio.get_running_loop().call_soon(exchange.close)
        with pytest.raises(TransportError, match="was closed"):
            await exchange.head()

    run(main)
