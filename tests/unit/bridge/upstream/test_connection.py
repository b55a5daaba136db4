"""One connection: framing, limits, reuse, flow control and the clock."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_wire import Wire, wired
from osmosis_bridge.crowd import crowd_of
from osmosis_bridge.upstream import Timeouts, TransportError
from osmosis_bridge.upstream.connection import HIGH_WATER
from osmosis_bridge.upstream.exchange import HttpExchange
from osmosis_bridge.upstream.framing import HEAD_LIMIT, HEADER_COUNT_LIMIT, Framing
from virtual_loop import run_in_virtual_time

OK = b"HTTP/1.1 200 OK\r\n"
PLAIN = OK + b"content-length: 5\r\nX-Note:  a b \r\n\r\nhello"
CHUNKED = OK + b"Transfer-Encoding: Chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\ntrailer: t\r\n\r\n"
TO_THE_END = OK + b"content-type: text/plain\r\n\r\nhello"
Step = Callable[[Wire], None]


async def read(exchange: HttpExchange, limit: int = 10**7) -> bytes:
    await exchange.head()
    return await exchange.whole(limit)


def outcome_of(*pieces: bytes, hang_up: bool = False, method: bytes = b"POST") -> tuple[object, Wire]:
    """The body of a scripted reply, or the error in its place."""
    kept: list[Wire] = []

    async def main() -> object:
        wire = wired()
        kept.append(wire)
        exchange = wire.ask(method)
        wire.say(*pieces)
        if hang_up:
            wire.hang_up()
        async with asyncio.timeout(5):
            try:
                return await read(exchange)
            except TransportError as error:
                return error

    return asyncio.run(main()), kept[0]


def body_of(*pieces: bytes, hang_up: bool = False, method: bytes = b"POST") -> bytes:
    outcome, _ = outcome_of(*pieces, hang_up=hang_up, method=method)
    assert isinstance(outcome, bytes), outcome
    return outcome


def error_of(*pieces: bytes, hang_up: bool = False) -> TransportError:
    outcome, wire = outcome_of(*pieces, hang_up=hang_up)
    assert isinstance(outcome, TransportError), outcome
    assert wire.transport.aborted
    assert (wire.keeper.kept, wire.keeper.losses) == (0, 1)
    return outcome


def run(main: Callable[[], Coroutine[None, None, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(5):
            await main()

    asyncio.run(bounded())


def now() -> float:
    return asyncio.get_running_loop().time()


def later(seconds: float, step: Callable[..., object], *arguments: object) -> None:
    asyncio.get_running_loop().call_later(seconds, step, *arguments)


@pytest.mark.parametrize("reply", [PLAIN, CHUNKED])
def test_a_framed_reply_comes_whole_and_the_connection_is_kept(reply: bytes) -> None:
    outcome, wire = outcome_of(reply)
    assert outcome == b"hello"
    assert (wire.keeper.kept, wire.keeper.losses) == (1, 0)


def test_a_reply_without_framing_ends_with_its_connection() -> None:
    outcome, wire = outcome_of(TO_THE_END, hang_up=True)
    assert outcome == b"hello"
    assert (wire.keeper.kept, wire.keeper.losses) == (0, 1)


@pytest.mark.parametrize(("reply", "framed"), [(PLAIN, True), (CHUNKED, True), (TO_THE_END, False)])
def test_an_exchange_tells_whether_its_end_was_declared(reply: bytes, framed: bool) -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(reply)
        await exchange.head()
        assert exchange.framed is framed

    run(main)


def test_names_are_lower_case_values_trimmed_and_order_kept() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(OK + b"B: 2\r\nA:\t1 \r\nb: 3\r\nEmpty:\r\ncontent-length: 0\r\n\r\n")
        await exchange.head()
        assert exchange.headers == [
            (b"b", b"2"),
            (b"a", b"1"),
            (b"b", b"3"),
            (b"empty", b""),
            (b"content-length", b"0"),
        ]
        assert exchange.header(b"b") == b"2"
        assert exchange.header(b"none") is None
        assert exchange.status == 200

    run(main)


@given(
    reply=st.sampled_from([PLAIN, CHUNKED, TO_THE_END, b"HTTP/1.1 103 Hi\r\nlink: x\r\n\r\n" + CHUNKED]),
    places=st.lists(st.integers(min_value=1, max_value=150), max_size=12),
)
def test_a_reply_does_not_depend_on_how_its_bytes_are_split(reply: bytes, places: list[int]) -> None:
    edges = [0, *sorted(min(place, len(reply)) for place in places), len(reply)]
    pieces = [reply[a:b] for a, b in pairwise(edges) if b > a]
    assert body_of(*pieces, hang_up=True) == b"hello"


@pytest.mark.parametrize("reply", [PLAIN, CHUNKED, TO_THE_END])
def test_a_reply_may_come_byte_by_byte(reply: bytes) -> None:
    assert body_of(*(bytes([byte]) for byte in reply), hang_up=True) == b"hello"


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: a\r\ncontent-encoding: br\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\ncontent-length: 7\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hi\r\n\r\n",
    ],
)
@pytest.mark.parametrize("reply", [PLAIN, CHUNKED, TO_THE_END])
def test_interim_replies_are_passed_over(interim: bytes, reply: bytes) -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(interim, reply)
        if reply is TO_THE_END:
            wire.hang_up()
        assert await read(exchange) == b"hello"
        assert exchange.header(b"link") is None
        assert exchange.framed is (reply is not TO_THE_END)

    run(main)


def test_trailers_are_not_headers() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(CHUNKED)
        assert await read(exchange) == b"hello"
        assert exchange.headers == [(b"transfer-encoding", b"Chunked")]

    run(main)


def test_interim_replies_without_end_are_malformed() -> None:
    assert error_of(*[b"HTTP/1.1 103 Hi\r\nlink: abc\r\n\r\n" * 10] * 400).reason == "malformed"


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_a_body_have_none_whatever_the_headers_say(status: int) -> None:
    reply = b"HTTP/1.1 %d X\r\ncontent-length: 5\r\ncontent-encoding: rot13\r\n\r\n" % status
    outcome, wire = outcome_of(reply)
    assert outcome == b""
    assert wire.keeper.kept == 1


@pytest.mark.parametrize(
    "framing", [b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n", b"content-encoding: br\r\n"]
)
def test_a_reply_to_head_has_no_body_and_its_connection_is_not_kept(framing: bytes) -> None:
    outcome, wire = outcome_of(OK + framing + b"\r\n", method=b"HEAD")
    assert outcome == b""
    assert (wire.keeper.kept, wire.keeper.losses) == (0, 1)


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        OK + b"connection: close\r\ncontent-length: 5\r\n\r\nhello",
        OK + b"Connection: Keep-Alive, Close\r\ncontent-length: 5\r\n\r\nhello",
        PLAIN + b"x",
        PLAIN + PLAIN,
        CHUNKED + b"H",
        OK + b"connection: close\r\ncontent-length: 5\r\n\r\nhello, world",
    ],
)
def test_a_connection_that_says_close_or_says_too_much_is_not_kept(reply: bytes) -> None:
    outcome, wire = outcome_of(reply)
    assert outcome == b"hello"
    assert (wire.keeper.kept, wire.keeper.losses) == (0, 1)


def test_http_1_0_with_keep_alive_is_kept() -> None:
    outcome, wire = outcome_of(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello")
    assert outcome == b"hello"
    assert wire.keeper.kept == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"<html>hello</html>",
        b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/0.9 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"RTSP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
        OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        OK + b"content-length: -5\r\n\r\nhello",
        OK + b"content-length: five\r\n\r\nhello",
        OK + b"content-length: 0x5\r\n\r\nhello",
        OK + b"content-length: 99999999999999999999999\r\n\r\nhello",
        OK + b"transfer-encoding: gzip\r\n\r\nhello",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        OK + b"transfer-encoding: identity\r\n\r\nhello",
        OK + b"transfer-encoding: chunked\r\n\r\nzz\r\nhello",
        OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello!!\r\n0\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"bad name: x\r\n\r\n",
        OK + b"x: a\0b\r\n\r\n",
        OK + b"x: a\r\n folded\r\n\r\n",
    ],
)
@pytest.mark.parametrize("bytewise", [False, True])
def test_what_is_not_proper_http_is_malformed(reply: bytes, bytewise: bool) -> None:
    pieces = [bytes([byte]) for byte in reply] if bytewise else [reply]
    assert error_of(*pieces, hang_up=True).reason == "malformed"


@pytest.mark.parametrize("reply", [PLAIN, CHUNKED])
def test_a_framed_reply_that_stops_anywhere_is_cut(reply: bytes) -> None:
    for kept in range(len(reply)):
        assert error_of(reply[:kept], hang_up=True).reason == "cut", kept


def test_a_reply_without_framing_is_cut_inside_its_head_or_by_a_reset() -> None:
    async def reset() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(TO_THE_END)
        wire.hang_up(ConnectionResetError())
        assert await exchange.chunk() == b"hello"
        for _ in range(2):
            with pytest.raises(TransportError, match="cut: "):
                await exchange.chunk()

    assert error_of(TO_THE_END[:20], hang_up=True).reason == "cut"
    run(reset)


def test_an_error_tells_how_far_the_reply_had_come() -> None:
    assert "without a reply" in error_of(hang_up=True).detail
    assert "inside the reply's head" in error_of(OK, hang_up=True).detail
    assert "before the reply's end" in error_of(PLAIN[:-1], hang_up=True).detail


def test_headers_are_bounded_in_number() -> None:
    fits = b"".join(b"x%d: y\r\n" % n for n in range(HEADER_COUNT_LIMIT - 1)) + b"content-length: 0\r\n"
    assert body_of(OK + fits + b"\r\n") == b""
    assert "headers" in error_of(OK + fits + b"one: more\r\n\r\n").detail


@pytest.mark.parametrize("piece", [10**9, 1000])
def test_headers_are_bounded_in_bytes_however_they_arrive(piece: int) -> None:
    def reply(size: int) -> list[bytes]:
        whole = OK + b"x: " + b"y" * size + b"\r\ncontent-length: 5\r\n\r\nhello"
        return [whole[start : start + piece] for start in range(0, len(whole), piece)]

    assert body_of(*reply(HEAD_LIMIT - 200)) == b"hello"
    assert error_of(*reply(HEAD_LIMIT + 1)).reason == "malformed"


def test_a_large_body_right_behind_its_head_is_no_large_head() -> None:
    assert len(body_of(OK + b"content-length: 200000\r\n\r\n" + bytes(200_000))) == 200_000


@pytest.mark.parametrize(
    "tail", [b"1;" + b"x" * 70_000, b"0\r\nt: " + b"x" * 70_000, b"0\r\n" + b"t: x\r\n" * 20_000]
)
def test_chunk_extensions_and_trailers_are_bounded(tail: bytes) -> None:
    start = OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"
    assert error_of(start, *[tail[n : n + 1000] for n in range(0, len(tail), 1000)]).reason == "malformed"


def test_the_next_request_goes_over_the_same_connection() -> None:
    async def main() -> None:
        wire = wired()
        for turn in range(3):
            exchange = wire.ask(body=b"%d" % turn)
            wire.say(CHUNKED if turn % 2 else PLAIN)
            assert await read(exchange) == b"hello"
        assert wire.transport.written.endswith(b"\r\n\r\n2")
        assert (wire.keeper.kept, wire.keeper.losses) == (3, 0)

    run(main)


@pytest.mark.parametrize("unasked", [lambda wire: wire.say(b"x"), Wire.hang_up], ids=["speaks", "ends"])
def test_an_idle_connection_that_speaks_or_ends_is_closed_at_once(unasked: Step) -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(PLAIN)
        unasked(wire)
        assert wire.transport.aborted
        assert wire.connection.is_stale()
        assert wire.keeper.losses == 1
        assert await read(exchange) == b"hello"

    run(main)


def test_a_request_on_a_closed_connection_is_not_sent() -> None:
    async def main() -> None:
        for refuses in (True, False):
            wire = wired()
            wire.transport.refuses = refuses
            wire.transport.aborted = not refuses
            exchange = wire.ask()
            with pytest.raises(TransportError) as caught:
                await exchange.head()
            assert caught.value.reason == "cut"
            assert wire.connection.unsent
            assert wire.transport.written == b""
            assert wire.keeper.losses == 1

    run(main)


@pytest.mark.parametrize(
    "unasked",
    [
        lambda wire: wire.say(PLAIN),
        lambda wire: wire.hang_up(),
        lambda wire: wire.hang_up(ConnectionResetError()),
        lambda wire: wire.connection.abort(),
    ],
    ids=["speaks", "ends", "resets", "given up"],
)
def test_what_comes_before_a_request_is_sent_is_not_its_reply_and_nothing_is_sent(unasked: Step) -> None:
    async def main() -> None:
        crowd_of(asyncio.get_running_loop()).together = True
        wire = wired()
        exchange = wire.connection.start(b"POST", b"head", b"body", None)
        unasked(wire)
        await asyncio.sleep(0)
        with pytest.raises(TransportError) as caught:
            await exchange.head()
        assert caught.value.reason == "cut"
        assert wire.connection.unsent
        assert wire.transport.written == b""
        assert (wire.keeper.kept, wire.keeper.losses) == (0, 1)

    run(main)


def test_a_request_that_is_alone_leaves_at_once() -> None:
    async def main() -> None:
        wire = wired()
        wire.connection.start(b"POST", b"head", b"body", None)
        assert wire.transport.written == b"headbody"
        await asyncio.sleep(0)
        assert wire.transport.written == b"headbody"
        wire.connection.abort()

    run(main)


def test_the_beginning_of_a_reply_counts_as_an_arrival_and_its_rest_does_not() -> None:
    async def main() -> list[bool]:
        one, other, third, fourth = wires = [wired() for _ in range(4)]
        seen = []
        for wire in wires:
            wire.ask()
        one.say(OK + b"content-length: 9\r\n\r\n")
        await asyncio.sleep(0)
        seen.append(crowd_of(asyncio.get_running_loop()).together)
        one.say(b"1234")
        other.say(OK)
        await asyncio.sleep(0)
        seen.append(crowd_of(asyncio.get_running_loop()).together)
        third.say(OK)
        fourth.say(OK)
        await asyncio.sleep(0)
        seen.append(crowd_of(asyncio.get_running_loop()).together)
        for wire in wires:
            wire.connection.abort()
        return seen

    assert asyncio.run(main()) == [False, False, True]


def test_the_requests_of_a_crowded_turn_leave_together_at_its_end() -> None:
    async def main() -> None:
        crowd_of(asyncio.get_running_loop()).together = True
        wires = [wired() for _ in range(3)]
        for wire in wires:
            wire.connection.start(b"POST", b"head", b"body", None)
        assert [wire.transport.written for wire in wires] == [b""] * 3
        await asyncio.sleep(0)
        assert [wire.transport.written for wire in wires] == [b"headbody"] * 3
        for wire in wires:
            wire.connection.abort()

    run(main)


def test_a_slow_reader_stops_the_socket_until_it_has_read() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(OK + b"content-length: 1000000\r\n\r\n")
        while wire.transport.reading:
            wire.say(bytes(50_000))
        assert HIGH_WATER < exchange.buffered <= HIGH_WATER + 50_000
        taken = len(await exchange.chunk())
        assert wire.transport.reading
        wire.say(bytes(1_000_000 - taken))
        assert len(await exchange.whole(10**7)) == 1_000_000 - taken
        assert wire.keeper.kept == 1

    run(main)


def test_a_connection_whose_reading_was_stopped_reads_again_when_it_is_kept() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(OK + b"content-length: 300001\r\n\r\n" + bytes(300_000))
        assert not wire.transport.reading
        # One more segment was already under way.
        wire.say(b"x")
        assert wire.keeper.kept == 1
        assert wire.transport.reading
        assert len(await read(exchange)) == 300_001

    run(main)


def test_a_large_body_is_sent_slice_by_slice_while_there_is_room() -> None:
    async def main() -> None:
        wire = wired()
        body = bytes(range(256)) * 4096
        exchange = wire.ask(body=body)
        first = len(wire.transport.written)
        assert first < len(body) / 2
        wire.connection.pause_writing()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(wire.transport.written) == first
        wire.connection.resume_writing()
        while len(wire.transport.written) < len(body):
            await asyncio.sleep(0)
        assert wire.transport.written.endswith(body)
        wire.say(PLAIN)
        assert await read(exchange) == b"hello"
        assert wire.keeper.kept == 1

    run(main)


def test_an_early_reply_is_read_and_the_rest_of_the_request_is_not_sent() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask(body=bytes(4_000_000))
        wire.connection.pause_writing()
        wire.say(PLAIN.replace(b"200 OK", b"413 Too Large"))
        assert await read(exchange) == b"hello"
        assert exchange.status == 413
        assert len(wire.transport.written) < 2_000_000
        assert (wire.keeper.kept, wire.keeper.losses) == (0, 1)
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(wire.transport.written) < 2_000_000

    run(main)


def test_closing_an_unfinished_exchange_closes_the_connection_at_once() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(PLAIN[:-1])
        exchange.close()
        exchange.close()
        assert wire.transport.aborted
        assert (wire.keeper.kept, wire.keeper.losses) == (0, 1)

    run(main)


def test_closing_an_exchange_that_was_read_leaves_the_connection_to_others() -> None:
    async def main() -> None:
        wire = wired()
        first = wire.ask()
        wire.say(PLAIN)
        second = wire.ask()
        first.close()
        wire.say(CHUNKED)
        assert await read(second) == b"hello"
        assert wire.keeper.kept == 2

    run(main)


def test_a_closed_connection_frees_itself_without_a_garbage_collection() -> None:
    async def main() -> None:
        wire = wired()
        exchange = wire.ask()
        wire.say(PLAIN[:-1])
        exchange.close()
        await asyncio.sleep(0)
        gone = weakref.ref(wire.transport)
        gc.collect()
        gc.disable()
        try:
            del wire, exchange
            assert gone() is None
            assert not [kept for kept in gc.get_objects() if isinstance(kept, Framing)]
        finally:
            gc.enable()

    run(main)


def test_silence_before_the_first_byte_ends_in_time() -> None:
    async def main() -> None:
        wire = wired(Timeouts(idle=60))
        with pytest.raises(TransportError, match="a reply did not come within 60 seconds") as caught:
            await wire.ask().head()
        assert caught.value.reason == "timeout_idle"
        assert now() == pytest.approx(60, abs=0.1)
        assert wire.transport.aborted

    run_in_virtual_time(main())


def test_silence_within_the_body_ends_in_time_and_bytes_put_it_off() -> None:
    async def main() -> None:
        wire = wired(Timeouts(idle=60))
        exchange = wire.ask()
        wire.say(OK + b"content-length: 100\r\n\r\n")
        for _ in range(8):
            later(59, wire.say, b"x")
            assert await exchange.chunk() == b"x"
        assert now() == 8 * 59
        with pytest.raises(TransportError, match="next byte") as caught:
            await exchange.chunk()
        assert caught.value.reason == "timeout_idle"
        assert now() == pytest.approx(8 * 59 + 60, abs=0.1)

    run_in_virtual_time(main())


def test_any_byte_puts_silence_off_also_one_that_tells_nothing_yet() -> None:
    async def main() -> None:
        wire = wired(Timeouts(idle=60))
        exchange = wire.ask()
        for turn, byte in enumerate(PLAIN):
            later(50 * (turn + 1), wire.say, bytes([byte]))
        assert await exchange.whole(10) == b"hello"
        assert now() == 50 * len(PLAIN)

    run_in_virtual_time(main())


def test_a_slow_reader_is_not_a_silent_upstream() -> None:
    async def main() -> None:
        wire = wired(Timeouts(idle=60))
        exchange = wire.ask()
        wire.say(OK + b"content-length: 6\r\n\r\nabc")
        await exchange.head()
        await asyncio.sleep(500)
        assert await exchange.chunk() == b"abc"
        await asyncio.sleep(500)
        later(59, wire.say, b"def")
        assert await exchange.whole(10) == b"def"

    run_in_virtual_time(main())


def test_a_request_that_is_still_being_taken_is_not_silence() -> None:
    async def main() -> None:
        wire = wired(Timeouts(idle=60))
        exchange = wire.ask(body=bytes(3_000_000))
        for turn in range(6):
            wire.connection.pause_writing()
            later(50 * (turn + 1), wire.connection.resume_writing)
        later(350, wire.say, PLAIN)
        assert await exchange.whole(10) == b"hello"

    run_in_virtual_time(main())


@pytest.mark.parametrize("idle", [60, None])
def test_an_exchange_may_not_take_longer_than_its_total_however_lively(idle: float | None) -> None:
    async def main() -> None:
        wire = wired(Timeouts(idle=idle))
        exchange = wire.ask(total_at=100)
        wire.say(OK + b"transfer-encoding: chunked\r\n\r\n")
        with pytest.raises(TransportError) as caught:
            while True:
                later(1, wire.say, b"1\r\nx\r\n")
                await exchange.chunk()
        assert caught.value.reason == "timeout_total"
        assert now() == pytest.approx(100, abs=0.1)

    run_in_virtual_time(main())


def test_the_clock_of_one_exchange_does_not_strike_the_next() -> None:
    async def main() -> None:
        wire = wired(Timeouts(idle=60))
        for turn in range(4):
            exchange = wire.ask(total_at=now() + 70)
            later(50, wire.say, PLAIN)
            assert await read(exchange) == b"hello"
            await asyncio.sleep(0 if turn % 2 else 15)
        await asyncio.sleep(1000)
        assert not wire.transport.aborted
        with pytest.raises(TransportError) as caught:
            await wire.ask().head()
        assert caught.value.reason == "timeout_idle"

    run_in_virtual_time(main())


def test_without_limits_there_is_no_clock() -> None:
    async def main() -> None:
        wire = wired(Timeouts(idle=None))
        exchange = wire.ask()
        later(10**6, wire.say, PLAIN)
        assert await exchange.whole(10) == b"hello"

    run_in_virtual_time(main())


def test_a_connection_that_opens_after_it_was_given_up_is_closed() -> None:
    async def main() -> None:
        wire = wired()
        wire.connection.abort()
        late = type(wire.transport)()
        wire.connection.connection_made(late)
        assert late.aborted

    run(main)
