from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.rollout.jsonable import json_ready


class Wire:
    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"role": "user", "mode": mode}


class Half(str):
    __slots__ = ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_is_json_stays_as_it_is(value: Any) -> None:
    assert json_ready(value) == value


@pytest.mark.parametrize(
    ("value", "fitted"),
    [
        (float("nan"), None),
        ({"a": float("inf"), "b": 1}, {"b": 1}),
        ((1, 2), [1, 2]),
        ([1, object(), 2], [1, 2]),
        ({1: "a", 1.5: "b"}, {"1": "a", "1.5": "b"}),
        ({True: "c"}, {}),
        ({object(): 1, "a": 2}, {"a": 2}),
        (Wire(), {"role": "user", "mode": "json"}),
        (Half("x"), "x"),
        ("a\ud800b", "a\ufffdb"),
        ({"k\udfff": 1}, {"k\ufffd": 1}),
        ("\U0001f4a5", "\U0001f4a5"),
        (10**40, 10**40),
    ],
)
def test_what_has_no_place_in_json_is_fitted_or_left_out(value: object, fitted: object) -> None:
    assert json_ready(value) == fitted
    msgspec.json.encode(json_ready(value))


def test_a_value_that_holds_itself_comes_to_an_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    msgspec.json.encode(json_ready(loop))
