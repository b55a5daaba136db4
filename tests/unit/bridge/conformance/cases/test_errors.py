"""The cases of errors catch a proxy that changes a status, loses a hint, tries again, or calls a failure a success."""

from __future__ import annotations

from dataclasses import replace

from mini_proxy import Faults, failed
from osmosis_bridge.conformance.reply import Reply


def test_a_transparent_proxy_keeps_status_and_hints() -> None:
    assert failed("E3-4*-plain", "E-retry-after-*", "E7-members", "C3-*") == []


def test_a_status_that_becomes_another_is_caught() -> None:
    def to_500(seen: Reply) -> Reply:
        return replace(seen, status=500 if seen.status == 404 else seen.status)

    assert failed("E3-404-*", "E3-403-*", faults=Faults(reply=to_500)) == ["E3-404-plain", "E3-404-stream"]


def test_a_lost_hint_is_caught() -> None:
    def without_hints(seen: Reply) -> Reply:
        return replace(seen, headers=tuple(pair for pair in seen.headers if pair[0] != "retry-after"))

    caught = failed("E-retry-after-*", "E3-429-plain", faults=Faults(reply=without_hints))
    assert caught == ["E-retry-after-429", "E-retry-after-503"]


def test_a_second_try_of_a_refused_call_is_caught() -> None:
    assert failed("C3-400-once", faults=Faults(times=2)) == ["C3-400-once"]


def test_shapes_that_stay_as_they_were_are_caught() -> None:
    assert failed("E8-string", "E8-detail", "E10-html") == ["E10-html", "E8-detail", "E8-string"]


def test_failures_with_status_200_are_caught() -> None:
    names = ("E-200-broken", "E-200-empty", "E-200-error", "E-200-html", "E-200-short")
    assert failed(*names) == sorted(names)


def test_cookies_that_come_through_are_caught() -> None:
    assert failed("E-private-headers") == ["E-private-headers"]


def test_a_redirect_that_is_passed_on_shows_the_address() -> None:
    assert failed("E-redirect-302") == ["E-redirect-302"]
