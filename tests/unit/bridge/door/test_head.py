"""A reply's head: what is sent, and what never is."""

from __future__ import annotations

import pytest

from osmosis_bridge.door.head import reply_head


def test_a_head_is_the_status_the_headers_in_order_and_an_empty_line() -> None:
    head = reply_head(200, [(b"date", b"now"), (b"x-a", b"1"), (b"x-a", b"")])
    assert head == b"HTTP/1.1 200 OK\r\ndate: now\r\nx-a: 1\r\nx-a: \r\n\r\n"


@pytest.mark.parametrize(
    ("status", "line"),
    [(404, b"HTTP/1.1 404 Not Found"), (529, b"HTTP/1.1 529 "), (999, b"HTTP/1.1 999 ")],
)
def test_a_status_without_a_name_is_sent_all_the_same(status: int, line: bytes) -> None:
    assert reply_head(status, []) == line + b"\r\n\r\n"


@pytest.mark.parametrize("status", [0, 100, 199, 1000])
def test_what_is_no_status_of_a_reply_is_refused(status: int) -> None:
    with pytest.raises(ValueError, match=f"status {status}"):
        reply_head(status, [])


@pytest.mark.parametrize("code", [*range(0x09), *range(0x0A, 0x20), 0x7F])
def test_no_value_can_begin_another_header_or_another_reply(code: int) -> None:
    with pytest.raises(ValueError, match="line end or another control character") as caught:
        reply_head(200, [(b"x-a", b"secret" + bytes([code]) + b"x-b: 1"), (b"x-c", b"2")])
    assert "secret" not in str(caught.value)


def test_a_value_may_hold_tabs_and_bytes_beyond_ascii() -> None:
    assert b"\r\nx-a: a\tb\xe9\r\n" in reply_head(200, [(b"x-a", b"a\tb\xe9")])


@pytest.mark.parametrize("name", [b"", b"x a", b"x:a", b"x\r\ny", b"x-\xe9"])
def test_what_is_no_name_is_refused_each_time(name: bytes) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="is not a header name"):
            reply_head(200, [(name, b"1")])
