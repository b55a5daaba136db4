"""A dry run says what would be sent, where to, and what becomes of the client's headers; it sends nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fakes import Answer, FakeLedger, FakeTransport, a_bridge, request
from osmosis_bridge.dialects.chat import CHAT_DIALECT
from osmosis_bridge.dialects.messages import MESSAGES_DIALECT
from osmosis_bridge.dry_run import DryRun, dry_run, masked_url
from osmosis_bridge.errors import BridgeError
from osmosis_bridge.report import ForwardingReport
from osmosis_bridge.serve import Bridge, Target
from osmosis_bridge.upstream import Endpoint, TransportError

PRIVATE = "http://gpu-7.internal:8000/v1?api-version=2024-10-21&key=the-secret-key"


def a_target(base: str, **fields: Any) -> Target:
    parts: dict[str, Any] = {"plain_headers": (), "stream_headers": (), **fields}
    return Target(provider="fake", model="up/real", endpoint=Endpoint.parse(base), **parts)


def run(bridge: Bridge, asked: DryRun) -> ForwardingReport:
    return asyncio.run(dry_run(bridge, asked))


def test_the_request_that_would_be_sent_is_shown_and_nothing_is_sent() -> None:
    transport, ledger = FakeTransport(Answer()), FakeLedger()
    report = run(a_bridge(transport, ledger), DryRun(request(seed=1, api_key="K"), CHAT_DIALECT))
    assert report.outgoing is not None
    assert report.outgoing["url"] == "http://127.0.0.1:9/v1/chat/completions"
    assert {row.field: row.became for row in report.fields}["api_key"] == "stripped as control"
    assert (transport.sent, ledger.appends) == ([], 0)


@pytest.mark.parametrize(
    ("shows_host", "url"),
    [
        (True, "http://gpu-7.internal:8000/v1/chat/completions?api-version=…&key=…"),
        (False, "http://[private host]/v1/chat/completions?…"),
    ],
)
def test_who_debugs_sees_where_calls_go_and_a_rollout_does_not(shows_host: bool, url: str) -> None:
    bridge = a_bridge(FakeTransport(), target=a_target(PRIVATE))
    report = run(bridge, DryRun(request(), CHAT_DIALECT, shows_host=shows_host))
    assert report.outgoing is not None
    assert report.outgoing["url"] == url
    assert b"the-secret-key" not in msgspec.json.encode(report)
    assert (b"gpu-7" in msgspec.json.encode(report)) is shows_host


@pytest.mark.parametrize("address", ["10.1.2.3:8000", "192.168.7.7", "127.0.0.1:9"])
def test_a_private_address_is_shown_to_who_debugs(address: str) -> None:
    report = run(
        a_bridge(FakeTransport(), target=a_target(f"http://{address}/v1")), DryRun(request(), CHAT_DIALECT)
    )
    assert report.outgoing is not None
    assert report.outgoing["url"] == f"http://{address}/v1/chat/completions"


def test_headers_that_go_out_are_shown_with_the_request_and_all_are_named() -> None:
    headers = {b"x-title": "Café".encode(), b"cookie": b"c=1", b"anthropic-version": b"2099-01-01"}
    report = run(a_bridge(FakeTransport()), DryRun(request(max_tokens=5), MESSAGES_DIALECT, headers))
    assert {row.header: row.became for row in report.headers} == {
        "x-title": "forwarded", "cookie": "dropped", "anthropic-version": "forwarded",
    }  # fmt: skip
    assert report.outgoing is not None
    assert report.outgoing["headers"] == {
        "accept": "application/json", "x-title": "Café", "anthropic-version": "2099-01-01",
    }  # fmt: skip


def test_a_header_that_would_be_refused_is_told_as_a_refusal() -> None:
    report = run(a_bridge(FakeTransport()), DryRun(request(), CHAT_DIALECT, {b"x-title": b"x" * 9999}))
    assert (report.accepted, report.outgoing) == (False, None)
    assert report.error is not None
    assert (report.error["code"], report.error["param"]) == ("invalid_header", "x-title")


def on_the_native_lane(answer: Answer | TransportError) -> Bridge:
    return a_bridge(FakeTransport(answer), target=a_target("http://127.0.0.1:9/v1", lane="native"))


def test_on_the_native_lane_no_header_goes_out_and_the_translators_url_is_shown_likewise() -> None:
    url = "https://user:pw@gpu-7.internal/v1/messages?key=abc"
    said = {"fields": [], "outgoing": {"method": "POST", "url": url, "headers": {}, "body": {}}}
    for shows_host, shown in (
        (True, "https://gpu-7.internal/v1/messages?key=…"),
        (False, "https://[private host]/v1/messages?…"),
    ):
        bridge = on_the_native_lane(Answer([msgspec.json.encode(said)]))
        asked = DryRun(request(), CHAT_DIALECT, {b"x-title": b"t"}, shows_host=shows_host)
        report = run(bridge, asked)
        assert report.outgoing is not None
        assert (report.lane, report.outgoing["url"]) == ("native", shown)
        assert [(row.header, row.became) for row in report.headers] == [("x-title", "dropped")]


def test_a_translator_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(BridgeError):
        run(on_the_native_lane(TransportError("cut", "gone")), DryRun(request(), CHAT_DIALECT))


def test_a_request_that_is_refused_is_not_translated() -> None:
    bridge = on_the_native_lane(Answer())
    assert not run(bridge, DryRun(b"{}", CHAT_DIALECT)).accepted


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://h/v1/x", "https://h/v1/x"),
        ("https://u:p@h:8443/v1?a=1&b&c=x%3Dy#f", "https://h:8443/v1?a=…&b=…&c=…"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
    ],
)
def test_a_url_is_masked_where_it_may_hold_a_secret(url: str, masked: str) -> None:
    assert masked_url(url) == masked


def test_on_the_native_lane_the_version_and_betas_of_messages_go_where_the_translator_sends_them() -> None:
    headers = {b"anthropic-version": b"2099-01-01", b"anthropic-beta": b"b-1", b"x-title": b"t"}
    said = {
        "fields": [],
        "outgoing": {
            "method": "POST",
            "url": "https://h/v1",
            "headers": {"Anthropic-Beta": "b-1"},
            "body": {},
        },
    }
    transport = FakeTransport(Answer([msgspec.json.encode(said)]))
    bridge = a_bridge(transport, target=a_target("http://127.0.0.1:9/v1", lane="native"))
    report = run(bridge, DryRun(request(max_tokens=5), MESSAGES_DIALECT, headers))
    assert {row.header: row.became for row in report.headers} == {
        "anthropic-version": "dropped", "anthropic-beta": "forwarded", "x-title": "dropped",
    }  # fmt: skip
    asked = transport.sent[0]
    assert asked["target"] == b"/v1/explain/messages"
    assert asked["headers"] == {b"anthropic-version": b"2099-01-01", b"anthropic-beta": b"b-1"}
