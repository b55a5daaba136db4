"""The guard of conftest.py: tests reach this machine and nothing else."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

# An address set aside for documentation (RFC 5737): nobody answers there.
ELSEWHERE = "192.0.2.1"


def test_a_socket_cannot_leave_this_machine() -> None:
    with socket.socket() as sock, pytest.raises(RuntimeError, match="only loopback"):
        sock.connect((ELSEWHERE, 443))


def test_a_datagram_cannot_leave_this_machine() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(RuntimeError, match="only loopback"):
        sock.sendto(b"x", (ELSEWHERE, 53))


def test_names_are_not_looked_up() -> None:
    with pytest.raises(RuntimeError, match=r"example\.com"):
        socket.getaddrinfo("example.com", 443)


def test_a_name_that_cannot_exist_is_unknown() -> None:
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("provider.invalid", 443)


def test_an_event_loop_cannot_leave_either() -> None:
    with pytest.raises(RuntimeError, match="only loopback"):
        asyncio.run(asyncio.open_connection(ELSEWHERE, 443))


def test_a_client_library_cannot_leave_either() -> None:
    with httpx.Client(trust_env=False) as client, pytest.raises(RuntimeError, match="only loopback"):
        client.get(f"http://{ELSEWHERE}/")


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_loopback_is_reached(family: socket.AddressFamily, host: str) -> None:
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with server, socket.create_connection(server.getsockname()[:2], timeout=5) as client:
        accepted, _ = server.accept()
        accepted.close()
        assert client.getpeername()[1] == server.getsockname()[1]
