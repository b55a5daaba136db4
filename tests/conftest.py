"""What every test shares: no address but this machine's is reached, Hypothesis searches without a clock, and signals
mean what they mean in a terminal.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys

from hypothesis import HealthCheck, settings

# litellm would fetch a price list as it is imported; the one it carries serves.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# Who is started in the background (`nohup`, `&` in a script) ignores these, and so does every process it starts; tests
# send them to processes of their own.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

_NAMES_OF_THIS_MACHINE = frozenset({"", "localhost", "testserver"})
_PLACE_OF_HOST = {"socket.connect": 1, "socket.sendto": 1, "socket.getaddrinfo": 0, "socket.gethostbyname": 0}


def is_of_this_machine(host: object) -> bool:
    """Whether a host, as the socket module sees it, stays on this machine; names other than localhost do not."""
    if isinstance(host, bytes):
        host = host.decode("utf-8", "replace")
    if host is None or not isinstance(host, str) or host in _NAMES_OF_THIS_MACHINE or host.startswith("/"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse_to_leave(event: str, arguments: tuple[object, ...]) -> None:
    place = _PLACE_OF_HOST.get(event)
    if place is None:
        return
    address = arguments[place]
    # A Unix socket's address is a path, an internet one a tuple that begins with the host.
    host = address[0] if isinstance(address, tuple) and address else address
    if isinstance(host, str | bytes) and host[-8:] in (".invalid", b".invalid"):
        # What a resolver always says of this domain (RFC 6761), without asking one.
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if not is_of_this_machine(host):
        message = f"a test tried to reach {host!r}; only loopback addresses may be reached"
        raise RuntimeError(message)


# An audit hook stands below every library, and cannot be undone by a test.
sys.addaudithook(_refuse_to_leave)
