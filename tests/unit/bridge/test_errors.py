"""Errors: statuses by whose doing, and one body in OpenAI's shape, whatever the texts hold."""

from __future__ import annotations

import json

from osmosis_bridge.errors import (
    BridgeError,
    LedgerFailed,
    Refused,
    Unrecordable,
    UpstreamFailed,
    encode_error,
)


def test_the_body_is_openais_error_object() -> None:
    error = Refused("no", code="invalid_json", param="stream")
    assert json.loads(error.body()) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "stream", "code": "invalid_json"}
    }


def test_what_is_not_known_is_null_in_the_body() -> None:
    assert json.loads(BridgeError("x").body())["error"] == {
        "message": "x", "type": "server_error", "param": None, "code": None
    }  # fmt: skip


def test_each_kind_has_its_status_and_says_whose_doing_it_is() -> None:
    kinds = (BridgeError("x"), Refused("x"), UpstreamFailed("x"), LedgerFailed("x"), Unrecordable("x"))
    assert [(e.status, e.origin) for e in kinds] == [
        (500, "bridge"), (400, "bridge"), (502, "upstream"), (500, "bridge"), (503, "bridge")
    ]  # fmt: skip


def test_an_error_can_have_a_status_and_a_type_of_its_own() -> None:
    error = UpstreamFailed(
        "slow down", status=429, type="rate_limit_error", headers=((b"retry-after", b"3"),)
    )
    assert (error.status, error.type, error.headers) == (429, "rate_limit_error", ((b"retry-after", b"3"),))
    assert UpstreamFailed("x").status == 502


def test_a_numeric_code_stays_a_number() -> None:
    assert json.loads(encode_error("x", "t", None, 429))["error"]["code"] == 429


def test_texts_are_one_line_and_bounded_whatever_a_caller_put_into_a_name() -> None:
    error = json.loads(encode_error("a\r\nb\x00c" + "x" * 5000, "t", "p\n" * 500, "c" * 500))["error"]
    assert error["message"].startswith("a b cxxx")
    assert [len(error[name]) for name in ("message", "param", "code")] == [1000, 200, 200]
    assert not set("\r\n\x00") & set(error["message"] + error["param"])


def test_a_lone_surrogate_in_a_text_does_not_break_the_body() -> None:
    assert json.loads(encode_error("a\ud800b", "t", "\udfff", "\ud800"))["error"] == {
        "message": "a?b", "type": "t", "param": "?", "code": "?"
    }  # fmt: skip
