"""A request's head: what is on the wire, and what never gets there."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis_bridge.upstream.request import request_head

KEY = (b"authorization", b"Bearer sk-secret")


def test_a_post_is_framed_by_its_length() -> None:
    head = request_head(b"POST", b"/v1/x", b"h:8000", [KEY, (b"Accept", b"*/*")], 12)
    assert head == (
        b"POST /v1/x HTTP/1.1\r\nhost: h:8000\r\nauthorization: Bearer sk-secret\r\nAccept: */*\r\n"
        b"content-length: 12\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("method", "size", "has_length"),
    [
        (b"POST", 0, True),
        (b"PUT", 0, True),
        (b"PATCH", 0, True),
        (b"GET", 0, False),
        (b"HEAD", 0, False),
        (b"DELETE", 0, False),
        (b"DELETE", 3, True),
        (b"GET", 3, True),
    ],
)
def test_a_length_is_told_where_there_is_or_could_be_a_body(
    method: bytes, size: int, has_length: bool
) -> None:
    head = request_head(method, b"/", b"h", [], size)
    assert (b"content-length: %d\r\n" % size in head) is has_length


def test_a_proxy_credential_is_a_header_of_its_own() -> None:
    head = request_head(b"GET", b"http://h/x", b"h", [], 0, b"Basic eA==")
    assert head == b"GET http://h/x HTTP/1.1\r\nhost: h\r\nproxy-authorization: Basic eA==\r\n\r\n"


@pytest.mark.parametrize("bad", [b"\r\nx: y", b"a\rb", b"a\nb", b"a\0b", b"\x1b[0m", b"a\x7f"])
def test_a_value_cannot_begin_another_line_and_the_refusal_does_not_show_it(bad: bytes) -> None:
    with pytest.raises(ValueError, match="'x-note'") as caught:
        request_head(b"POST", b"/", b"h", [KEY, (b"x-note", b"secret" + bad)], 0)
    assert "secret" not in str(caught.value)


def test_tabs_and_bytes_beyond_ascii_may_stand_in_a_value() -> None:
    assert b"x: a\tb\xe9\r\n" in request_head(b"GET", b"/", b"h", [(b"x", b"a\tb\xe9")], 0)


@pytest.mark.parametrize("name", [b"", b"a b", b"a:", b"a\r\nb", b"a\0", b"\xc3\xa9", b" a", b"a ", b"a(b)"])
def test_a_name_that_is_no_token_is_refused(name: bytes) -> None:
    with pytest.raises(ValueError, match="not a header name"):
        request_head(b"GET", b"/", b"h", [(name, b"v")], 0)


@pytest.mark.parametrize(
    "name",
    [
        b"host",
        b"Content-Length",
        b"TRANSFER-ENCODING",
        b"connection",
        b"expect",
        b"upgrade",
        b"te",
        b"trailer",
    ],
)
def test_names_that_frame_a_message_are_the_transports_own(name: bytes) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=r"sets .* itself"):
            request_head(b"GET", b"/", b"h", [(name, b"v")], 0)


@pytest.mark.parametrize("method", [b"", b"get", b"G T", b"GET\r\n", b"CONNECT", b"GET /x HTTP/1.1\r\n"])
def test_a_method_that_is_none_is_refused(method: bytes) -> None:
    with pytest.raises(ValueError, match="not a method"):
        request_head(method, b"/", b"h", [], 0)


@pytest.mark.parametrize("target", [b"", b"/a b", b"/a\r\nb", b"/a\0", b"/\xc3\xa9", b"/a#b", b"/a\tb"])
def test_a_path_that_would_break_the_request_line_is_refused(target: bytes) -> None:
    with pytest.raises(ValueError, match="percent-encode"):
        request_head(b"GET", target, b"h", [], 0)


class _Reading:
    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_message_complete(self) -> None:
        self.complete += 1


@given(
    headers=st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=12)), max_size=4),
    target=st.binary(max_size=12),
)
def test_whatever_is_given_one_request_with_just_these_headers_comes_of_it_or_a_refusal(
    headers: list[tuple[bytes, bytes]], target: bytes
) -> None:
    try:
        head = request_head(b"POST", b"/" + target, b"h", headers, 2)
    except ValueError:
        return
    reading = _Reading()
    parser = httptools.HttpRequestParser(reading)
    parser.feed_data(head + b"ok")
    assert reading.complete == 1
    assert [name for name, _ in reading.headers] == [
        b"host",
        *[name for name, _ in headers],
        b"content-length",
    ]
