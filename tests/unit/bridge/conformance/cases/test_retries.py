"""The cases of retries catch a proxy that answers one call with the reply of another."""

from __future__ import annotations

from dataclasses import replace

from mini_proxy import Faults, failed, judged
from osmosis_bridge.conformance.reply import Reply


def test_a_proxy_that_asks_each_time_passes_what_is_asked_of_all() -> None:
    assert failed("C-retry-new-samples", "C-retry-other-*", "C-retry-failed", "C-retry-odd-mark") == []


def test_a_call_that_is_sent_twice_is_caught() -> None:
    assert failed("C-retry-new-samples", faults=Faults(times=2)) == ["C-retry-new-samples"]


def test_an_attempt_without_an_answer_is_caught() -> None:
    def silent(seen: Reply) -> Reply:
        return replace(seen, body=seen.body.replace(b"hello", b""))

    assert failed("C-retry-other-body", faults=Faults(reply=silent)) == ["C-retry-other-body"]


def test_what_needs_a_setting_is_skipped_until_it_is_told() -> None:
    verdict = judged("S15-no-heartbeat-in-json")["S15-no-heartbeat-in-json"]
    assert verdict.result == "skipped"
    assert "heartbeat" in verdict.seen
