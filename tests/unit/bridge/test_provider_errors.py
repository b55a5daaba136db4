"""What a provider means by a failure: every shape seen, one error out, sanitised, its status kept."""

from __future__ import annotations

import json
import time

import pytest

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.provider_errors import error_fields, in_band_failure, no_answer_of, no_json, read_failure
from osmosis_bridge.redact import Redactor

NONE = Redactor()


def read(status: int, body: object) -> UpstreamFailed:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_failure(status, raw, Redactor(["the-secret-key"], ["gpu-7.internal"]))


def shown(error: UpstreamFailed) -> dict[str, object]:
    return json.loads(error.body())["error"]


@pytest.mark.parametrize(
    "status", [400, 401, 402, 403, 404, 408, 409, 413, 415, 422, 424, 429, 451, 500, 502, 503, 504, 529]
)
def test_a_4xx_or_5xx_keeps_its_status(status: int) -> None:
    error = read(status, {"error": {"message": "no"}})
    assert (error.status, error.origin, error.message) == (status, "upstream", "no")


@pytest.mark.parametrize("status", [101, 204, 226, 600, 999])
def test_any_other_status_becomes_502(status: int) -> None:
    assert read(status, {"error": {"message": "no"}}).status == 502


def test_a_redirect_is_told_as_one_and_its_body_is_not_read() -> None:
    error = read(307, b"<html>moved</html>")
    assert (error.status, error.code) == (502, "upstream_redirect")
    assert "307" in error.message
    assert "moved" not in error.message


def test_type_param_and_code_are_the_providers_where_it_sent_them() -> None:
    body = {"error": {"message": "too hot", "type": "my_type", "param": "temperature", "code": "bad_value"}}
    assert shown(read(400, body)) == body["error"]


def test_a_type_is_found_for_the_status_where_the_provider_sent_none() -> None:
    types = {
        status: read(status, {"error": {"message": "x"}}).type
        for status in (400, 401, 402, 403, 404, 429, 500)
    }
    assert types == {
        400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
        404: "not_found_error", 429: "rate_limit_error", 500: "upstream_error",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "m"}}, "m"),
        ({"error": "text"}, "text"),
        ({"error": "Not Found", "message": "no model x"}, "no model x"),
        ({"error": "invalid_grant", "error_description": "expired"}, "expired"),
        ({"error": "bad", "detail": ["a"]}, "bad"),
        ({"object": "error", "message": "EngineDead", "type": "InternalError", "code": 500}, "EngineDead"),
        ({"message": "m"}, "m"),
        ({"detail": "d"}, "d"),
        (
            {"detail": [{"loc": ["body", "x"], "msg": "field required"}]},
            '[{"loc": ["body", "x"], "msg": "field required"}]',
        ),
        ({"errors": ["a", "b"]}, '["a", "b"]'),
        ({"msg": "m"}, "m"),
        ([{"error": {"message": "in a list", "code": 429}}], "in a list"),
        ([[["deep"]]], "deep"),
        ({"error": {"code": 5, "detail": "in detail"}}, "in detail"),
        ({"error": {"message": None, "reason": "r"}}, '{"message": null, "reason": "r"}'),
        ({"error": {"message": {"a": 1}}}, '{"a": 1}'),
        ({"error": ["a"]}, '["a"]'),
        ({"error": 7}, "7"),
        ("just text", "just text"),
        ({"zebra": 1}, 'the provider answered 500: {"zebra": 1}'),
        ([], "the provider answered 500: []"),
        ({}, "the provider answered 500: {}"),
        (7, "the provider answered 500: 7"),
        ({"error": None}, 'the provider answered 500: {"error": null}'),
    ],
)
def test_the_message_is_found_in_every_shape(body: object, message: str) -> None:
    assert read(500, body).message == message


def test_a_html_page_becomes_its_title_and_its_words() -> None:
    page = (
        b"<!DOCTYPE html><HTML><head><title>502 Bad Gateway</title><style>b{color:red}</style></head><body>"
        b"<script>steal()</script><h1>Bad  gateway</h1>\n<p>host gpu-7.internal</p></body></html>"
    )
    error = read(502, page)
    assert error.message == "the provider answered 502: 502 Bad Gateway: Bad gateway host [private host]"
    assert (error.status, error.type) == (502, "upstream_error")


