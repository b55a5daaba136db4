"""A reply's head as bytes, or a refusal: nothing in a name or a value can begin another header or another reply.

Pure. Knows the wire form of HTTP/1.1 (RFC 9110, RFC 9112) and no connection.
"""

from __future__ import annotations

import http
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

__all__ = ["reply_head"]

_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Every control character but the tab, which a value may hold.
_CONTROLS: Final = bytes(code for code in range(0x20) if code != 0x09) + b"\x7f"


def reply_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The status line and the headers. Raises ValueError for what cannot be sent; it never shows a value."""
    parts = [_status_line(status)]
    for name, value in headers:
        parts += (_field_start(name), value, b"\r\n")
    parts.append(b"\r\n")
    head = b"".join(parts)
    # One pass over all of it: the only control characters are the line ends put here.
    lines = len(parts) // 3 + 2
    if len(head) - len(head.translate(None, _CONTROLS)) != 2 * lines:
        raise ValueError("a header of the reply holds a line end or another control character")
    return head


# The same few come with every reply: each is looked at once. A refusal is not remembered.
@lru_cache(maxsize=128)
def _status_line(status: int) -> bytes:
    if not 200 <= status <= 999:
        raise ValueError(f"a reply cannot have the status {status}")
    known = {found.value: found.phrase for found in http.HTTPStatus}
    return f"HTTP/1.1 {status} {known.get(status, '')}\r\n".encode("ascii")


@lru_cache(maxsize=1024)
def _field_start(name: bytes) -> bytes:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is not a header name")
    return name + b": "
