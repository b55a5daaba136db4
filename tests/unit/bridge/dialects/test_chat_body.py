"""What is read of a completion, whole or in chunks, and that no odd type ever raises."""

from __future__ import annotations

import json

import pytest

from osmosis_bridge.call import Usage
from osmosis_bridge.dialects.chat_body import ABSENT, Reading, read_body, split_or_none, value_of


def reading_of(*bodies: object) -> Reading:
    reading = Reading()
    for body in bodies:
        found = read_body(json.dumps(body).encode())
        assert found is not None
        reading.take(found)
    return reading


def choice(index: int | None, finish: object = None, **fields: object) -> dict[str, object]:
    return {"index": index, "finish_reason": finish, **fields}


def test_the_fields_that_matter_are_kept_as_their_text() -> None:
    found = read_body(
        b'{"model": "a\\u00e9","usage":{"x":1.10},"object":"o","choices":[{"index":0,"delta":{}}],"z":1e400}'
    )
    assert found is not None
    assert (bytes(found.model), bytes(found.usage), bytes(found.object)) == (
        b'"a\\u00e9"',
        b'{"x":1.10}',
        b'"o"',
    )
    assert found.choices is not None
    assert (bytes(found.choices[0].index), found.choices[0].finish_reason) == (b"0", ABSENT)
    assert (found.error, found.x_groq) == (ABSENT, ABSENT)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b'"x"', b"null", b"\xff", b"<html>"])
def test_what_is_no_json_object_is_none(data: bytes) -> None:
    assert read_body(data) is None


def test_odd_types_are_read_as_far_as_they_go() -> None:
    found = read_body(
        b'{"choices":[7,{"index":[1],"finish_reason":"\\ud800"}],"model":3,"usage":"u","error":null}'
    )
    assert found is not None
    assert found.choices is not None
    assert bytes(found.choices[0].index) == b"[1]"
    assert (bytes(found.model), bytes(found.usage), found.error) == (b"3", b'"u"', ABSENT)
    other = read_body(b'{"choices":{"a":1}}')
    assert other is not None
    assert other.choices is None
    assert other.model is ABSENT


def test_nesting_that_is_too_deep_is_no_object_and_no_fault() -> None:
    assert read_body(b'{"a":' + b"[" * 90_000 + b"]" * 90_000 + b"}") is None
    assert split_or_none(b'{"a":' + b"[" * 90_000 + b"]" * 90_000 + b"}") is None


def test_the_value_of_a_text_that_is_no_json_is_the_text() -> None:
    assert value_of(b'{"a":1}') == {"a": 1}
    assert value_of(b"boom \xff") == "boom \ufffd"
    assert value_of(b"9" * 5000) == "9" * 5000


def test_an_object_is_split_into_names_and_texts() -> None:
    found = split_or_none(b'{"a": 1.10 ,"b":{"c":1}}')
    assert found is not None
    assert {name: bytes(raw) for name, raw in found.items()} == {"a": b"1.10", "b": b'{"c":1}'}
    assert split_or_none(b"[]") is None


def test_a_completion_is_complete_when_every_choice_that_was_seen_has_a_finish_reason() -> None:
    assert not Reading().complete
    assert not reading_of({"choices": [choice(0)]}).complete
    assert reading_of({"choices": [choice(0)]}, {"choices": [choice(0, "stop")]}).complete
    assert not reading_of({"choices": [choice(0, "stop"), choice(1)]}).complete
    assert reading_of(
        {"choices": [choice(0, "stop"), choice(1)]}, {"choices": [choice(1, "length")]}
    ).complete
    assert not reading_of({"choices": [choice(0, "")]}).complete
    assert reading_of({"choices": [choice(None)]}, {"choices": [choice(0, "stop")]}).complete


def test_finish_reasons_are_kept_in_the_order_their_choices_ended() -> None:
    reading = reading_of({"choices": [choice(1, "length")]}, {"choices": [choice(0, {"type": "stop"})]})
    assert reading.outcome("ok", 200).finish_reasons == ("length", '{"type": "stop"}')


@pytest.mark.parametrize(
    ("finish", "kept"),
    [(b'"\xff"', "\ufffd"), (b'"\\udfff"', "?"), (b"9" * 5000, "9" * 100), (b"true", "true")],
)
def test_a_finish_reason_of_any_kind_is_kept_as_short_text(finish: bytes, kept: str) -> None:
    found = read_body(b'{"choices":[{"index":0,"finish_reason":' + finish + b"}]}")
    assert found is not None
    reading = Reading()
    reading.take(found)
    assert reading.outcome("ok", 200).finish_reasons == (kept,)


@pytest.mark.parametrize(
    ("fields", "erred"),
    [
        ({"finish_reason": "error"}, True),
        ({"finish_reason": "errors"}, False),
        ({"error": {"message": "x"}}, True),
        ({"error": "x"}, True),
        ({"error": None}, False),
        ({"error": {}}, False),
        ({"error": False}, False),
    ],
)
def test_a_choice_can_end_in_an_error(fields: dict[str, object], erred: bool) -> None:
    reading = reading_of({"choices": [{"index": 0, **fields}]})
    assert reading.erred is erred


USAGE = {"prompt_tokens": 10, "completion_tokens": 5}


def test_usage_is_the_last_that_was_said_at_the_top_else_in_a_choice_else_in_x_groq() -> None:
    top, in_choice = {"usage": {**USAGE, "cost": 0.5}}, {"choices": [choice(0, usage={"total_tokens": 3})]}
    groq = {"x_groq": {"usage": {"total_tokens": 4}}}
    assert reading_of(groq, in_choice, top).outcome("ok", 200).usage == Usage(10, 5, 15)
    assert reading_of(groq, in_choice).outcome("ok", 200).usage == Usage(None, None, 3)
    assert reading_of(groq).outcome("ok", 200).usage == Usage(None, None, 4)
    assert reading_of(top, {"usage": None}).outcome("ok", 200).cost_usd == 0.5


def test_an_outcome_says_where_its_usage_is_from() -> None:
    outcome = reading_of({"usage": USAGE}).outcome("truncated", 200, "cut")
    assert (outcome.status, outcome.http_status, outcome.error_code, outcome.usage_source) == (
        "truncated", 200, "cut", "provider"
    )  # fmt: skip
    assert Reading().outcome("ok", 200).usage_source == "missing"
