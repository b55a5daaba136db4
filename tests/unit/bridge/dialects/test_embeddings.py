"""Embeddings: vectors of any form are passed on unread; the model and the usage are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes import admitted
from osmosis_bridge.call import Usage
from osmosis_bridge.dialects.embeddings import EMBEDDINGS_DIALECT
from osmosis_bridge.errors import Refused, UpstreamFailed
from osmosis_bridge.redact import Redactor

REDACTOR = Redactor(["the-secret-key"])


def read(body: bytes):
    return EMBEDDINGS_DIALECT.read_reply(body, admitted(stream=False), REDACTOR)


def reply(*vectors: Any, **fields: Any) -> bytes:
    listed = [{"object": "embedding", "index": n, "embedding": each} for n, each in enumerate(vectors)]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return json.dumps(
        {"object": "list", "data": listed, "model": "up/real", "usage": usage, **fields}
    ).encode()


@pytest.mark.parametrize("vector", [[0.1, -2.5e-05, 1], "AACAPwAAAEA=", [], [1e30, None]])
def test_vectors_of_any_form_are_passed_on_byte_for_byte(vector: Any) -> None:
    body = reply(vector, vector)
    passed, outcome = read(body)
    assert passed == body.replace(b"up/real", b"m")
    assert (outcome.status, outcome.finish_reasons) == ("ok", ())
    assert (outcome.usage, outcome.usage_source) == (Usage(8, None, 8), "provider")


def test_a_vector_with_nan_and_a_byte_order_mark_are_no_obstacle() -> None:
    body = b'\xef\xbb\xbf{"model" : "up/real","data":[{"embedding":[NaN,0.10]}]}'
    passed, outcome = read(body)
    assert passed == b'{"model" : "m","data":[{"embedding":[NaN,0.10]}]}'
    assert (outcome.usage, outcome.usage_source) == (None, "missing")


def test_the_cost_is_read() -> None:
    assert read(reply([1], usage={"prompt_tokens": 1, "total_tokens": 1, "cost": 0.5}))[1].cost_usd == 0.5


def test_a_secret_in_a_reply_does_not_reach_the_client() -> None:
    assert b"the-secret-key" not in read(reply([1], note="the-secret-key"))[0]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 502, "invalid_upstream_reply"),
        (b"{}", 502, "invalid_upstream_reply"),
        (b'{"data":null}', 502, "invalid_upstream_reply"),
        (b'{"data":{}}', 502, "invalid_upstream_reply"),
        (b'{"error":{"message":"no","code":429}}', 429, 429),
        (b'{"error":{"message":"no","type":"rate_limit_error"},"data":[]}', 429, None),
    ],
)
def test_what_is_no_list_of_vectors_is_an_error(body: bytes, status: int, code: object) -> None:
    with pytest.raises(UpstreamFailed) as caught:
        read(body)
    assert (caught.value.status, caught.value.code) == (status, code)


def test_there_is_no_stream() -> None:
    with pytest.raises(Refused) as caught:
        EMBEDDINGS_DIALECT.open_stream(admitted(), REDACTOR)
    assert (caught.value.status, caught.value.param) == (400, "stream")
