"""What a provider says a call cost: every provider's way of saying it, and what is no count at all."""

from __future__ import annotations

import json

import pytest

from osmosis_bridge.call import Usage
from osmosis_bridge.usage import MessagesUsage, read_responses_usage, read_usage


def usage(**fields: object) -> Usage | None:
    return read_usage(json.dumps(fields).encode())[0]


def test_openais_usage_with_its_details_is_read() -> None:
    assert usage(
        prompt_tokens=20, completion_tokens=8, total_tokens=28,
        prompt_tokens_details={"cached_tokens": 12, "audio_tokens": 0},
        completion_tokens_details={"reasoning_tokens": 5},
    ) == Usage(20, 8, 28, 12, None, 5)  # fmt: skip


def test_openrouters_cost_and_cache_writes_are_read() -> None:
    raw = json.dumps(
        {
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.01, "is_byok": False,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
            "cost_details": {"upstream_inference_cost": None},
        }
    ).encode()  # fmt: skip
    assert read_usage(raw) == (Usage(10, 5, 15, 4, 2, None), 0.01)


@pytest.mark.parametrize(
    ("fields", "cached"),
    [
        ({"prompt_cache_hit_tokens": 3, "prompt_cache_miss_tokens": 7}, 3),
        ({"cached_tokens": 4}, 4),
        (
            {"prompt_tokens_details": {"cached_tokens": 1}, "prompt_cache_hit_tokens": 2, "cached_tokens": 3},
            1,
        ),
        ({"prompt_tokens_details": {"cached_tokens": None}, "cached_tokens": 3}, 3),
        ({"prompt_tokens_details": None}, None),
        ({"prompt_tokens_details": []}, None),
    ],
)
def test_cached_tokens_are_found_where_deepseek_and_moonshot_put_them(
    fields: dict[str, object], cached: int
) -> None:
    found = usage(prompt_tokens=10, completion_tokens=1, **fields)
    assert found is not None
    assert found.cached_tokens == cached


def test_anthropics_cache_writes_and_a_bare_reasoning_count_are_found() -> None:
    found = usage(prompt_tokens=15, completion_tokens=1, cache_creation_input_tokens=3, reasoning_tokens=9)
    assert found == Usage(15, 1, 16, None, 3, 9)


def test_a_missing_total_is_the_sum_of_what_there_is() -> None:
    assert usage(prompt_tokens=10, completion_tokens=5) == Usage(10, 5, 15)
    assert usage(prompt_tokens=10) == Usage(10, None, 10)
    assert usage(completion_tokens=5) == Usage(None, 5, 5)


def test_the_providers_total_stands_even_where_it_is_another_sum() -> None:
    assert usage(prompt_tokens=10, completion_tokens=5, total_tokens=40) == Usage(10, 5, 40)
    assert usage(total_tokens=40) == Usage(None, None, 40)
    assert usage(prompt_tokens=10, completion_tokens=5, total_tokens=0) == Usage(10, 5, 0)


def test_zero_is_a_count() -> None:
    assert usage(prompt_tokens=0, completion_tokens=0, total_tokens=0) == Usage(0, 0, 0)


@pytest.mark.parametrize(
    "raw",
    [
        b"null",
        b"[]",
        b"3",
        b'"x"',
        b"{}",
        b'{"prompt_tokens":null}',
        b"{",
        b"",
        b"\xff",
        b'{"input_tokens":3}',
    ],
)
def test_what_holds_no_count_is_no_usage(raw: bytes) -> None:
    assert read_usage(raw) == (None, None)


@pytest.mark.parametrize(
    "value",
    ["true", "-1", "1.5", '"12"', "null", "[]", "1e400", "-1e400", "1e300", "9007199254740993", "NaN"],
)
def test_what_is_no_whole_number_of_tokens_stays_unknown_and_the_rest_is_read(value: str) -> None:
    assert read_usage(f'{{"prompt_tokens":{value},"completion_tokens":2}}'.encode())[0] == Usage(None, 2, 2)


@pytest.mark.parametrize(
    ("value", "count"), [("3.0", 3), ("9007199254740992", 2**53), ("0", 0), ("1e3", 1000)]
)
def test_a_whole_number_is_a_count_however_it_is_written(value: str, count: int) -> None:
    assert read_usage(f'{{"prompt_tokens":{value},"completion_tokens":0}}'.encode())[0] == Usage(
        count, 0, count
    )


def test_an_odd_field_that_nobody_asks_about_does_not_cost_the_rest() -> None:
    raw = b'{"prompt_tokens":1,"completion_tokens":2,"odd":1e999,"note":"\\ud800"}'
    assert read_usage(raw) == (Usage(1, 2, 3), None)
    assert read_usage(b'{"prompt_tokens":1,"odd":' + b"[" * 90_000 + b"]" * 90_000 + b"}") == (None, None)


@pytest.mark.parametrize(("cost", "dollars"), [(0.01, 0.01), (0, 0.0), (3, 3.0)])
def test_the_cost_is_read_even_without_counts(cost: float, dollars: float) -> None:
    assert read_usage(json.dumps({"cost": cost}).encode()) == (None, dollars)


@pytest.mark.parametrize("cost", ["-0.01", "true", '"0.1"', "1e12", "null", "{}"])
def test_what_is_no_price_is_no_cost(cost: str) -> None:
    assert read_usage(f'{{"total_tokens":1,"cost":{cost}}}'.encode()) == (Usage(None, None, 1), None)


# --- Responses


def responses(**fields: object) -> Usage | None:
    return read_responses_usage(json.dumps(fields).encode())[0]


