"""Of a client's headers a listed few go out, as they came, and every one says what becomes of it."""

from __future__ import annotations

import pytest

from osmosis_bridge.client_headers import PASSED, VALUE_LIMIT, passing, report_headers
from osmosis_bridge.errors import Refused

SDK = (
    (b"host", b"127.0.0.1:8400"), (b"accept", b"application/json"), (b"content-type", b"application/json"),
    (b"user-agent", b"OpenAI/Python 2.1"), (b"x-stainless-lang", b"python"), (b"x-stainless-retry-count", b"0"),
    (b"authorization", b"Bearer run-bearer"), (b"content-length", b"12"),
)  # fmt: skip


def passed(*lines: tuple[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
    return passing(dict(lines), lines, PASSED)


def test_what_an_sdk_sends_by_itself_stays() -> None:
    assert passed(*SDK) == ()


def test_listed_headers_go_out_as_they_came_in_their_order_each_of_several_lines() -> None:
    lines = (
        (b"x-title", "Café".encode()), (b"openai-beta", b"assistants=v2"), (b"cookie", b"c=1"),
        (b"openai-beta", b"realtime=v1"), (b"traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"),
    )  # fmt: skip
    assert passed(*SDK, *lines) == (lines[0], lines[1], lines[3], lines[4])


@pytest.mark.parametrize(
    "name",
    [
        b"authorization", b"proxy-authorization", b"x-api-key", b"api-key", b"cookie", b"openai-organization",
        b"openai-project", b"x-goog-api-key", b"x-goog-user-project", b"host", b"forwarded", b"x-forwarded-for",
        b"x-forwarded-host", b"x-real-ip", b"idempotency-key", b"x-request-id", b"x-openrouter-cache", b"baggage",
        b"x-portkey-config", b"helicone-auth", b"x-litellm-api-key", b"x-osmosis-rollout-id", b"user-agent",
        b"anthropic-dangerous-direct-browser-access", b"x-titles", b"transfer-encoding", b"content-length",
    ],
)  # fmt: skip
def test_credentials_hosts_caches_and_what_others_share_stay(name: bytes) -> None:
    assert passed((name, b"v"), (b"x-title", b"t")) == ((b"x-title", b"t"),)


def test_a_header_that_the_client_means_for_the_next_hop_alone_stays() -> None:
    assert passed((b"connection", b"close, X-Title"), (b"x-title", b"t"), (b"openai-beta", b"b")) == (
        (b"openai-beta", b"b"),
    )
    assert passed((b"connection", b"x-title-of-another"), (b"x-title", b"t")) == ((b"x-title", b"t"),)


@pytest.mark.parametrize("value", [b"a\r\nx-injected: 1", b"a\nb", b"a\0", b"\x7f", b"x" * (VALUE_LIMIT + 1)])
def test_a_value_that_cannot_be_sent_is_refused_by_name_and_not_shown(value: bytes) -> None:
    with pytest.raises(Refused) as caught:
        passed((b"x-title", value))
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_header", "x-title")
    assert "injected" not in caught.value.message
    assert "xxx" not in caught.value.message


@pytest.mark.parametrize("value", [b"", b"a\tb", b"\xe9\xff", b"x" * VALUE_LIMIT])
def test_any_other_value_goes_out(value: bytes) -> None:
    assert passed((b"x-title", value)) == ((b"x-title", value),)


def test_every_header_says_what_becomes_of_it() -> None:
    lines = (*SDK, (b"x-title", b"t"), (b"openai-organization", b"o"), (b"x-osmosis-dry-run", b"1"))
    rows = {row.header: row.became for row in report_headers(dict(lines), PASSED)}
    assert [*rows] == [name.decode() for name, _ in lines]
    assert rows["x-title"] == "forwarded"
    assert {name for name, became in rows.items() if became == "dropped"} == {
        "user-agent", "x-stainless-lang", "openai-organization",
    }  # fmt: skip
    assert {row.became for row in report_headers({b"x-title": b"t"}, frozenset())} == {"dropped"}
