"""Members of an object where they stand in its text: found in any JSON that servers send, replaced and nothing else."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec import Raw

from osmosis_bridge.dialects.members import FieldReader, members, replaced


def texts(data: bytes) -> list[tuple[str, bytes]] | None:
    found = members(data)
    return None if found is None else [(name, data[start:end]) for name, start, end in found]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"{}", []),
        (b" { \r\n\t} ", []),
        (b'{"a":1}', [("a", b"1")]),
        (
            b' { "a" : [ 1 , 2 ] ,"b":{"c":"}"} , "d" : "x,\\"y" } \n',
            [("a", b"[ 1 , 2 ]"), ("b", b'{"c":"}"}'), ("d", b'"x,\\"y"')],
        ),
        (b'{"a":1,"a":2}', [("a", b"1"), ("a", b"2")]),
        (b'{"\\u006dodel":1}', [("model", b"1")]),
        (b'{"a":"\xff\xc3\xa9","b":2}', [("a", b'"\xff\xc3\xa9"'), ("b", b"2")]),
        (b'{"a":"\\ud83d","b":NaN,"c":-Infinity}', [("a", b'"\\ud83d"'), ("b", b"NaN"), ("c", b"-Infinity")]),
        (b'{"a":' + b"9" * 6000 + b',"b":1e999}', [("a", b"9" * 6000), ("b", b"1e999")]),
    ],
)
def test_every_member_is_found_where_it_stands(data: bytes, found: list[tuple[str, bytes]]) -> None:
    assert texts(data) == found


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"[]", b"null", b"7", b'"x"', b"{", b"{]", b'{"a"}', b'{"a":}', b'{"a":1', b'{"a":1,', b'{"a":1,}',
        b'{"a":1 "b":2}', b'{"a":1}x', b"{} {}", b"{1:2}", b'{,"a":1}', b'{"a"=1}', b'{"a":"\x01"}', b"{'a':1}",
        b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_object_has_no_members(data: bytes) -> None:
    assert members(data) is None


def test_a_value_is_replaced_where_it_stands_and_no_other_byte_changes() -> None:
    data = b'{ "x":{"model":"a"}, "model" :\t"a" ,"z":1.10e5, "n":"\xff\\ud800" }'
    assert replaced(data, ("model",), b'"m"') == data.replace(b'\t"a"', b'\t"m"')
    assert replaced(data, ("x", "model"), b'"m"') == data.replace(b'{"model":"a"}', b'{"model":"m"}')


def test_each_of_several_members_of_one_name_is_replaced() -> None:
    data = b'{"r":{"model":1,"model":2},"r":3,"r":{"model":4},"model":5}'
    expected = b'{"r":{"model":0,"model":0},"r":3,"r":{"model":0},"model":5}'
    assert replaced(data, ("r", "model"), b"0") == expected


@pytest.mark.parametrize("data", [b'{"b":1}', b'{"a":2}', b'{"a":{}}', b"[1]", b"", b'{"a":{"c":1}}'])
def test_what_is_not_there_is_not_added(data: bytes) -> None:
    assert replaced(data, ("a", "b"), b"1") is data


def test_a_value_that_stands_there_already_leaves_the_same_object() -> None:
    data = b'{"a":1}'
    assert replaced(data, ("a",), b"1") is data


class Fields(msgspec.Struct):
    a: Raw = Raw(b"null")
    b: Raw = Raw(b"null")


READ = FieldReader(Fields)


@pytest.mark.parametrize(
    ("data", "a"),
    [
        (b'{"a":[1, 2],"z":3}', b"[1, 2]"),
        (b'{"z":3}', b"null"),
        (b'{"a":null}', b"null"),
        (b'{"a":"x","z":"\\ud83d"}', b'"x"'),
        (b'{"a":"\\ud83d"}', b'"\\ud83d"'),
        (b'{"z":NaN,"a":{"k":NaN}}', b'{"k":NaN}'),
        (b'{"a":1,"a":2,"z":"\\ud83d"}', b"2"),
        (b'{"a":1,"a":2}', b"2"),
        (b'{"\xff":1,"a":3}', b"3"),
    ],
)
def test_a_field_is_read_as_its_text_from_any_json(data: bytes, a: bytes) -> None:
    found = READ(data)
    assert found is not None
    assert bytes(found.a) == a


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"3", b'{"a":1', b'{"a":1}}', b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}"]
)
def test_what_is_no_object_has_no_fields(data: bytes) -> None:
    assert READ(data) is None


def test_places_are_those_of_the_bytes_whatever_the_text_holds() -> None:
    text = json.dumps({"é": "日本\U0001f600", "a": "ü"}, ensure_ascii=False).encode()
    assert texts(text) == [("Ã©", '"日本\U0001f600"'.encode()), ("a", '"ü"'.encode())]
