"""The cases of the envelope catch a proxy that forwards the wrapper, obeys controls or guesses `stream`."""

from __future__ import annotations

import json

from mini_proxy import Faults, failed, judged
from osmosis_bridge.conformance import select


def unwrapping(*, shallow: bool) -> Faults:
    def unwrap(body: bytes) -> bytes:
        fields = json.loads(body)
        for name, value in fields.pop("extra_body", {}).items():
            old = fields.get(name)
            merge = not shallow and isinstance(old, dict) and isinstance(value, dict)
            fields[name] = {**old, **value} if merge else value
        return json.dumps(fields).encode()

    return Faults(request=unwrap)


MERGES = ("F6-unwrapped", "F4-provider-in-extra-body", "F23-wins", "F23-shallow", "F23-null-wins")


def test_the_wrapper_on_the_wire_is_caught() -> None:
    assert failed(*MERGES) == sorted(MERGES)


def test_a_shallow_merge_passes_and_a_deep_one_is_caught() -> None:
    assert failed(*MERGES, faults=unwrapping(shallow=True)) == []
    assert failed(*MERGES, faults=unwrapping(shallow=False)) == ["F23-shallow"]


def test_a_stream_flag_that_is_guessed_is_caught() -> None:
    def guess(body: bytes) -> bytes:
        return body.replace(b'"stream":"true"', b'"stream":true')

    assert failed("F27-stream-string") == []
    assert failed("F27-stream-string", faults=Faults(request=guess)) == ["F27-stream-string"]


def test_cases_of_our_own_surface_are_skipped_for_others_and_say_so() -> None:
    verdict = judged("F26-alias", "F23-nested")
    assert {case.result for case in verdict.values()} == {"skipped"}
    assert "osmosis bridge" in verdict["F26-alias"].seen


def test_a_model_that_changes_the_route_is_caught_whatever_the_model_is_called() -> None:
    assert failed("F26-model-in-extra-body") == []
    obeying = unwrapping(shallow=True)
    assert failed("F26-model-in-extra-body", faults=obeying) == ["F26-model-in-extra-body"]
    assert failed("F26-alias", ours=True) == ["F26-alias"]


def test_a_field_that_is_sent_twice_and_taken_is_caught() -> None:
    assert failed("F-twice*", ours=True) == sorted(case.id for case in select(["F-twice*"]))


def test_names_that_are_disguised_are_caught() -> None:
    names = ("F25-escaped-name", "F25-twice", "F26-model-twice", "F6-twice", "F-messages-twice")
    assert failed(*names) == sorted(names)