def test_the_usage_of_responses_counts_input_and_output() -> None:
    assert responses(
        input_tokens=20, output_tokens=8, total_tokens=28,
        input_tokens_details={"cached_tokens": 12, "cache_write_tokens": 3},
        output_tokens_details={"reasoning_tokens": 5},
    ) == Usage(20, 8, 28, 12, 3, 5)  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"input_tokens": 10, "output_tokens": 5}, Usage(10, 5, 15)),
        ({"input_tokens": 10}, Usage(10, None, 10)),
        ({"output_tokens": 5}, Usage(None, 5, 5)),
        ({"total_tokens": 40}, Usage(None, None, 40)),
        ({"input_tokens": 10, "output_tokens": 5, "total_tokens": 40}, Usage(10, 5, 40)),
        ({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}, Usage(0, 0, 0)),
        ({"input_tokens": 1, "input_tokens_details": None, "output_tokens_details": []}, Usage(1, None, 1)),
        ({"input_tokens": True, "output_tokens": 2}, Usage(None, 2, 2)),
        # A server that gives Responses the usage of chat.
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Usage(10, 5, 15)),
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 5, 15)),
        ({"input_tokens": "10"}, None),
        ({}, None),
    ],
)
def test_the_usage_of_responses_is_read_as_far_as_it_goes(
    fields: dict[str, object], found: Usage | None
) -> None:
    assert responses(**fields) == found


@pytest.mark.parametrize("raw", [b"null", b"[]", b"", b"{", b"7"])
def test_what_is_no_usage_of_responses_is_none(raw: bytes) -> None:
    assert read_responses_usage(raw) == (None, None)


def test_the_cost_of_a_response_is_read() -> None:
    raw = b'{"input_tokens":1,"output_tokens":2,"cost":0.25,"odd":"\\ud83d"}'
    assert read_responses_usage(raw) == (Usage(1, 2, 3), 0.25)
    assert read_responses_usage(b'{"cost":0.25}') == (None, 0.25)


# --- Messages


def messages(*parts: object) -> tuple[Usage | None, float | None]:
    usage = MessagesUsage()
    for part in parts:
        usage.take(part if isinstance(part, bytes) else json.dumps(part).encode())
    return usage.read()


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([{"input_tokens": 5, "output_tokens": 15}], Usage(5, 15, 20)),
        (
            [
                {
                    "input_tokens": 5, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 3,
                    "output_tokens": 1,
                    "cache_creation": {"ephemeral_5m_input_tokens": 7}, "output_tokens_details": {"thinking_tokens": 1},
                }
            ],
            Usage(15, 1, 16, 3, 7, 1),
        ),
        ([{"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 15}], Usage(5, 15, 20)),
        ([{"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 4}, {"output_tokens": 15}], Usage(5, 15, 20)),
        # Counts that a server does not repeat are null, or zero.
        ([{"input_tokens": 5, "output_tokens": 1}, {"input_tokens": None, "output_tokens": 15}], Usage(5, 15, 20)),
        ([{"input_tokens": 5, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 15}], Usage(5, 15, 20)),
        # An estimate at the start is put right at the end, in either direction.
        ([{"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 7, "output_tokens": 2}], Usage(7, 2, 9)),
        ([{"input_tokens": 90, "output_tokens": 0}, {"input_tokens": 70, "output_tokens": 2}], Usage(70, 2, 72)),
        # Zeros count nothing: a stream begins with them, and no prompt is empty.
        ([{"input_tokens": 0, "output_tokens": 0}], None),
        ([{"input_tokens": 0, "output_tokens": 0}, {"input_tokens": None, "output_tokens": None}], None),
        ([{"input_tokens": 0, "output_tokens": 3}], Usage(0, 3, 3)),
        # A total that is more than its parts is told by name.
        ([{"input_tokens": 5, "output_tokens": 2, "total_tokens": 9}], Usage(5, 2, 9)),
        ([{"input_tokens": 5, "output_tokens": 2, "total_tokens": "x"}], Usage(5, 2, 7)),
        ([{"input_tokens": 5}], Usage(5, None, 5)),
        ([{"output_tokens": 5}], Usage(None, 5, 5)),
        ([{"output_tokens": 5, "cache_read_input_tokens": 3}], Usage(None, 5, 5, 3)),
        ([{"cache_read_input_tokens": 3}], None),
        ([{"input_tokens": "5", "output_tokens": -1}], None),
        ([{"input_tokens": 5, "output_tokens": 1}, {"output_tokens": "x"}], Usage(5, 1, 6)),
        # A server that gives Messages the usage of chat.
        ([{"prompt_tokens": 10, "completion_tokens": 5}], Usage(10, 5, 15)),
        ([{"prompt_tokens": 10, "completion_tokens": 5}, {}], Usage(10, 5, 15)),
        ([{"prompt_tokens": 10}, {"input_tokens": 3, "output_tokens": 1}], Usage(3, 1, 4)),
        ([None, [], 7, "x"], None),
        ([b"", b"{", b'{"input_tokens":1,"note":"\\ud83d"}'], Usage(1, None, 1)),
        ([], None),
    ],
)  # fmt: skip
def test_the_usage_of_messages_is_read_from_its_parts(parts: list[object], found: Usage | None) -> None:
    assert messages(*parts) == (found, None)


def test_the_last_cost_of_a_message_stands() -> None:
    assert messages({"cost": 0.1}, {"output_tokens": 1, "cost": 0.2}, {}) == (Usage(None, 1, 1), 0.2)
