"""What every dialect has unless it says otherwise."""

from __future__ import annotations

import json

import pytest

from osmosis_bridge.client_headers import PASSED
from osmosis_bridge.dialects.chat import CHAT_DIALECT, COMPLETIONS_DIALECT
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.embeddings import EMBEDDINGS_DIALECT
from osmosis_bridge.dialects.messages import MESSAGES_DIALECT
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.errors import Refused

USUAL = ((b"authorization", b"Bearer key"), (b"accept", b"application/json"))


@pytest.mark.parametrize("dialect", [CHAT_DIALECT, COMPLETIONS_DIALECT, EMBEDDINGS_DIALECT])
def test_errors_have_openais_shape(dialect: Dialect) -> None:
    error = Refused("no", code="c", param="p")
    shape = {"error": {"message": "no", "type": "invalid_request_error", "param": "p", "code": "c"}}
    assert json.loads(dialect.error_body(error)) == shape
    assert dialect.error_event(error) == b"data: " + dialect.error_body(error) + b"\n\n"


@pytest.mark.parametrize("dialect", [CHAT_DIALECT, COMPLETIONS_DIALECT, EMBEDDINGS_DIALECT])
def test_of_the_client_what_passes_goes_out_and_all_of_the_usual_does(dialect: Dialect) -> None:
    assert dialect.passed is PASSED
    assert dialect.headers("key", {b"anthropic-version": b"1", b"cookie": b"c"}) == ()
    assert dialect.outgoing(USUAL, "api.anthropic.com") == USUAL


@pytest.mark.parametrize("dialect", DIALECTS.values())
def test_a_dialect_is_served_at_its_own_path_and_the_longest_path_is_tried_first(dialect: Dialect) -> None:
    assert dialect.served_at[-1] == dialect.path
    assert list(dialect.served_at) == sorted(dialect.served_at, key=len, reverse=True)
    assert dialect.path_bytes == dialect.path.encode()


def test_anthropics_clients_find_messages_behind_any_base_url() -> None:
    assert MESSAGES_DIALECT.served_at == ("/v1/messages", "/messages")