def test_a_page_whose_script_never_ends_shows_what_stands_before_it() -> None:
    assert read(500, b"<p>a</p><script>x<p>b").message == "the provider answered 500: a"


def test_a_header_is_no_head() -> None:
    assert read(500, b"<header>top</header><p>a</p>").message == "the provider answered 500: top a"


def test_plain_text_and_an_empty_body_are_told_with_the_status() -> None:
    assert read(503, b"upstream connect error").message == "the provider answered 503: upstream connect error"
    assert read(503, b"").message == "the provider answered 503 with an empty body"
    assert read(400, {"error": {"message": " "}}).message == "the provider answered 400 without a message"


def test_bytes_that_are_no_utf_8_are_told_as_well_as_can_be() -> None:
    assert read(400, b'{"error":{"message":"caf\xe9"}}').message == "caf\ufffd"
    assert read(400, b"caf\xe9").message == "the provider answered 400: caf\ufffd"
    assert read(400, b"\xef\xbb\xbf" + b'{"error":{"message":"bom"}}').message == "bom"
    assert read(400, '{"error":{"message":"utf16"}}'.encode("utf-16")).message == "utf16"


def test_secrets_private_hosts_and_line_breaks_are_taken_out_of_every_text() -> None:
    error = read(
        401,
        {
            "error": {
                "message": "bad key the-secret-key\nat http://gpu-7.internal:8000/v1?key=x",
                "type": "t the-secret-key", "param": "the-secret-key", "code": "the-secret-key",
            }
        },
    )  # fmt: skip
    assert "the-secret-key" not in error.body().decode()
    assert error.message == "bad key [REDACTED] at http://[private host]/v1?…"


def test_texts_are_bounded() -> None:
    error = shown(read(400, {"error": dict.fromkeys(("message", "type", "param", "code"), "x" * 5000)}))
    assert {name: len(str(text)) for name, text in error.items()} == {
        "message": 1000, "type": 200, "param": 200, "code": 200
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "kept"),
    [(429, 429), ("x", "x"), (True, None), (1.5, None), (None, None), ([1], None), (10**30, None)],
)
def test_a_code_is_text_or_a_whole_number(code: object, kept: object) -> None:
    assert shown(read(400, {"error": {"message": "m", "code": code}}))["code"] == kept


def test_a_type_that_is_no_text_is_replaced_by_the_statuss_and_a_param_dropped() -> None:
    error = read(429, {"error": {"message": "m", "type": 7, "param": 7}})
    assert (error.type, error.param) == ("rate_limit_error", None)
    assert read(429, {"error": {"message": "m", "type": ""}}).type == "rate_limit_error"


def test_the_headers_given_go_with_the_error() -> None:
    headers = ((b"retry-after", b"3"),)
    for body in (b"{}", b"text"):
        assert read_failure(429, body, NONE, headers).headers == headers
    assert read_failure(301, b"", NONE, headers).headers == headers
    assert in_band_failure({"error": "x"}, NONE, headers).headers == headers


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ({"error": {"code": 429, "message": "x"}}, 429),
        ({"error": {"code": "503", "message": "x"}}, 503),
        ({"error": {"code": "context_length_exceeded", "status": 400, "message": "x"}}, 400),
        ({"error": {"status_code": 404, "message": "x"}}, 404),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x"}}, 429),
        ({"object": "error", "message": "x", "code": 400}, 400),
        ({"error": {"code": 200, "message": "x"}}, 502),
        ({"error": {"code": 600, "message": "x"}}, 502),
        ({"error": {"code": True, "message": "x"}}, 502),
        ({"error": {"code": "²²²", "message": "x"}}, 502),
        ({"error": {"code": "9" * 5000, "message": "x"}}, 502),
        ({"error": {"type": "rate_limit_error", "message": "x"}}, 429),
        ({"error": {"type": "invalid_request_error", "code": "bad", "message": "x"}}, 400),
        ({"error": {"type": "overloaded_error", "message": "x"}}, 503),
        ({"error": {"type": "server_error", "message": "x"}}, 502),
        ({"error": {"type": ["x"], "message": "x"}}, 502),
        ({"error": "x"}, 502),
        (None, 502),
        ("boom", 502),
    ],
)
def test_an_error_under_http_200_has_the_status_its_code_or_type_says(found: object, status: int) -> None:
    assert in_band_failure(found, NONE).status == status


