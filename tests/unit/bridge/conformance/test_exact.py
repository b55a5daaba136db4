"""JSON kept exactly: the suite sees what a number was written as, and where members stand."""

from __future__ import annotations

import pytest

from osmosis_bridge.conformance.exact import (
    Number,
    at,
    difference,
    integer,
    items,
    members,
    parse,
    parsed_or_none,
    show,
    strings,
)


@pytest.mark.parametrize("text", ["1.10", "1e400", "-0", "12345678901234567890", '"é"', "[null,true,{}]"])
def test_a_value_is_shown_as_it_was_written(text: str) -> None:
    assert show(parse(text)).encode().decode("unicode_escape") == text


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "{", "", "[" * 100_000 + "]" * 100_000, b"\xff"])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse(text)
    assert parsed_or_none(text) is None


@pytest.mark.parametrize(
    ("want", "got", "said"),
    [
        ("1.10", "1.1", "$: 1.10 wanted, 1.1 seen"),
        ("1", "true", "$: 1 wanted, true seen"),
        ("1", '"1"', '$: 1 wanted, "1" seen'),
        ('{"a":1}', "{}", "$.a: lost"),
        ("{}", '{"a":[1]}', "$.a: added, [1]"),
        ('{"a":1,"b":2}', '{"b":2,"a":1}', "$: members reordered to b, a"),
        ('{"x":[1,[2]]}', '{"x":[1,[3]]}', "$.x[1][0]: 2 wanted, 3 seen"),
        ("[1]", "[1,2]", "$: 1 items wanted, 2 seen"),
        ("null", "{}", "$: null wanted, {} seen"),
    ],
)
def test_the_first_difference_is_placed(want: str, got: str, said: str) -> None:
    assert difference(parse(want), parse(got)) == said


@pytest.mark.parametrize(
    ("want", "got"), [(r'"\u00e9"', '"é"'), ('{"a": [1 , 2]}', '{"a":[1,2]}'), (r'"\ud83d"', r'"\uD83D"')]
)
def test_spelling_of_strings_and_blanks_do_not_count(want: str, got: str) -> None:
    assert difference(parse(want), parse(got)) is None


def test_values_are_found_by_their_path_and_nothing_elsewhere() -> None:
    value = parse('{"a":[{"b":7}]}')
    assert at(value, "a", 0, "b") == Number("7")
    assert at(value, "a", -1, "b") == Number("7")
    assert [at(value, "a", 3), at(value, "x", "y"), at(value, 0), at(value, "a", "b")] == [None] * 4


def test_shapes_that_do_not_fit_are_empty() -> None:
    assert members(parse("[1]")) == {}
    assert items(parse('{"a":1}')) == []
    assert [integer(parse(text)) for text in ("7", "-7", "7.0", '"7"', "true")] == [7, -7, None, None, None]


def test_every_string_is_found_names_included() -> None:
    assert list(strings(parse(r'{"n":["a",{"m":"\u0062"}],"x":1}'))) == ["n", "a", "m", "b", "x"]


def test_a_long_value_is_cut() -> None:
    assert show(parse('"' + "x" * 500 + '"'), 10) == '"xxxxxxxx…'
