"""Which proxy stands on the way, by the environment's rules."""

from __future__ import annotations

import pytest

from osmosis_bridge.upstream import Endpoint
from osmosis_bridge.upstream.proxy import Proxies, Proxy, proxies_from

PLAIN = Endpoint.parse("http://api.example.com/v1")
TLS = Endpoint.parse("https://api.example.com/v1")
PROXY = Proxy("proxy.local", 3128)


def test_an_empty_environment_means_no_proxy() -> None:
    assert proxies_from({}) == Proxies()
    assert Proxies().between(TLS) is None


def test_each_scheme_has_its_own_variable() -> None:
    proxies = proxies_from({"HTTP_PROXY": "http://a:1", "HTTPS_PROXY": "http://b:2/"})
    assert proxies.between(PLAIN) == Proxy("a", 1)
    assert proxies.between(TLS) == Proxy("b", 2)


def test_all_proxy_stands_in_for_what_is_not_set() -> None:
    proxies = proxies_from({"ALL_PROXY": "http://a:1", "https_proxy": "b:2"})
    assert (proxies.between(PLAIN), proxies.between(TLS)) == (Proxy("a", 1), Proxy("b", 2))


def test_the_lower_case_name_wins_even_when_it_is_empty() -> None:
    assert proxies_from({"https_proxy": "", "HTTPS_PROXY": "http://b:2"}).https is None


def test_a_proxy_may_be_named_without_scheme_or_port() -> None:
    assert proxies_from({"HTTPS_PROXY": "proxy.local"}).https == Proxy("proxy.local", 80)


def test_a_credential_is_decoded_and_not_shown() -> None:
    proxy = proxies_from({"HTTPS_PROXY": "http://us%40er:p%3Aw@proxy.local:3128"}).https
    assert proxy is not None
    assert proxy.credential == b"Basic dXNAZXI6cDp3"
    assert "dXNA" not in repr(proxy)


def test_a_cgi_program_does_not_believe_the_upper_case_name() -> None:
    assert proxies_from({"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}).http is None


@pytest.mark.parametrize(
    "value", ["socks5://u:hunter2@h:1", "https://u:hunter2@h:1", "http://u:hunter2@h:x", "http://:1"]
)
def test_a_proxy_that_cannot_be_used_is_refused_by_name_without_its_password(value: str) -> None:
    with pytest.raises(ValueError, match="HTTPS_PROXY must be http://") as caught:
        proxies_from({"HTTPS_PROXY": value})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://127.9.9.9/",
        "https://[::1]/",
        "http://localhost:80",
        "http://a.localhost/",
    ],
)
def test_loopback_is_always_direct(url: str) -> None:
    assert Proxies(PROXY, PROXY).between(Endpoint.parse(url)) is None


@pytest.mark.parametrize(
    ("entry", "host"),
    [
        ("*", "anything.example"),
        ("example.com", "example.com"),
        ("example.com", "api.example.com"),
        (".example.com", "api.example.com"),
        (".example.com", "example.com"),
        ("*.example.com", "api.example.com"),
        ("EXAMPLE.com", "api.example.com"),
        ("other, example.com", "example.com"),
        ("other example.com", "example.com"),
        ("10.0.0.0/8", "10.1.2.3"),
        ("10.1.2.3", "10.1.2.3"),
        ("fd00::/8", "[fd00::1]"),
        ("[fd00::1]", "[fd00::1]"),
        ("example.com:443", "example.com"),
        ("[fd00::1]:443", "[fd00::1]"),
    ],
)
def test_no_proxy_names_what_is_reached_directly(entry: str, host: str) -> None:
    proxies = proxies_from({"HTTPS_PROXY": "http://p:1", "NO_PROXY": entry})
    assert proxies.between(Endpoint.parse(f"https://{host}/")) is None


@pytest.mark.parametrize(
    ("entry", "host"),
    [
        ("example.com", "notexample.com"),
        ("example.com", "example.com.evil.org"),
        ("example.com:80", "example.com"),
        ("10.0.0.0/8", "11.0.0.1"),
        ("10.0.0.0/8", "ten.example"),
        (".", "example.com"),
        ("", "example.com"),
        ("fd00::/8", "10.0.0.1"),
    ],
)
def test_no_proxy_means_no_more_than_it_says(entry: str, host: str) -> None:
    proxies = proxies_from({"HTTPS_PROXY": "http://p:1", "NO_PROXY": entry})
    assert proxies.between(Endpoint.parse(f"https://{host}/")) == Proxy("p", 1)
