"""The cases of transport catch a proxy that mixes up encodings, replies or connections."""

from __future__ import annotations

from dataclasses import replace

from mini_proxy import Faults, failed
from osmosis_bridge.conformance.reply import Reply


def test_a_transparent_proxy_passes_what_is_legal() -> None:
    assert (
        failed(
            "C6-gzip",
            "C6-br*",
            "C-chunk-case",
            "C-chunk-extension",
            "C-trailers",
            "C-100",
            "C-kept",
            "C-idle-close",
        )
        == []
    )


def test_an_encoding_named_on_an_inflated_body_is_caught() -> None:
    def mislabelled(seen: Reply) -> Reply:
        return replace(
            seen, headers=(*seen.headers, ("content-encoding ", "gzip")), body=b"\x1f\x8b" + seen.body
        )

    assert failed("C6-gzip", faults=Faults(reply=mislabelled)) == ["C6-gzip"]


def test_a_body_that_is_not_what_it_says_is_caught_when_it_is_passed_on() -> None:
    assert failed("C6-lie", "C6-cut") == ["C6-cut", "C6-lie"]


def test_a_call_sent_twice_is_caught() -> None:
    assert failed("C-kept", faults=Faults(times=2)) == ["C-kept"]


def test_trying_over_and_over_is_caught() -> None:
    assert failed("C-race") == []
    assert failed("C-race", faults=Faults(times=3)) == ["C-race"]
