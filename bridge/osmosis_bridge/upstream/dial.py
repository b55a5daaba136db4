"""A new connection to an endpoint: names, addresses, a proxy's tunnel and TLS.

Knows how a socket is reached and how that fails. Knows nothing of requests. Details of errors name what went wrong and
never where: hosts may be private.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import zip_longest
from select import POLLOUT, poll
from typing import Final

import certifi

from osmosis_bridge.upstream import Endpoint, TransportError
from osmosis_bridge.upstream.connection import Connection
from osmosis_bridge.upstream.proxy import Proxy

__all__ = ["dial", "tls_context"]

_Address = tuple[socket.AddressFamily, tuple[str | int | bytes, ...]]

# RFC 8305: how long one address may keep the next from being tried.
_HEAD_START: Final = 0.25
_TUNNEL_REPLY_LIMIT: Final = 16 * 1024
# Seconds of silence before the kernel asks whether the other side still lives: streams may be silent for long.
_KEEPALIVE_AFTER: Final = 60


def tls_context() -> ssl.SSLContext:
    """Verifies certificates and host names against the system's store (SSL_CERT_FILE and SSL_CERT_DIR are heard).

    An interpreter that finds no store on its machine takes the one of certifi.
    """
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not paths.cafile and not _has_entries(paths.capath):
        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


async def dial(
    endpoint: Endpoint, proxy: Proxy | None, context: ssl.SSLContext | None, make: Callable[[], Connection]
) -> Connection:
    """Connect, through a proxy if there is one, and with TLS if the endpoint wants it.

    Raises:
        TransportError: ``connect`` or ``tls``.
        TimeoutError: the kernel gave up first.
    """
    host, port = (endpoint.host, endpoint.port) if proxy is None else (proxy.host, proxy.port)
    try:
        sock = await _connect(await _addresses(host, port))
        try:
            _tune(sock)
            if proxy is not None and endpoint.tls:
                await _open_tunnel(sock, endpoint, proxy)
        except BaseException:
            sock.close()
            raise
        name = endpoint.host if endpoint.tls else None
        loop = asyncio.get_running_loop()
        # From here on the loop owns the socket, and closes it if the handshake fails or is cancelled.
        _, connection = await loop.create_connection(
            make, sock=sock, ssl=context if endpoint.tls else None, server_hostname=name
        )
    except ssl.SSLCertVerificationError as error:
        raise TransportError("tls", f"the certificate was refused: {error.verify_message}") from error
    except ssl.SSLError as error:
        reason = (error.reason or "unreadable reply").lower().replace("_", " ")
        raise TransportError("tls", f"the TLS handshake failed: {reason}") from error
    except TimeoutError:
        raise
    except OSError as error:
        raise TransportError("connect", _why(error)) from error
    return connection


async def _addresses(host: str, port: int) -> list[_Address]:
    with suppress(ValueError):
        literal = ipaddress.ip_address(host)
        if literal.version == 4:
            return [(socket.AF_INET, (host, port))]
        if "%" not in host:
            return [(socket.AF_INET6, (host, port, 0, 0))]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return _taking_turns([(family, address) for family, _, _, _, address in found])


def _taking_turns(addresses: Sequence[_Address]) -> list[_Address]:
    """The resolver's order, but with the two families by turns: one of them may be dead on this network."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    other = [address for address in addresses if address[0] != addresses[0][0]]
    pairs = zip_longest(first, other)
    return [address for pair in pairs for address in pair if address is not None]


async def _connect(addresses: Sequence[_Address]) -> socket.socket:
    if len(addresses) == 1:
        return await _connect_one(addresses[0])
    return await _Race(addresses).run()


async def _connect_one(address: _Address) -> socket.socket:
    family, where = address
    # The protocol is named because event loops set TCP_NODELAY only where it is.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        fault = sock.connect_ex(where)
        if fault == errno.EINPROGRESS:
            # A server of this machine has answered by now, and nobody need be woken for it.
            if not _is_writable(sock):
                await _until_writable(sock)
            fault = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if fault:
            raise OSError(fault, os.strerror(fault))
    except BaseException:
        sock.close()
        raise
    return sock


def _is_writable(sock: socket.socket) -> bool:
    probe = poll()
    probe.register(sock, POLLOUT)
    return bool(probe.poll(0))


async def _until_writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    writable = asyncio.Event()
    loop.add_writer(sock, writable.set)
    try:
        await writable.wait()
    finally:
        loop.remove_writer(sock)


class _Race:
    """Several addresses tried with a head start each; the first that answers wins (RFC 8305, happy eyeballs)."""

    def __init__(self, addresses: Sequence[_Address]) -> None:
        self._addresses = addresses
        self._failed = [asyncio.Event() for _ in addresses]
        self._errors: list[OSError] = []
        self._winner: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> socket.socket:
        try:
            async with asyncio.TaskGroup() as group:
                self._tasks = [group.create_task(self._try(turn)) for turn in range(len(self._addresses))]
        except BaseException:
            if self._winner is not None:
                self._winner.close()
            raise
        if self._winner is None:
            raise self._errors[0] if self._errors else OSError("no address")
        return self._winner

    async def _try(self, turn: int) -> None:
        if turn:
            with suppress(TimeoutError):
                async with asyncio.timeout(_HEAD_START * turn):
                    await self._failed[turn - 1].wait()
        try:
            sock = await _connect_one(self._addresses[turn])
        except OSError as error:
            self._errors.append(error)
            self._failed[turn].set()
            return
        if self._winner is not None:
            sock.close()
            return
        self._winner = sock
        for other, task in enumerate(self._tasks):
            if other != turn:
                task.cancel()


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_AFTER)


async def _open_tunnel(sock: socket.socket, endpoint: Endpoint, proxy: Proxy) -> None:
    """CONNECT; the far side of a tunnel for TLS never speaks first, so nothing may follow the proxy's head."""
    loop = asyncio.get_running_loop()
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    where = f"{host}:{endpoint.port}".encode("ascii")
    credential = b"" if proxy.credential is None else b"proxy-authorization: " + proxy.credential + b"\r\n"
    await loop.sock_sendall(
        sock, b"CONNECT " + where + b" HTTP/1.1\r\nhost: " + where + b"\r\n" + credential + b"\r\n"
    )
    reply = b""
    while b"\r\n\r\n" not in reply:
        piece = await loop.sock_recv(sock, 4096)
        reply += piece
        if not piece or len(reply) > _TUNNEL_REPLY_LIMIT:
            raise TransportError("connect", "the proxy did not answer the request for a tunnel")
    status = reply[9:12]
    if not reply.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")) or not status.isdigit():
        raise TransportError("connect", "the proxy did not answer in HTTP/1.1")
    if not status.startswith(b"2"):
        raise TransportError("connect", f"the proxy refused a tunnel with status {status.decode('ascii')}")
    if not reply.endswith(b"\r\n\r\n"):
        raise TransportError("connect", "the proxy sent bytes nobody asked for")


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "the host name could not be resolved"
    if error.errno is None:
        return "the connection was closed while it was being opened"
    return os.strerror(error.errno).lower()


def _has_entries(folder: str | None) -> bool:
    if folder is None:
        return False
    try:
        with os.scandir(folder) as entries:
            return any(entries)
    except OSError:
        return False
