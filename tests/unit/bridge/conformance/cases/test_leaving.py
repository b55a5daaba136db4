"""The cases of leaving catch a proxy that lets the upstream go on for nobody."""

from __future__ import annotations

from mini_proxy import Faults, failed


def test_a_proxy_that_hangs_up_with_its_client_passes() -> None:
    assert failed("C1-stream-first", "C1-stream-middle", "C1-plain", "C1-plain-reset", "C1-leftover") == []


def test_a_proxy_that_does_not_notice_is_caught() -> None:
    assert failed("C1-plain", faults=Faults(deaf=True)) == ["C1-plain"]


def test_half_a_request_that_is_forwarded_would_be_seen() -> None:
    assert failed("C1-half-request") == []
