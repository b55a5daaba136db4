"""The client's name for the model, in place of the provider's, and nowhere else."""

from __future__ import annotations

import pytest

from osmosis_bridge.dialects.alias import with_alias

UP, ALIAS = b'"up/real"', b'"m"'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"model":"up/real"}', b'{"model":"m"}'),
        (b'{"model": "up/real","a":"up/real"}', b'{"model": "m","a":"up/real"}'),
        (b'{"a":1, "model" : "up/real" }', b'{"a":1, "model" : "m" }'),
        (b'{"c":{"model":"up/real"},"model":"up/real"}', b'{"c":{"model":"up/real"},"model":"m"}'),
        (b'{"model":"up/real","c":["model","up/real"]}', b'{"model":"m","c":["model","up/real"]}'),
        (
            rb'{"c":"{\"model\":\"up/real\"}","model":"up/real"}',
            rb'{"c":"{\"model\":\"up/real\"}","model":"m"}',
        ),
        (b'{"t":"model","model":"up/real"}', b'{"t":"model","model":"m"}'),
        (b'{"\\u006dodel":"up/real","c":"\\ud83d"}', b'{"\\u006dodel":"m","c":"\\ud83d"}'),
        (b'{"model":"up/real","model":"up/real"}', b'{"model":"m","model":"m"}'),
        (b'{"model"\n:\n"up/real","n":NaN}', b'{"model"\n:\n"m","n":NaN}'),
    ],
)
def test_the_model_of_the_top_level_is_replaced_and_nothing_else(data: bytes, expected: bytes) -> None:
    assert with_alias(data, UP, ALIAS) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"response":{"model":"up/real"}}', b'{"response":{"model":"m"}}'),
        (
            b'{"model":"up/real","response":{"model":"up/real"}}',
            b'{"model":"up/real","response":{"model":"m"}}',
        ),
        (
            b'{"response":{"output":[{"model":"up/real"}],"model":"up/real"}}',
            b'{"response":{"output":[{"model":"up/real"}],"model":"m"}}',
        ),
        (
            rb'{"response":{"text":"say \"model\":\"up/real\"","model":"up/real"}}',
            rb'{"response":{"text":"say \"model\":\"up/real\"","model":"m"}}',
        ),
        (b'{"x":{"model":"up/real"},"y":{"model":1}}', b'{"x":{"model":"up/real"},"y":{"model":1}}'),
        (
            b'{ "response" : { "n":"\\ud83d", "model" : "up/real" } }',
            b'{ "response" : { "n":"\\ud83d", "model" : "m" } }',
        ),
    ],
)
def test_the_model_within_a_field_is_replaced_and_nothing_else(data: bytes, expected: bytes) -> None:
    assert with_alias(data, UP, ALIAS, "response") == expected


@pytest.mark.parametrize("model", [b"null", ALIAS])
def test_where_there_is_nothing_to_do_it_is_the_same_object(model: bytes) -> None:
    data = b'{"model":' + model + b"}"
    assert with_alias(data, model, ALIAS) is data


def test_a_model_that_is_no_text_gets_the_alias_too() -> None:
    assert with_alias(b'{"model":{"id":7}}', b'{"id":7}', ALIAS) == b'{"model":"m"}'


def test_an_alias_of_any_text_is_put_in_as_it_is() -> None:
    alias = '"é\\"\\\\1"'.encode()
    assert with_alias(b'{"model":"up/real"}', UP, alias) == b'{"model":' + alias + b"}"
