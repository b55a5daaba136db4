"""The merge of `extra_body`: what it means, said a second time in five lines of plain dictionaries."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from osmosis_bridge.policy import Policy, admit

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=5,
)
FIELDS = st.dictionaries(st.sampled_from(["a", "b", "c", "reasoning", "provider"]), VALUES, max_size=5)


def sent(request: dict[str, Any]) -> dict[str, Any]:
    return json.loads(admit(json.dumps(request).encode(), Policy("up")).body)


@given(FIELDS, FIELDS)
def test_extra_body_is_merged_like_a_dictionary_update(top: dict[str, Any], extra: dict[str, Any]) -> None:
    expected = {"messages": [], **top}
    expected.update(extra)
    assert sent({"messages": [], **top, "extra_body": extra}) == {**expected, "model": "up"}


@given(FIELDS, FIELDS)
def test_a_field_means_the_same_at_the_top_level_and_inside_extra_body(
    top: dict[str, Any], extra: dict[str, Any]
) -> None:
    assert sent({"messages": [], **top, "extra_body": extra}) == sent({"messages": [], **top, **extra})


@given(FIELDS, FIELDS, st.permutations(["messages", "extra_body", "model"]))
def test_where_extra_body_stands_in_the_request_does_not_matter(
    top: dict[str, Any], extra: dict[str, Any], order: list[str]
) -> None:
    parts: dict[str, Any] = {"messages": [], "extra_body": extra, "model": "m"}
    request = {**{name: parts[name] for name in order[:2]}, **top, order[2]: parts[order[2]]}
    assert sent(request) == sent({"messages": [], **top, "model": "m", "extra_body": extra})
