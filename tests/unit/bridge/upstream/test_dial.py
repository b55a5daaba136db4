"""A new connection: addresses, TLS, a proxy's tunnel, and every way they fail."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from osmosis_bridge.upstream import Endpoint, Timeouts, TransportError
from osmosis_bridge.upstream import dial as dial_module
from osmosis_bridge.upstream.connection import Connection
from osmosis_bridge.upstream.dial import dial, tls_context
from osmosis_bridge.upstream.pool import Pool
from osmosis_bridge.upstream.proxy import Proxy
from upstream_server import LOOPS, Peer, replying, run, serving, until

FILES = Path("/proc/self/fd")
CERTS = Path(__file__).parent / "certs"
REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
loops = pytest.mark.parametrize("loop", list(LOOPS))


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "localhost.pem", CERTS / "localhost.key.pem")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "ca.pem"))


def maker() -> Callable[[], Connection]:
    loop, pool = asyncio.get_running_loop(), Pool(10, 30)
    return lambda: Connection(loop, pool, "key", Timeouts())


async def connected(endpoint: Endpoint, proxy: Proxy | None = None) -> Connection:
    return await dial(endpoint, proxy, tls_context() if endpoint.tls else None, maker())


async def hello(connection: Connection) -> bytes:
    exchange = connection.start(b"GET", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"", None)
    body = await exchange.whole(100)
    connection.abort()
    await asyncio.sleep(0)
    return body


async def failure(endpoint: Endpoint, proxy: Proxy | None = None) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await connected(endpoint, proxy)
    assert endpoint.host not in caught.value.detail
    return caught.value


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@loops
def test_a_connection_is_made_and_sends_small_packets_at_once(loop: str) -> None:
    async def main() -> None:
        async with serving(replying(REPLY)) as server:
            connection = await connected(server.endpoint)
            transport = connection._transport
            assert transport is not None
            sock = transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert await hello(connection) == b"hello"

    run(loop, main)


@loops
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_name_of_many_addresses_is_tried_at_each(loop: str, host: str) -> None:
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        pytest.skip(f"this machine has no {host}")

    async def main() -> None:
        addresses = {found[4][0] for found in socket.getaddrinfo("localhost", 1, type=socket.SOCK_STREAM)}
        async with serving(replying(REPLY), host=host) as server:
            name = "localhost" if host in addresses else host
            endpoint = Endpoint(tls=False, host=name, port=server.endpoint.port)
            assert await hello(await connected(endpoint)) == b"hello"

    run(loop, main)


@loops
def test_a_server_that_is_far_is_waited_for(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[socket.socket] = []

    def not_yet(sock: socket.socket) -> bool:
        asked.append(sock)
        return False

    async def main() -> None:
        async with serving(replying(REPLY)) as server:
            assert await hello(await connected(server.endpoint)) == b"hello"
        assert len(asked) == 1
        error = await failure(Endpoint(tls=False, host="127.0.0.1", port=unused_port()))
        assert (error.reason, error.detail) == ("connect", "connection refused")

    monkeypatch.setattr(dial_module, "_is_writable", not_yet)
    run(loop, main)


@loops
@pytest.mark.skipif(
    not FILES.exists(), reason="only Linux lists open files, and drops what a backlog cannot hold"
)
def test_waiting_for_a_server_ends_with_the_one_who_waits_and_leaves_no_socket(loop: str) -> None:
    async def main() -> None:
        with contextlib.ExitStack() as stack:
            full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            for _ in range(3):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
            await asyncio.sleep(0)
            before = len(list(FILES.iterdir()))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(dial_module._connect_one((socket.AF_INET, full.getsockname())), 0.1)
            assert len(list(FILES.iterdir())) == before

    run(loop, main)


@loops
def test_an_address_that_does_not_answer_is_overtaken_by_the_next(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    genuine = dial_module._connect_one

    async def connect_one(
        address: tuple[socket.AddressFamily, tuple[str | int | bytes, ...]],
    ) -> socket.socket:
        tried.append(str(address[1][0]))
        if address[1][0] == "192.0.2.1":
            await asyncio.get_running_loop().create_future()
        return await genuine(address)

    async def main() -> None:
        async with serving(replying(REPLY)) as server:
            port = server.endpoint.port
            addresses = [(socket.AF_INET, (host, port)) for host in ("192.0.2.1", "127.0.0.1", "127.0.0.2")]
            sock = await dial_module._connect(addresses)
            assert sock.getpeername() == ("127.0.0.1", port)
            sock.close()
            assert tried == ["192.0.2.1", "127.0.0.1"]

    monkeypatch.setattr(dial_module, "_connect_one", connect_one)
    run(loop, main)


@loops
def test_refusals_of_every_address_are_one_refusal(loop: str) -> None:
    async def main() -> None:
        port = unused_port()
        addresses = [(socket.AF_INET, (host, port)) for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3")]
        with pytest.raises(ConnectionRefusedError):
            await dial_module._connect(addresses)

    run(loop, main)


def test_families_take_turns() -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    found = [(six, ("a", 1)), (six, ("b", 1)), (four, ("c", 1)), (six, ("d", 1))]
    assert [address[0] for _, address in dial_module._taking_turns(found)] == ["a", "c", "b", "d"]
    assert dial_module._taking_turns([]) == []


@loops
def test_a_closed_port_is_a_connect_failure(loop: str) -> None:
    async def main() -> None:
        error = await failure(Endpoint(tls=False, host="127.0.0.1", port=unused_port()))
        assert (error.reason, error.detail) == ("connect", "connection refused")

    run(loop, main)


def test_an_unknown_name_is_a_connect_failure() -> None:
    async def main() -> None:
        error = await failure(Endpoint.parse("http://provider.invalid/"))
        assert (error.reason, error.detail) == ("connect", "the host name could not be resolved")

    # The resolver of the other loop is written in C and cannot be kept from asking the network.
    run("asyncio", main)


@loops
@pytest.mark.usefixtures("trusted")
def test_tls_speaks_http_1_1_with_a_trusted_server(loop: str, server_tls: ssl.SSLContext) -> None:
    async def main() -> None:
        async with serving(replying(REPLY), tls=server_tls) as server:
            connection = await connected(server.endpoint)
            transport = connection._transport
            assert transport is not None
            assert transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            assert await hello(connection) == b"hello"

    run(loop, main)


@loops
def test_a_certificate_of_an_unknown_authority_is_refused(loop: str, server_tls: ssl.SSLContext) -> None:
    async def main() -> None:
        async with serving(replying(REPLY), tls=server_tls) as server:
            error = await failure(server.endpoint)
            assert error.reason == "tls"
            assert "certificate was refused" in error.detail

    run(loop, main)


@loops
@pytest.mark.usefixtures("trusted")
def test_a_certificate_for_another_name_is_refused(loop: str, server_tls: ssl.SSLContext) -> None:
    async def main() -> None:
        async with serving(replying(REPLY), tls=server_tls) as server:
            with pytest.raises(TransportError, match="certificate was refused") as caught:
                await connected(Endpoint(tls=True, host="127.0.0.1", port=server.endpoint.port))
            assert caught.value.reason == "tls"

    run(loop, main)


@loops
def test_a_server_that_speaks_no_tls_is_a_tls_failure(loop: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.gone()

    async def main() -> None:
        async with serving(script) as server:
            error = await failure(Endpoint(tls=True, host="127.0.0.1", port=server.endpoint.port))
            assert error.reason == "tls"

    run(loop, main)


@loops
def test_a_server_that_hangs_up_in_the_handshake_is_a_failure(loop: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(10)

    async def main() -> None:
        async with serving(script) as server:
            error = await failure(Endpoint(tls=True, host="127.0.0.1", port=server.endpoint.port))
            assert error.reason in ("connect", "tls")

    run(loop, main)


@loops
@pytest.mark.parametrize("stage", ["handshake", "tunnel"])
def test_a_cancelled_attempt_closes_its_socket(loop: str, stage: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.gone()

    async def main() -> None:
        async with serving(script) as server:
            proxy = None if stage == "handshake" else Proxy("127.0.0.1", server.endpoint.port)
            host = "127.0.0.1" if proxy is None else "api.example.com"
            endpoint = Endpoint(tls=True, host=host, port=server.endpoint.port)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(connected(endpoint, proxy), 0.1)
            assert server.connections == 1
            await until(lambda: server.open == 0)

    run(loop, main)


@loops
@pytest.mark.usefixtures("trusted")
def test_tls_goes_through_a_tunnel(loop: str, server_tls: ssl.SSLContext) -> None:
    asked: list[bytes] = []

    async def main() -> None:
        async with serving(replying(REPLY), tls=server_tls) as server:

            async def script(peer: Peer) -> None:
                asked.append((await peer.request()).head)
                await peer.send(b"HTTP/1.1 200 Connection ", b"established\r\nvia: x\r\n\r\n")
                reader, writer = await asyncio.open_connection("127.0.0.1", server.endpoint.port)
                async with asyncio.TaskGroup() as group:
                    group.create_task(pipe(peer.reader, writer))
                    group.create_task(pipe(reader, peer.writer))

            async with serving(script) as middle:
                proxy = Proxy("127.0.0.1", middle.endpoint.port, b"Basic eDp5")
                assert await hello(await connected(server.endpoint, proxy)) == b"hello"
            where = b"localhost:%d" % server.endpoint.port
            assert asked == [
                b"CONNECT %b HTTP/1.1\r\nhost: %b\r\nproxy-authorization: Basic eDp5\r\n\r\n" % (where, where)
            ]

    run(loop, main)


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@loops
@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "status 407"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", "status 502"),
        (b"HTTP/1.1 200 OK\r\n\r\nmore", "bytes nobody asked for"),
        (b"<html>\r\n\r\n", "did not answer in HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n", "did not answer the request"),
        (b"", "did not answer the request"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 20_000, "did not answer the request"),
    ],
)
def test_a_proxy_that_gives_no_tunnel_is_a_connect_failure(loop: str, reply: bytes, detail: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply)

    async def main() -> None:
        async with serving(script) as server:
            error = await failure(
                Endpoint.parse("https://api.example.com/"), Proxy("127.0.0.1", server.endpoint.port)
            )
            assert error.reason == "connect"
            assert detail in error.detail

    run(loop, main)


def test_the_systems_store_is_used_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def authorities() -> int:
        return tls_context().cert_store_stats()["x509_ca"]

    monkeypatch.setenv("SSL_CERT_FILE", str(CERTS / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert authorities() == 1
    # No store anywhere: the one that comes with us.
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert authorities() > 50
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "nowhere"))
    assert authorities() > 50


def test_a_tls_context_verifies() -> None:
    context = tls_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
