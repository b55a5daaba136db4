from __future__ import annotations

import json
import math

import pytest

from osmosis_runner.jsontext import NotJson, pretty


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
def test_what_json_cannot_hold_is_refused_with_its_place(value, place: str) -> None:
    with pytest.raises(NotJson) as caught:
        pretty(value)
    assert str(caught.value).startswith(place)


def test_what_is_written_reads_back_as_it_was() -> None:
    value = {"n": 2**63, "f": 1e300, "t": True, "u": "a\u2028b\0"}
    assert json.loads(pretty(value)) == value
