"""JSON trees: paths, merging, equality and words."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.jsontree import (
    MISSING,
    Conflict,
    as_items,
    as_object,
    at,
    objects,
    put,
    same,
    shown,
    spelled,
    strings,
    words,
)


def test_what_is_not_there_is_missing_and_null_is_not() -> None:
    assert at({"a": {"b": None}}, ("a", "b")) is None
    assert at({"a": {"b": None}}, ("a", "c")) is MISSING
    assert at({"a": 1}, ("a", "b")) is MISSING
    assert at([], ("a",)) is MISSING


def test_a_value_is_put_where_nothing_stands_and_objects_are_merged() -> None:
    tree = {"a": {"b": 1}}
    put(tree, ("a", "c", "d"), 2)
    put(tree, ("a",), {"e": 3})
    assert tree == {"a": {"b": 1, "c": {"d": 2}, "e": 3}}


def test_a_name_in_another_spelling_may_be_taken_for_the_same() -> None:
    assert spelled({"maxTokens": 1}, "max_tokens") == "maxTokens"
    assert spelled({"maxTokens": 1, "max_tokens": 2}, "max_tokens") == "max_tokens"
    assert spelled({"other": 1}, "max_tokens") == "max_tokens"
    tree: dict[str, object] = {"someConfig": {"maxTokens": 1}}
    assert put(tree, ("some_config", "max_tokens"), 1, alike=True) == ("someConfig", "maxTokens")
    assert tree == {"someConfig": {"maxTokens": 1}}
    with pytest.raises(Conflict) as caught:
        put(tree, ("some_config",), {"max_tokens": 2}, alike=True)
    assert shown(caught.value.path) == "someConfig.maxTokens"
    put(tree, ("some_config", "max_tokens"), 3)
    assert tree == {"someConfig": {"maxTokens": 1}, "some_config": {"max_tokens": 3}}


def test_another_value_is_a_conflict_unless_it_may_be_replaced() -> None:
    tree = {"a": {"b": 1}}
    put(tree, ("a", "b"), 1)
    with pytest.raises(Conflict) as caught:
        put(tree, ("a", "b"), 2)
    assert shown(caught.value.path) == "a.b"
    put(tree, ("a", "b"), 2, override=True)
    assert tree == {"a": {"b": 2}}
    with pytest.raises(Conflict):
        put(tree, ("a", "b", "c"), 3, override=True)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ([1], [1], True),
        ({"a": [True]}, {"a": [1]}, False),
        (None, False, False),
    ],
)
def test_equality_is_json_s(one: object, other: object, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_words_are_names_and_scalars_but_not_what_is_left_out() -> None:
    tree = {"Name": "X", "title": {"lost": 1}, "list": [True, None, 2.5]}
    assert words(tree, frozenset({"title"})) == {"name", "x", "list", "true", "2.5"}


def test_strings_and_objects_are_found_at_any_depth() -> None:
    tree = {"a": ["x", {"b": "y"}], "c": 1}
    assert sorted(strings(tree)) == ["x", "y"]
    assert {"b": "y"} in list(objects(tree))
    assert len(list(objects(tree))) == 2


def test_what_is_neither_object_nor_list_is_an_empty_one() -> None:
    assert as_object([1]) == {}
    assert as_items({"a": 1}) == []


def test_a_conflict_within_an_object_is_told_by_its_whole_path() -> None:
    with pytest.raises(Conflict) as caught:
        put({"a": {"b": {"c": 1}}}, ("a",), {"b": {"c": 2}})
    assert caught.value.path == ("a", "b", "c")
    assert str(caught.value) == "a.b.c"
