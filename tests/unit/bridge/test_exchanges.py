import asyncio
from typing import get_args

import pytest

from fakes import FakeExchange
from osmosis_bridge.errors import BridgeError, Refused, UpstreamFailed
from osmosis_bridge.exchanges import as_refusal, content_type, error_body, request_id, transport_failure
from osmosis_bridge.redact import Redactor
from osmosis_bridge.upstream import Reason, TransportError

REDACTOR = Redactor(["the-secret-key"])


@pytest.mark.parametrize("reason", get_args(Reason))
def test_every_fault_of_the_transport_has_a_status_and_a_code(reason: Reason) -> None:
    failure = transport_failure(TransportError(reason, "it said the-secret-key"), REDACTOR)
    expected = 503 if reason == "no_slot" else 504 if reason.startswith("timeout") else 502
    assert failure.status == expected
    assert failure.code
    assert "the-secret-key" not in failure.message
    verb = "be reached" if reason in ("connect", "tls") else "answer"
    assert reason == "no_slot" or f"could not {verb}: it said" in failure.message


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("connect", "check that it runs and that the base URL (--api-base) is its own"),
        ("tls", "http:// or https://"),
        ("timeout_connect", "--connect-timeout-s"),
        ("timeout_idle", "--idle-timeout-s"),
        ("timeout_total", "--total-timeout-s"),
        ("cut", "ask again"),
        ("malformed", "--api-base"),
        ("no_slot", "try again"),
    ],
)
def test_a_fault_of_the_transport_ends_with_what_to_do(reason: Reason, says: str) -> None:
    assert says in transport_failure(TransportError(reason, "x"), REDACTOR).message


def test_a_busy_provider_is_our_own_answer_and_says_when_to_come_back() -> None:
    failure = transport_failure(TransportError("no_slot", ""), REDACTOR)
    assert (failure.origin, dict(failure.headers)) == ("bridge", {b"retry-after": b"1"})


def test_a_refusal_of_the_translator_is_a_refusal_and_a_fault_of_it_is_ours() -> None:
    refused = as_refusal(UpstreamFailed("no seed", status=400, param="seed", code="unsupported_parameter"))
    assert isinstance(refused, Refused)
    assert (refused.origin, refused.param, refused.code) == ("bridge", "seed", "unsupported_parameter")
    fault = as_refusal(UpstreamFailed("broken", status=500))
    assert isinstance(fault, BridgeError)
    assert not isinstance(fault, Refused)
    assert fault.origin == "bridge"


def test_the_request_id_is_found_under_any_usual_name_and_bounded() -> None:
    assert request_id(((b"retry-after", b"1"), (b"request-id", b"req-1"))) == "req-1"
    assert request_id(((b"x-request-id", b"x" * 999),)) == "x" * 200
    assert request_id(()) is None


def test_the_media_type_stands_alone_in_lower_case() -> None:
    exchange = FakeExchange.__new__(FakeExchange)
    exchange.header = lambda name: b"Text/Event-Stream; charset=utf-8"
    assert content_type(exchange) == b"text/event-stream"
    exchange.header = lambda name: None
    assert content_type(exchange) == b""


def test_a_body_that_breaks_off_is_no_second_error() -> None:
    exchange = FakeExchange.__new__(FakeExchange)

    async def whole(limit: int) -> bytes:
        raise TransportError("cut", "")

    exchange.whole = whole
    assert asyncio.run(error_body(exchange)) == b""
