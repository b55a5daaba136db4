"""An object is split into its fields as they were written; a name that stands twice is found in any spelling."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis_bridge import fields as module
from osmosis_bridge.fields import NamedTwice, split_fields

NAMES = st.one_of(
    st.sampled_from(["a", "b", "é", "x y", "\0", '"', "\\", ""]), st.text(max_size=4).filter(str.isprintable)
)
VALUES = st.sampled_from(
    ["1", "10", "-1.0", "null", '"x"', '"a,b"', '", \\"a\\": 1"', "[1, 2]", '{"a": 1, "a": 2}', "{}"]
)
SPACES = st.sampled_from(["", "", " ", "\n  ", "\t"])


def escaped(name: str) -> str:
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"'


WRITTEN_NAMES = NAMES.filter(lambda name: all(ord(letter) < 0x10000 for letter in name)).flatmap(
    lambda name: st.sampled_from([json.dumps(name), json.dumps(name, ensure_ascii=False), escaped(name)]).map(
        lambda text: (name, text)
    )
)


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """The text of an object, and its members: names as they are meant, values as they are written."""
    members = draw(st.lists(st.tuples(WRITTEN_NAMES, VALUES), max_size=6))
    colon, comma = draw(st.sampled_from([(":", ","), (": ", ", "), ("", "")]))
    parts = [
        f"{draw(SPACES) if not comma else ''}{text}{colon or draw(SPACES) + ':' + draw(SPACES)}{value}"
        for (_, text), value in members
    ]
    inner = (comma or ",").join(parts)
    edge = "" if comma else draw(SPACES)
    return f"{edge}{{{inner}{edge}}}{edge}", [(name, value) for (name, _), value in members]


@given(objects())
def test_every_object_is_split_into_what_was_written_or_the_name_that_stands_twice_is_told(
    drawn: tuple[str, list[tuple[str, str]]],
) -> None:
    text, members = drawn
    names = [name for name, _ in members]
    again = [name for place, name in enumerate(names) if name in names[:place]]
    if again:
        with pytest.raises(NamedTwice) as caught:
            split_fields(text.encode())
        assert caught.value.name == again[0]
        return
    split = split_fields(text.encode())
    assert [(name, bytes(raw).decode()) for name, raw in split.items()] == members


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}', '{"a": 1, "a": 1}', '{"a":1,"b":2,"\\u0061":3}', '{"a":1,"a":"a longer value"}',
        # As long as Python would write it, had it one member less.
        '{"a":1,"c":33,"d":4,"d":4}', '{"b":1,"a":{},"a":{}}', '{"aa":1,"b":2,"c":3,"d":4,"b":5}',
        # The first value, taken to be as long as the last, ends within a string that looks like the rest.
        '{"a": 1, "a": "},  "}',
    ],
)  # fmt: skip
def test_no_way_of_writing_hides_a_name_that_stands_twice(text: str) -> None:
    with pytest.raises(NamedTwice):
        split_fields(text.encode())


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_what_clients_write_is_read_once(
    separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(text: bytes) -> object:
        raise AssertionError(f"{text!r} was read a second time")

    monkeypatch.setattr(module, "_split_all", again)
    body = {"model": "m", "messages": [{"role": "user", "content": "é"}], "seed": 1, "stop": ["\n"]}
    assert [*split_fields(json.dumps(body, separators=separators).encode())] == [*body]


def test_what_is_no_object_is_the_decoders_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        split_fields(b"[1]")
    with pytest.raises(msgspec.DecodeError):
        split_fields(b'{"a":')


def test_a_name_that_stands_twice_among_very_many_is_found_in_one_pass() -> None:
    members = ",".join(f'"k{number}":1' for number in range(300_000))
    with pytest.raises(NamedTwice) as caught:
        split_fields(f'{{{members},"k299999":2}}'.encode())
    assert caught.value.name == "k299999"