def test_an_error_under_http_200_keeps_type_code_and_message() -> None:
    error = in_band_failure({"error": {"type": "t", "code": "c", "message": "m", "param": "p"}}, NONE)
    assert shown(error) == {"type": "t", "code": "c", "message": "m", "param": "p"}
    assert in_band_failure({"zebra": 1}, NONE).message == '{"zebra": 1}'


def test_no_shape_is_no_error() -> None:
    assert [error_fields(found) for found in (None, [], {}, "", 7, {"error": None}, {"message": ""})] == [
        None
    ] * 7


@pytest.mark.parametrize("depth", [100, 900, 950, 990, 2000, 100_000])
@pytest.mark.parametrize("shape", [(b"[", b"]"), (b'{"error":', b"}"), (b'{"message":[', b"]}")])
def test_nesting_of_any_depth_breaks_nothing(depth: int, shape: tuple[bytes, bytes]) -> None:
    error = read(500, shape[0] * depth + b"1" + shape[1] * depth)
    assert error.status == 500
    assert len(error.message) <= 1000


def test_an_error_nested_too_deep_to_write_is_told_as_such() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert in_band_failure({"error": {"message": deep}}, NONE).message == "an error nested too deep to show"


@pytest.mark.parametrize(
    "part", [b"<script ", b"<title", b"<title>", b"<", b"<style>", b"</script", b"<head", b"<!--"]
)
def test_a_hostile_page_does_not_hold_anybody_up(part: bytes) -> None:
    begun = time.process_time()
    read(500, part * 200_000)
    # Generous: it is a hang that this is about, and it takes milliseconds.
    assert time.process_time() - begun < 5


def test_a_200_that_is_no_json_is_told_as_the_200_it_was() -> None:
    failure = no_json(b"<html><title>Login</title><p>please sign in</p></html>", Redactor())
    assert (failure.status, failure.code) == (502, "invalid_upstream_reply")
    assert failure.message.startswith(
        "the provider answered 200 with something that is no JSON object: Login: please sign in; check that the base"
    )
    assert no_json(b" \n", Redactor()).message.startswith(
        "the provider answered 200 with an empty body; check that"
    )


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            404,
            b"<html><title>404 Not Found</title><h1>404 Not Found</h1>nginx</html>",
            "404: 404 Not Found nginx; ",
        ),
        (404, b'{"detail":"Not Found"}', "404: Not Found; "),
        (404, b"404 page not found\n", "404: 404 page not found; "),
        (404, b"", "404 with an empty body; "),
        (405, b'{"detail":"Method Not Allowed"}', "405: Method Not Allowed; "),
        (401, b'{"error":"unauthorized"}', "401: unauthorized; "),
        (403, b"<p>Forbidden</p>", "403: Forbidden; "),
    ],
)
def test_a_reply_that_says_no_more_than_its_status_is_told_with_what_to_do(
    status: int, body: bytes, message: str
) -> None:
    told = read(status, body).message
    assert told.startswith(f"the provider answered {message}check ")
    assert ("--api-base" in told) is (status in (404, 405))
    assert ("the key that the bridge was started with" in told) is (status in (401, 403))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": {"message": "the model `x` does not exist"}}),
        (401, {"error": {"message": "Incorrect API key provided"}}),
        (500, {"detail": "Internal Server Error"}),
    ],
)
def test_a_provider_that_says_what_is_wrong_is_left_to_say_it(status: int, body: dict[str, object]) -> None:
    assert "check" not in read(status, body).message


def test_a_long_page_leaves_room_for_what_to_do_and_no_piece_of_a_secret() -> None:
    page = b"<p>" + b"x " * 245 + b"the-secret-key the-secret-key " + b"y" * 5000 + b"</p>"
    told = read(404, page).message
    assert told.endswith("often with /v1 at its end")
    assert "the-sec" not in told
    assert len(told) <= 1000


def test_json_that_is_neither_an_answer_nor_an_error_is_told_as_what_it_is_not() -> None:
    failure = no_answer_of(
        "list of embeddings", {"id": "x", "key": "the-secret-key"}, Redactor(["the-secret-key"])
    )
    assert (failure.status, failure.code) == (502, "invalid_upstream_reply")
    assert failure.message == (
        'the provider answered 200 with JSON that is no list of embeddings: {"id": "x", "key": "[REDACTED]"};'
        " check that the endpoint serves this path for this model"
    )
