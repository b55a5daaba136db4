"""A request's head as bytes, or a refusal.

Pure. Knows the wire form of HTTP/1.1 and what must never get onto it (RFC 9110, RFC 9112): nothing in a name, a value,
a method or a path can begin another header or another request. Knows nothing of connections.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

__all__ = ["request_head"]

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_METHOD: Final = re.compile(rb"[A-Z]+(-[A-Z]+)*")
_TARGET: Final = re.compile(rb"[!\"$-~]+")
# Every control character but the tab, which a value may hold.
_CONTROLS: Final = bytes(code for code in range(0x20) if code != 0x09) + b"\x7f"
_WITH_LENGTH: Final = frozenset({b"POST", b"PUT", b"PATCH"})
# How a message is framed and what becomes of its connection is the transport's own affair.
_OWN_NAMES: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


def request_head(
    method: bytes,
    target: bytes,
    authority: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    body_size: int,
    proxy_credential: bytes | None = None,
) -> bytes:
    """The request line and header block, framed by content-length.

    Raises:
        ValueError: a method, target, name or value that cannot be sent; it never shows a value.
    """
    head = _head_start(method, target, authority, tuple(headers))
    if body_size or method in _WITH_LENGTH:
        head += b"content-length: %d\r\n" % body_size
    if proxy_credential is not None:
        if len(proxy_credential) != len(proxy_credential.translate(None, _CONTROLS)):
            raise ValueError("the proxy's credential holds a line end or another control character")
        head += b"proxy-authorization: %b\r\n" % proxy_credential
    return head + b"\r\n"


# Most calls go to one place with the same headers: they are looked at once. A refusal is not remembered.
@lru_cache(maxsize=64)
def _head_start(
    method: bytes, target: bytes, authority: bytes, headers: tuple[tuple[bytes, bytes], ...]
) -> bytes:
    """The request line, the host and the given headers."""
    parts = [_request_line(method, target), b"\r\nhost: ", authority, b"\r\n"]
    for name, value in headers:
        parts += (_field_start(name), value, b"\r\n")
    head = b"".join(parts)
    # One pass over all of it: the only control characters are the line ends put here.
    if len(head) - len(head.translate(None, _CONTROLS)) != 2 * (2 + len(headers)):
        raise ValueError(_where_a_control_stands(headers))
    return head


# The same few methods, paths and names come with every call: each is looked at once. A refusal is not remembered.
@lru_cache(maxsize=1024)
def _request_line(method: bytes, target: bytes) -> bytes:
    if not _METHOD.fullmatch(method) or method == b"CONNECT":
        raise ValueError(f"{method[:40]!r} is not a method that can be sent")
    if not _TARGET.fullmatch(target):
        raise ValueError(
            "the path holds a space, a '#', or a byte outside printable ASCII; percent-encode it"
        )
    return method + b" " + target + b" HTTP/1.1"


@lru_cache(maxsize=1024)
def _field_start(name: bytes) -> bytes:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is not a header name")
    if name.lower() in _OWN_NAMES:
        raise ValueError(f"the transport sets {name.decode('ascii')!r} itself; leave it out")
    return name + b": "


def _where_a_control_stands(headers: Sequence[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if len(value) != len(value.translate(None, _CONTROLS)):
            return (
                f"the value of header {name.decode('ascii')!r} holds a line end or another control character"
            )
    return "the request's head holds a line end or another control character"
