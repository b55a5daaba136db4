"""The request for embeddings as it came."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.embeddings.texts import read_request


def test_a_text_is_one_text_and_texts_keep_their_order() -> None:
    assert read_request({"input": "a"}).texts == ["a"]
    asked = read_request({"model": "m", "input": ["b", "", "b"], "dimensions": 3})
    assert (asked.texts, asked.fields, asked.base64) == (["b", "", "b"], {"dimensions": 3}, False)


def test_vectors_go_back_as_base64_only_where_that_was_asked_for() -> None:
    assert read_request({"input": "a", "encoding_format": "base64"}).base64
    assert not read_request({"input": "a", "encoding_format": "float"}).base64
    assert not read_request({"input": "a", "encoding_format": None}).base64


@pytest.mark.parametrize("tokens", [[1, 2], [[1], [2]]])
def test_tokens_are_refused_with_what_to_send(tokens: Any) -> None:
    with pytest.raises(Refused) as caught:
        read_request({"input": tokens})
    assert (caught.value.status, caught.value.param) == (400, "input")
    assert "send the texts themselves" in caught.value.message


@pytest.mark.parametrize("given", [None, [], {}, 5, True, ["a", 1], ["a", None], [{"text": "a"}]])
def test_anything_else_is_no_input(given: Any) -> None:
    with pytest.raises(Refused) as caught:
        read_request({"input": given})
    assert caught.value.param == "input"
