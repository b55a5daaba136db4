"""The transport over real sockets: reuse, retries, limits, early replies, cancelling, proxies."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from osmosis_bridge.upstream import Endpoint, Timeouts, Transport, TransportError
from osmosis_bridge.upstream.exchange import HttpExchange
from osmosis_bridge.upstream.http import HttpTransport
from osmosis_bridge.upstream.proxy import Proxies, Proxy, proxies_from
from upstream_server import LOOPS, Peer, RawServer, replying, run, serving, until

CERTS = Path(__file__).parent / "certs"
REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
loops = pytest.mark.parametrize("loop", list(LOOPS))


async def post(
    transport: HttpTransport, server: RawServer, body: bytes = b"{}", method: bytes = b"POST"
) -> HttpExchange:
    return await transport.open(method, server.endpoint, b"/x", [(b"x-note", b"1")], body)


async def answer(
    transport: HttpTransport, server: RawServer, body: bytes = b"{}", method: bytes = b"POST"
) -> bytes:
    exchange = await post(transport, server, body, method)
    whole = await exchange.whole(10**8)
    exchange.close()
    return whole


def test_it_is_a_transport() -> None:
    def takes(transport: Transport) -> Transport:
        return transport

    transport = HttpTransport()
    assert takes(transport) is transport


@loops
def test_a_request_is_sent_as_given_and_its_connection_used_again(loop: str) -> None:
    async def main() -> None:
        async with serving(replying(REPLY)) as server, HttpTransport() as transport:
            for turn in range(3):
                assert await answer(transport, server, b"%d" % turn) == b"hello"
                assert (transport.open_connections, transport.idle_connections, transport.waiting) == (
                    1,
                    1,
                    0,
                )
            assert server.connections == 1
            request = server.requests[-1]
            assert request.line == b"POST /v1/x HTTP/1.1"
            assert request.headers == [
                (b"host", b"127.0.0.1:%d" % server.endpoint.port),
                (b"x-note", b"1"),
                (b"content-length", b"1"),
            ]
            assert request.body == b"2"

    run(loop, main)


@loops
def test_what_cannot_be_sent_opens_nothing(loop: str) -> None:
    async def main() -> None:
        async with serving(replying(REPLY)) as server, HttpTransport() as transport:
            with pytest.raises(ValueError, match="'x'"):
                await transport.open(b"POST", server.endpoint, b"/x", [(b"x", b"a\r\nb: c")], b"")
            assert transport.open_connections == 0

    run(loop, main)


@loops
def test_pieces_arrive_as_they_are_sent(loop: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        for turn in range(5):
            await peer.send(b"2\r\n%d\n\r\n" % turn)
            assert await peer.reader.readexactly(0) == b""
            await turns.acquire()
        await peer.send(b"0\r\n\r\n")

    turns = asyncio.Semaphore(0)

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            exchange = await post(transport, server)
            for turn in range(5):
                assert await exchange.chunk() == b"%d\n" % turn
                turns.release()
            assert await exchange.chunk() == b""
            assert transport.idle_connections == 1

    run(loop, main)


@loops
def test_a_flushed_gzip_event_is_not_held_back(loop: str) -> None:
    events = [b"data: %d\n\n" % turn for turn in range(4)]
    turns = asyncio.Semaphore(0)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM[:-2] + b"content-encoding: gzip\r\n\r\n")
        squeeze = zlib.compressobj(wbits=31)
        for event in events:
            piece = squeeze.compress(event) + squeeze.flush(zlib.Z_SYNC_FLUSH)
            await peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await turns.acquire()
        rest = squeeze.flush()
        await peer.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(rest), rest))

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            exchange = await post(transport, server)
            for event in events:
                assert await exchange.chunk() == event
                turns.release()
            assert await exchange.chunk() == b""

    run(loop, main)


@loops
def test_a_connection_found_closed_is_not_used_and_the_request_goes_out_once(loop: str) -> None:
    async def main() -> None:
        async with serving(replying(REPLY, close=True)) as server, HttpTransport() as transport:
            for turn in range(5):
                assert await answer(transport, server) == b"hello"
                if turn % 2:
                    await until(lambda: server.open == 0)
            assert len(server.requests) == 5

    run(loop, main)


@loops
def test_an_end_the_loop_has_not_seen_yet_is_seen_before_a_post_is_sent(loop: str) -> None:
    async def main() -> None:
        # The server's part is played by hand, without the loop.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            endpoint = Endpoint(tls=False, host="127.0.0.1", port=listener.getsockname()[1])
            async with HttpTransport() as transport, asyncio.TaskGroup() as group:
                for _ in range(3):
                    opening = group.create_task(transport.open(b"POST", endpoint, b"/", [], b"{}"))
                    await until(lambda: bool(select.select([listener], [], [], 0)[0]))
                    server, _ = listener.accept()
                    await until(lambda: bool(select.select([server], [], [], 0)[0]))  # noqa: B023  # called in its turn
                    assert server.recv(10_000).endswith(b"{}")
                    server.sendall(REPLY)
                    assert await (await opening).whole(10) == b"hello"
                    assert transport.idle_connections == 1
                    server.close()
                    # The loop takes no turn between this end and the next request.

    run(loop, main)


@loops
@pytest.mark.parametrize(("method", "sent"), [(b"POST", 2), (b"GET", 3), (b"PUT", 2), (b"DELETE", 2)])
def test_only_a_safe_request_is_sent_again_after_a_kept_connection_died_under_it(
    loop: str, method: bytes, sent: int
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(REPLY)
        if peer.place == 0:
            await peer.request()
            peer.reset()
        else:
            await peer.gone()

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            assert await answer(transport, server, method=b"POST") == b"hello"
            if method == b"GET":
                assert await answer(transport, server, b"", method) == b"hello"
            else:
                with pytest.raises(TransportError, match="without a reply") as caught:
                    await answer(transport, server, b"", method)
                assert caught.value.reason == "cut"
            await until(lambda: len(server.requests) >= sent)
            assert len(server.requests) == sent

    run(loop, main)


@loops
def test_a_request_sent_again_takes_a_connection_that_was_not_kept(loop: str) -> None:
    async def script(peer: Peer) -> None:
        for turn in range(2):
            await peer.request()
            if turn and peer.place < 2:
                peer.reset()
                return
            await both.wait()
            await peer.send(REPLY)

    both = asyncio.Event()

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(answer(transport, server))
                await until(lambda: len(server.requests) == 2)
                both.set()
            assert transport.idle_connections == 2
            assert await answer(transport, server, b"", b"GET") == b"hello"
            assert server.connections == 3

    run(loop, main)


@loops
@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_a_get_is_not_sent_again_over_and_over_nor_after_a_reply_began(loop: str, begun: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.place == 0:
            await peer.send(REPLY)
            await peer.request()
        await peer.send(begun)
        peer.reset()

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            assert await answer(transport, server, method=b"GET") == b"hello"
            with pytest.raises(TransportError) as caught:
                await answer(transport, server, b"", b"GET")
            assert caught.value.reason == "cut"
            assert server.connections == (1 if begun else 2)
            assert transport.open_connections == 0

    run(loop, main)


@loops
def test_a_server_that_hangs_up_on_everyone_is_a_failure_and_not_a_loop(loop: str) -> None:
    async def script(peer: Peer) -> None:
        peer.reset()

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            for _ in range(3):
                with pytest.raises(TransportError) as caught:
                    await answer(transport, server, method=b"GET")
                assert caught.value.reason in ("cut", "connect")
            assert server.connections == 3
            assert transport.open_connections == 0

    run(loop, main)


@loops
def test_a_reply_that_is_closed_halfway_closes_its_connection(loop: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(REPLY[:-2])
        await peer.gone()

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            exchange = await post(transport, server)
            assert await exchange.chunk() == b"hel"
            exchange.close()
            assert transport.open_connections == 0
            await until(lambda: server.open == 0)

    run(loop, main)


@loops
def test_five_hundred_requests_at_once_share_fifty_connections(loop: str) -> None:
    async def main() -> None:
        async with serving(replying(REPLY)) as server, HttpTransport(max_connections=50) as transport:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(answer(transport, server, b"%d" % turn)) for turn in range(500)]
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert transport.waiting == 450
            assert {task.result() for task in tasks} == {b"hello"}
            assert server.connections <= 50
            assert sorted(int(request.body) for request in server.requests) == list(range(500))
            assert transport.open_connections == transport.idle_connections <= 50

    run(loop, main)


@loops
def test_who_gets_no_connection_in_time_is_told(loop: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async def main() -> None:
        limits = Timeouts(slot=0.05)
        async with serving(script) as server, HttpTransport(max_connections=1, timeouts=limits) as transport:
            async with asyncio.TaskGroup() as group:
                first = group.create_task(post(transport, server))
                await until(lambda: len(server.requests) == 1)
                with pytest.raises(TransportError) as caught:
                    await post(transport, server)
                assert caught.value.reason == "no_slot"
                first.cancel()
            assert transport.open_connections == 0

    run(loop, main)


@loops
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Timeouts(idle=0.05), "timeout_idle"),
        (Timeouts(total=0.05), "timeout_total"),
        (Timeouts(total=0.05, idle=None), "timeout_total"),
    ],
)
@pytest.mark.parametrize("sent", [b"", REPLY[:20], REPLY[:-1]])
def test_a_silent_upstream_is_given_up_at_its_limit(
    loop: str, limits: Timeouts, reason: str, sent: bytes
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(sent)
        await peer.gone()

    async def main() -> None:
        async with serving(script) as server, HttpTransport(timeouts=limits) as transport:
            with pytest.raises(TransportError) as caught:
                await answer(transport, server)
            assert caught.value.reason == reason
            assert transport.open_connections == 0
            await until(lambda: server.open == 0)

    run(loop, main)


@loops
def test_the_total_counts_while_a_connection_is_awaited_and_opened(loop: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async def main() -> None:
        limits = Timeouts(total=0.1)
        async with serving(script) as server, HttpTransport(max_connections=1, timeouts=limits) as transport:
            endpoint = Endpoint(tls=True, host="127.0.0.1", port=server.endpoint.port)

            async def refused() -> str:
                with pytest.raises(TransportError) as caught:
                    await transport.open(b"POST", endpoint, b"/", [], b"")
                return caught.value.reason

            async with asyncio.TaskGroup() as group:
                both = [group.create_task(refused()) for _ in range(2)]
            assert [task.result() for task in both] == ["timeout_total", "timeout_total"]
            assert transport.open_connections == 0

    run(loop, main)


@loops
def test_one_queue_s_flood_does_not_starve_the_others(loop: str) -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(REPLY, apart=0.001)

    async def main() -> None:
        ended: list[str] = []
        async with serving(script) as server, HttpTransport(max_connections=2) as transport:

            async def ask(queue: str) -> None:
                exchange = await transport.open(b"POST", server.endpoint, b"/", [], b"{}", queue)
                await exchange.whole(100)
                ended.append(queue)

            async with asyncio.TaskGroup() as group:
                for queue in ("flood",) * 50 + ("one", "other"):
                    group.create_task(ask(queue))
            assert len(ended) == 52
            assert {"one", "other"} <= set(ended[:8])

    run(loop, main)


@loops
def test_a_handshake_that_never_ends_is_a_connect_time_out(loop: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async def main() -> None:
        async with serving(script) as server, HttpTransport(timeouts=Timeouts(connect=0.05)) as transport:
            endpoint = Endpoint(tls=True, host="127.0.0.1", port=server.endpoint.port)
            with pytest.raises(TransportError) as caught:
                await transport.open(b"POST", endpoint, b"/", [], b"")
            assert caught.value.reason == "timeout_connect"
            assert transport.open_connections == 0
            await until(lambda: server.open == 0)

    run(loop, main)


@loops
def test_a_refused_connection_leaves_its_slot(loop: str) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            endpoint = Endpoint(tls=False, host="127.0.0.1", port=listener.getsockname()[1])
        async with HttpTransport(max_connections=1) as transport:
            for _ in range(3):
                with pytest.raises(TransportError, match="connection refused"):
                    await transport.open(b"POST", endpoint, b"/", [], b"")
            assert transport.open_connections == 0

    run(loop, main)


@loops
@pytest.mark.parametrize("size", [70_000, 300_000, 5_000_000])
def test_a_large_request_arrives_whole(loop: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256)

    async def main() -> None:
        async with serving(replying(REPLY)) as server, HttpTransport() as transport:
            for _ in range(2):
                assert await answer(transport, server, body) == b"hello"
            assert [request.body == body for request in server.requests] == [True, True]
            assert server.connections == 1

    run(loop, main)


@loops
@pytest.mark.parametrize("close", [True, False])
def test_a_refusal_before_the_request_was_read_is_delivered(loop: str, close: bool) -> None:
    refusal = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 9\r\n\r\ntoo large"

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(refusal)
        if close:
            peer.writer.write_eof()
        await peer.gone()

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            exchange = await post(transport, server, bytes(20_000_000))
            assert exchange.status == 413
            assert await exchange.whole(100) == b"too large"
            assert transport.open_connections == 0

    run(loop, main)


@loops
def test_a_large_reply_waits_in_the_socket_and_not_in_memory(loop: str) -> None:
    size = 30_000_000
    sent: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // 100_000):
            await peer.send(bytes(100_000), apart=None)
            sent.append(100_000)

    async def main() -> None:
        async with serving(script) as server, HttpTransport() as transport:
            exchange = await post(transport, server)
            before = -1
            while before != len(sent):
                before = len(sent)
                await asyncio.sleep(0.1)
            assert exchange.buffered <= 512 * 1024 + 65536
            assert sum(sent) < size / 2
            assert len(await exchange.whole(size)) == size
            assert transport.idle_connections == 1

    run(loop, main)


@loops
def test_closing_the_transport_ends_what_is_under_way(loop: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(REPLY[:-1])
        await peer.gone()

    async def main() -> None:
        async with serving(script) as server:
            async with HttpTransport() as transport:
                exchange = await post(transport, server)
            assert await exchange.chunk() == b"hell"
            with pytest.raises(TransportError, match="cut"):
                await exchange.chunk()
            with pytest.raises(TransportError, match="transport is closed"):
                await post(transport, server)
            assert transport.open_connections == 0
            await until(lambda: server.open == 0)

    run(loop, main)


def test_no_connections_at_all_make_no_transport() -> None:
    with pytest.raises(ValueError, match="max_connections"):
        HttpTransport(max_connections=0)


@loops
def test_tls_connections_are_kept_too(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "localhost.pem", CERTS / "localhost.key.pem")
    body = bytes(3_000_000)

    async def main() -> None:
        async with serving(replying(REPLY), tls=context) as server, HttpTransport() as transport:
            for _ in range(3):
                assert await answer(transport, server, body) == b"hello"
            assert server.connections == 1
            assert all(request.body == body for request in server.requests)

    run(loop, main)


@loops
def test_a_plain_proxy_reads_the_whole_address(loop: str) -> None:
    async def main() -> None:
        async with serving(replying(REPLY)) as middle:
            proxies = Proxies(http=Proxy("127.0.0.1", middle.endpoint.port, b"Basic eDp5"))
            async with HttpTransport(proxies=proxies) as transport:
                for name in ("one.example", "two.example"):
                    endpoint = Endpoint.parse(f"http://{name}/v1?k=1")
                    exchange = await transport.open(b"POST", endpoint, b"/x", [], b"{}")
                    assert await exchange.whole(10) == b"hello"
                assert middle.connections == 1
                assert [request.line for request in middle.requests] == [
                    b"POST http://one.example/v1/x?k=1 HTTP/1.1",
                    b"POST http://two.example/v1/x?k=1 HTTP/1.1",
                ]
                assert middle.requests[0].header(b"host") == b"one.example"
                assert middle.requests[0].header(b"proxy-authorization") == b"Basic eDp5"

    run(loop, main)


@loops
def test_loopback_is_reached_without_the_proxy(loop: str) -> None:
    async def main() -> None:
        proxies = proxies_from({"ALL_PROXY": "http://127.0.0.1:9"})
        async with serving(replying(REPLY)) as server, HttpTransport(proxies=proxies) as transport:
            assert await answer(transport, server) == b"hello"
            assert server.requests[0].line == b"POST /v1/x HTTP/1.1"

    run(loop, main)


@asynccontextmanager
async def uvicorn_serving() -> AsyncIterator[Endpoint]:
    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"x-size", b"%d" % len(body))]}
        )
        for turn in range(3):
            await send({"type": "http.response.body", "body": b"%d" % turn, "more_body": True})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="error", lifespan="off", timeout_keep_alive=1, ws="none")
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve())
        await until(lambda: server.started)
        try:
            yield Endpoint(tls=False, host="127.0.0.1", port=server.servers[0].sockets[0].getsockname()[1])
        finally:
            server.should_exit = True


@loops
def test_a_real_server_is_spoken_to_over_few_connections_and_past_its_keep_alive(loop: str) -> None:
    async def main() -> None:
        async with uvicorn_serving() as endpoint, HttpTransport(max_connections=8) as transport:

            async def ask(turn: int) -> None:
                body = b"%d" % turn * 1000
                exchange = await transport.open(b"POST", endpoint, b"/", [], body)
                assert exchange.header(b"x-size") == b"%d" % len(body)
                assert await exchange.whole(10**6) == b"012" + body

            async with asyncio.TaskGroup() as group:
                for turn in range(100):
                    group.create_task(ask(turn))
            assert 0 < transport.idle_connections <= 8
            # Its keep-alive ends after a second; every connection is noticed and none is used again.
            await until(lambda: transport.idle_connections == 0)
            assert transport.open_connections == 0
            await ask(1)

    run(loop, main)
