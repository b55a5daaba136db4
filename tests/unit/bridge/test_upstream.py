"""Where an upstream is, its time limits and its one error."""

from __future__ import annotations

import pickle

import pytest

from osmosis_bridge.upstream import Endpoint, Timeouts, TransportError


@pytest.mark.parametrize(
    ("url", "tls", "host", "port", "prefix", "query", "authority"),
    [
        ("http://127.0.0.1:8000/v1", False, "127.0.0.1", 8000, b"/v1", b"", b"127.0.0.1:8000"),
        ("https://api.example.com", True, "api.example.com", 443, b"", b"", b"api.example.com"),
        ("https://api.example.com:443/v1/", True, "api.example.com", 443, b"/v1", b"", b"api.example.com"),
        ("HTTPS://API.Example.COM/V1", True, "api.example.com", 443, b"/V1", b"", b"api.example.com"),
        ("http://example.com:443/", False, "example.com", 443, b"", b"", b"example.com:443"),
        ("http://[::1]:8000/v1", False, "::1", 8000, b"/v1", b"", b"[::1]:8000"),
        ("http://[2001:DB8:0::1]", False, "2001:db8::1", 80, b"", b"", b"[2001:db8::1]"),
        ("http://[fe80::1%25eth0]:80/", False, "fe80::1%eth0", 80, b"", b"", b"[fe80::1]"),
        ("http://vllm_0:8000/v1", False, "vllm_0", 8000, b"/v1", b"", b"vllm_0:8000"),
        ("http://bücher.example/a", False, "xn--bcher-kva.example", 80, b"/a", b"", b"xn--bcher-kva.example"),
        ("http://h/a%2Fb/%C3%BC", False, "h", 80, b"/a%2Fb/%C3%BC", b"", b"h"),
        ("http://h/ü", False, "h", 80, b"/%C3%BC", b"", b"h"),
        ("https://h/o/d?api-version=2024-10-21", True, "h", 443, b"/o/d", b"api-version=2024-10-21", b"h"),
    ],
)
def test_a_url_is_read_once_into_what_a_request_needs(
    url: str, tls: bool, host: str, port: int, prefix: bytes, query: bytes, authority: bytes
) -> None:
    endpoint = Endpoint.parse(url)
    assert endpoint == Endpoint(tls=tls, host=host, port=port, prefix=prefix, query=query)
    assert endpoint.authority == authority
    assert endpoint.origin == (host, port, tls)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://h/v1", "'ftp'"),
        ("h:8000/v1", "'h'"),
        ("api.example.com/v1", "no scheme"),
        ("", "no scheme"),
        ("http://", "names no host"),
        ("http:///v1", "names no host"),
        ("http://:80/", "names no host"),
        ("http://h:0/", "1 to 65535"),
        ("http://h:65536/", "1 to 65535"),
        ("http://h:x/", "1 to 65535"),
        ("http://h/a b", "space or a control"),
        ("http://h/a\r\nx: y", "space or a control"),
        ("http://h\n/", "space or a control"),
        ("http://h/#part", "'#'"),
        ("http://[::1", "not readable"),
        ("http://[::g]/", "not readable|IPv6"),
        ("http://a..b/", "not a host name"),
        ("http://a!b/", "not a host name"),
        ("http://-a/", "not a host name"),
    ],
)
def test_what_is_no_upstream_url_is_refused_with_what_is_wrong(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Endpoint.parse(url)


def test_a_url_with_user_info_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="user info") as caught:
        Endpoint.parse("https://someone:hunter2@api.example.com/v1?key=hunter3")
    assert "hunter" not in str(caught.value)
    assert "someone" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "path", "target"),
    [
        ("http://h/v1", b"/chat/completions", b"/v1/chat/completions"),
        ("http://h/v1/", b"/chat/completions", b"/v1/chat/completions"),
        ("http://h", b"/x", b"/x"),
        ("http://h", b"", b"/"),
        ("http://h/", b"", b"/"),
        ("http://h/v1", b"", b"/v1"),
        ("http://h/v1", b"/x?a=1", b"/v1/x?a=1"),
        ("http://h/v1?v=2", b"/x", b"/v1/x?v=2"),
        ("http://h/v1?v=2", b"/x?a=1&b=2", b"/v1/x?v=2&a=1&b=2"),
        ("http://h?v=2", b"", b"/?v=2"),
        ("http://h/v1?v=2", b"/x?", b"/v1/x?v=2"),
    ],
)
def test_a_target_is_the_base_then_the_path_then_both_queries(url: str, path: bytes, target: bytes) -> None:
    assert Endpoint.parse(url).target(path) == target


def test_a_url_is_displayed_without_its_query() -> None:
    shown = Endpoint.parse("https://h:8443/v1?key=secret").url_for_display
    assert shown == "https://h:8443/v1"
    assert Endpoint.parse("http://[::1]:80/a").url_for_display == "http://[::1]/a"
    assert Endpoint.parse("https://h:8443/v1?key=secret").shown_origin == "https://h:8443"


@pytest.mark.parametrize("name", ["connect", "idle", "total", "slot"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
def test_a_time_limit_is_more_than_nothing(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        Timeouts(**{name: value})


def test_idle_and_total_may_be_without_limit() -> None:
    assert Timeouts(idle=None, total=None).idle is None


def test_a_transport_error_says_its_reason_and_survives_pickling() -> None:
    error = TransportError("cut", "the connection closed")
    assert str(error) == "cut: the connection closed"
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.detail) == ("cut", "the connection closed")
