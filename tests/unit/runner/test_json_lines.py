from __future__ import annotations

import pytest

from osmosis_runner.dataset_problems import Unreadable
from osmosis_runner.json_lines import parse_line, parse_object, parse_value, text_of


def problem_of(line: str | bytes) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        parse_line(line.encode() if isinstance(line, str) else line)
    return caught.value


def test_good_lines_are_read_exactly() -> None:
    assert parse_line(
        b' {"a": 12345678901234567890123, "b": "x\\u0000\\ud83d\\ude00", "c": [1.5, null]} \r\n'
    ) == {
        "a": 12345678901234567890123,
        "b": "x\0😀",
        "c": [1.5, None],
    }


@pytest.mark.parametrize(
    ("line", "found", "fix"),
    [
        ('{"a":1,}', "invalid JSON at character", "comma before the closing bracket"),
        ("{'a': None}", "invalid JSON", "not Python"),
        ("[1]", "a list where an object belongs", "jq -c '.[]'"),
        ("3", "a number or a boolean", "one object a line"),
        ('"x"', "a string where", "one object a line"),
        ("null", "null where", "one object a line"),
        ('{"a":1} {"b":2}', "Extra data", "one JSON object"),
        ('{"a":1}\r{"a":2}', "Extra data", "carriage return"),
        ('{"a":"x\ty"}', "Invalid control character", "one JSON object"),
        ("{", "invalid JSON", "on one line"),
        ('{"a":', "invalid JSON", "one JSON object"),
        ("nonsense", "invalid JSON", "one JSON object"),
    ],
)
def test_bad_lines_say_what_is_wrong_and_what_to_do(line: str, found: str, fix: str) -> None:
    problem = problem_of(line)
    assert found in problem.found
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("line", "column", "found"),
    [
        ('{"m":{"x":NaN}}', "m.x", "NaN, which JSON does not know"),
        ('{"m":[0,-Infinity]}', "m[1]", "-Infinity"),
        ('{"m":{"f":1e400}}', "m.f", "1e400, too large"),
        ('{"m":{"id":' + "9" * 5000 + "}}", "m.id", "a number of 5000 digits"),
        ('{"p":"\\ud83d lone"}', "p", "half of a surrogate pair"),
        ('{"m":{"\\udc00":1}}', "m", "in the key"),
    ],
)
def test_values_that_no_reader_reads_alike_are_placed(line: str, column: str, found: str) -> None:
    problem = problem_of(line)
    assert problem.column == column
    assert found in problem.found
    assert len(problem.found) < 200


def test_a_bad_byte_is_counted_from_the_start_of_the_file() -> None:
    with pytest.raises(Unreadable) as caught:
        parse_line(b'{"p":"caf\xe9"}', file_offset=1000)
    assert "0xE9 at byte 1009 of the file" in caught.value.found
    assert "LATIN1" in caught.value.fix


@pytest.mark.parametrize(
    "line",
    [
        '{"a":1,"a":2}',
        '{"a" :1,"a":2}',
        '{"a":1,"a"\t:2}',
        '{"x":{"a":1,"b":2,"a":3}}',
        '{"x":[{"a":1,"a":1}]}',
        '{"a":"q\\":","a":2}',
        '{"a" :"\\":","a":1}',
        '{"\\u0061":1,"a":2}',
    ],
)
def test_a_key_that_stands_twice_in_one_object_is_refused(line: str) -> None:
    assert "the key 'a' stands twice" in problem_of(line).found


@pytest.mark.parametrize(
    "line", ['{"a":"b\\":c","d":1}', '{"a" : 1, "b" :2}', '{"x":{"a":1},"y":{"a":2}}', '{"a":":\\":\\":"}']
)
def test_colons_in_texts_and_spaces_make_no_repeated_key(line: str) -> None:
    assert parse_line(line.encode())


def test_nesting_beyond_reason_is_a_problem_and_no_crash() -> None:
    assert "nested" in problem_of('{"a":' + "[" * 100_000 + "]" * 100_000 + "}").found


def test_number_text_is_kept_as_it_stands() -> None:
    line = b'{"a": 1.10 , "b":true,"c":-0,"d":12345678901234567890123,"e": 1E2}'
    assert [text_of(line, name) for name in "abcde"] == [
        "1.10",
        "true",
        "-0",
        "12345678901234567890123",
        "1E2",
    ]


def test_a_cells_text_is_read_like_a_line() -> None:
    assert parse_value("[1]") == [1]
    assert parse_object('{"a":{}}') == {"a": {}}
    with pytest.raises(Unreadable, match="a list where an object belongs"):
        parse_object("[1]")
