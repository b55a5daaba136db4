from __future__ import annotations

import json
import math

import pytest

from osmosis_runner.jsontext import NotJson, canonical, pretty


def test_the_compact_form_sorts_keys_at_every_depth() -> None:
    assert (
        canonical({"b": 1, "a": {"d": [1, None], "c": "é"}}) == '{"a":{"c":"é","d":[1,null]},"b":1}'.encode()
    )


def test_the_indented_form_keeps_the_order_and_ends_in_a_newline() -> None:
    assert pretty({"b": 1, "a": ["é"]}) == '{\n  "b": 1,\n  "a": [\n    "é"\n  ]\n}\n'.encode()


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, math.nan]}, "$.a[1]"),
        ({"a": {"b": math.inf}}, "$.a.b"),
        ({"a": "\ud83d"}, "$.a"),
        ({"\udc00": 1}, "$"),
        ({"a": b"x"}, "$.a"),
        ({"a": object()}, "$.a"),
    ],
)
@pytest.mark.parametrize("write", [canonical, pretty])
def test_what_json_cannot_hold_is_refused_with_its_place(write, value, place: str) -> None:
    with pytest.raises(NotJson) as caught:
        write(value)
    assert str(caught.value).startswith(place)


def test_both_forms_hold_the_same_value() -> None:
    value = {"n": 2**63, "f": 1e300, "t": True, "u": "a\u2028b\0"}
    assert json.loads(canonical(value)) == json.loads(pretty(value)) == value
