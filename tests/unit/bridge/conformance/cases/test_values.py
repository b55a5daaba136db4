"""The cases of values catch a proxy that re-encodes numbers, drops nulls or fails on hostile JSON."""

from __future__ import annotations

import json

from mini_proxy import Faults, failed, judged
from osmosis_bridge.conformance.cases.values import KEPT


def test_a_transparent_proxy_keeps_every_value() -> None:
    assert failed(*KEPT, "F19-random", "F-order-kept") == []


def test_numbers_written_anew_are_caught() -> None:
    def encode_again(body: bytes) -> bytes:
        return json.dumps(json.loads(body)).encode()

    caught = failed(*KEPT, faults=Faults(request=encode_again))
    assert {"F-decimal-text", "F-exponent-text", "F-overflow", "F-precision", "F-minus-zero"} == set(caught)


def test_dropped_nulls_are_caught() -> None:
    def without_nulls(body: bytes) -> bytes:
        fields = json.loads(body)
        return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()

    assert "F-null" in failed("F-null", "F-big-int", faults=Faults(request=without_nulls))


def test_random_bodies_catch_a_value_that_changes() -> None:
    def truth_to_one(body: bytes) -> bytes:
        return body.replace(b":true", b":1")

    assert failed("F19-random", faults=Faults(request=truth_to_one)) == ["F19-random"]


def test_a_broken_body_that_is_relayed_is_caught_and_one_that_is_refused_passes() -> None:
    assert failed("F-cut-json") == ["F-cut-json"]
    verdict = judged("F-deep-5000", "F-duplicate-field")
    assert verdict["F-deep-5000"].passed
    assert not verdict["F-duplicate-field"].passed
    assert "once" in verdict["F-duplicate-field"].expected
