"""What streams of typed events have in common, shown on both of them; and what a told error means."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fakes import admitted
from osmosis_bridge.dialects.messages import MessagesStream
from osmosis_bridge.dialects.responses import ResponsesStream
from osmosis_bridge.dialects.typed import TypedStream, no_answer, told_failure, word_of
from osmosis_bridge.redact import Redactor
from typed_events import MESSAGES, RESPONSES, event

REDACTOR = Redactor(["the-secret-key"], ["gpu-7.internal"])
Kind = Callable[[Any, Redactor], TypedStream]
BOTH = pytest.mark.parametrize(
    ("kind", "events"), [(ResponsesStream, RESPONSES), (MessagesStream, MESSAGES)], ids=["responses", "messages"]
)  # fmt: skip


def relayed(kind: Kind, *pieces: bytes) -> tuple[bytes, TypedStream]:
    """Feed pieces until the stream ends, as a relay does; what came out before its end, and the stream."""
    stream = kind(admitted(), REDACTOR)
    out = b""
    for piece in pieces:
        out += stream.feed(piece)
        if stream.ended:
            return out, stream
    return out + stream.finish(), stream


def error_of(stream: TypedStream) -> dict[str, Any]:
    """The error in the one event that ends a stream."""
    assert stream.failure is not None
    name, data = stream.last.rstrip(b"\n").split(b"\n")
    assert name == b"event: error"
    found = json.loads(data.removeprefix(b"data: "))
    assert found["type"] == "error"
    return found["error"]


@BOTH
def test_every_event_is_passed_on_as_it_came_but_for_the_model_and_the_last_is_kept_back(
    kind: Kind, events: list[bytes]
) -> None:
    out, stream = relayed(kind, *events)
    assert out + stream.last == b"".join(events).replace(b'"up/real"', b'"m"')
    assert stream.last == events[-1].replace(b'"up/real"', b'"m"')
    assert (stream.status, stream.failure, stream.complete) == ("ok", None, True)


@BOTH
def test_a_stream_that_is_cut_after_any_event_is_no_success(kind: Kind, events: list[bytes]) -> None:
    for number in range(len(events)):
        out, stream = relayed(kind, *events[:number])
        assert not stream.complete
        assert stream.status == "truncated"
        assert error_of(stream)["message"]
        assert b"completed" not in stream.last
        assert b"message_stop" not in out + stream.last
        assert b'"response.completed"' not in out


@BOTH
def test_a_stream_that_is_cut_within_its_last_event_is_no_success(kind: Kind, events: list[bytes]) -> None:
    last = events[-1].rstrip(b"\n")
    for length in range(1, len(last)):
        _, stream = relayed(kind, *events[:-1], last[:length])
        assert (stream.status, stream.complete) == ("truncated", False), last[:length]


@BOTH
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_a_last_event_without_its_blank_line_is_the_end_all_the_same(
    kind: Kind, events: list[bytes], ending: bytes
) -> None:
    _, stream = relayed(kind, *events[:-1], events[-1].rstrip(b"\n") + ending)
    assert (stream.status, stream.complete) == ("ok", True)
    assert stream.last.endswith(b"\n\n")


@BOTH
def test_nothing_that_follows_the_end_is_passed_on(kind: Kind, events: list[bytes]) -> None:
    more = b"data: [DONE]\n\n" + event("error", message="too late") + b": bye\n\n"
    for pieces in ([*events[:-1], events[-1] + more], [*events, more]):
        out, stream = relayed(kind, *pieces)
        assert b"DONE" not in out + stream.last
        assert (stream.status, stream.failure) == ("ok", None)


@BOTH
def test_done_before_the_answer_is_complete_is_a_truncation(kind: Kind, events: list[bytes]) -> None:
    for done in (b"data: [DONE]\n\n", b"data:  [DONE] \n\n", b"data: [DONE]"):
        out, stream = relayed(kind, *events[:-1], done)
        assert stream.status == "truncated"
        assert error_of(stream)["message"]
        assert b"[DONE]" not in out + stream.last


@BOTH
def test_comments_and_retry_hints_are_passed_on_once_the_stream_has_begun(
    kind: Kind, events: list[bytes]
) -> None:
    out, stream = relayed(kind, b": first\n\nretry: 3\n\n", *events[:3], b": the-secret-key\n\nid: 7\n\n")
    assert b"first" not in out
    assert b"retry" not in out
    assert out.endswith(b": [REDACTED]\n\nid: 7\n\n")
    assert not kind(admitted(), REDACTOR).feed(b": only this\n\n")
    assert stream.status == "truncated"


@BOTH
@pytest.mark.parametrize("empty", [b"data:\n\n", b"data: \n\n", b"event: x\ndata:\n\n", b"data:\ndata:\n\n"])
def test_an_event_without_content_is_not_passed_on(kind: Kind, events: list[bytes], empty: bytes) -> None:
    out, stream = relayed(kind, empty, events[0], empty, *events[1:])
    assert stream.status == "ok"
    assert out == relayed(kind, *events)[0]


@BOTH
@pytest.mark.parametrize("data", [b"{", b"7", b"[]", b'"x"', b"null", b"<html>", b'{"type":"x"}}'])
def test_data_that_is_no_object_ends_the_stream_with_an_error(
    kind: Kind, events: list[bytes], data: bytes
) -> None:
    out, stream = relayed(kind, events[0], b"data: " + data + b"\n\n", *events[1:])
    assert (stream.status, out) == ("upstream_error", events[0].replace(b"up/real", b"m"))
    assert stream.failure is not None
    assert stream.failure.code == "invalid_upstream_event"
    assert error_of(stream)["message"]


@BOTH
@pytest.mark.parametrize(
    "raw",
    [
        b'data: {"type":"error","error":{"type":"x_error","message":"boom"}}\n\n',
        b'event: error\ndata: {"type":"error","error":{"type":"x_error","message":"boom"}}\n\n',
        b'event: error\ndata: {"message":"boom"}\n\n',
        b'event: error\ndata: {"error":"boom"}\n\n',
        b"event: error\ndata: boom\n\n",
        b"event: error\ndata: boom",
        b'data: {"type":"error","message":"boom","error":null}\n\n',
        b'data: {"error":{"message":"boom"}}\n\n',
        b'data: {"type":"ping","error":{"message":"boom"}}\n\n',
        b'event:error\r\ndata:{"type":"error","error":{"message":"boom"}}\r\n\r\n',
    ],
)
def test_an_error_however_it_is_told_ends_the_stream(kind: Kind, events: list[bytes], raw: bytes) -> None:
    for before in ([], events[:3]):
        out, stream = relayed(kind, *before, raw)
        assert stream.status == "upstream_error"
        assert stream.failure is not None
        assert stream.failure.message == "boom"
        assert error_of(stream)["message"] == "boom"
        assert b"boom" not in out


@BOTH
@pytest.mark.parametrize("error", ["null", "false", '""', "{}", "[]"])
def test_an_empty_error_field_is_no_error(kind: Kind, events: list[bytes], error: str) -> None:
    odd = f'data: {{"type":"odd","error":{error}}}\n\n'.encode()
    out, stream = relayed(kind, events[0], odd, *events[1:])
    assert stream.status == "ok"
    assert odd in out


@BOTH
@pytest.mark.parametrize(
    "odd",
    [
        b'event: x.y\ndata: {"type":"x.y","a":[1.10,null,12345678901234567890]}\n\n',
        b'data: {"type":7}\n\n',
        b'data: {"type":null}\n\n',
        b"data: {}\n\n",
        b'data: {"a":\ndata: 1}\n\n',
        b'data: {"delta":"\\ud83d"}\n\n',
        b'data: {"delta":"\\udc00","x":NaN}\n\n',
        b'data: {"delta":"caf\xe9"}\n\n',
        b"id: 7\r\nevent: z\r\ndata: {}\r\n\r\n",
        b'data: {"model":"up/real","choices":[]}\n\n',
    ],
)
def test_an_event_that_is_not_known_is_passed_on_as_it_came(
    kind: Kind, events: list[bytes], odd: bytes
) -> None:
    out, stream = relayed(kind, *events[:3], odd, *events[3:])
    assert stream.status == "ok"
    assert odd in out


@BOTH
def test_an_event_without_a_type_is_known_by_its_name(kind: Kind, events: list[bytes]) -> None:
    bare = [
        piece.replace(piece.split(b'"')[3].join([b'{"type": "', b'"']), b'{"type": null') for piece in events
    ]
    assert all(b'"type": null' in piece for piece in bare)
    out, stream = relayed(kind, *bare)
    assert stream.status == "ok"
    assert out + stream.last == b"".join(bare).replace(b"up/real", b"m")


@BOTH
def test_an_event_without_a_name_is_known_by_its_type(kind: Kind, events: list[bytes]) -> None:
    bare = [b"data: " + piece.partition(b"data: ")[2] for piece in events]
    out, stream = relayed(kind, *bare)
    assert stream.status == "ok"
    assert out + stream.last == b"".join(bare).replace(b"up/real", b"m")


@BOTH
def test_a_type_with_escapes_is_what_it_says(kind: Kind, events: list[bytes]) -> None:
    last = b"data: " + events[-1].partition(b"data: ")[2].replace(b"stop", b"st\\u006fp").replace(
        b"response.completed", b"response\\u002ecompleted"
    )
    assert b"\\u" in last
    assert relayed(kind, *events[:-1], last)[1].status == "ok"


@BOTH
def test_no_secret_passes_in_an_event_its_end_or_an_error(kind: Kind, events: list[bytes]) -> None:
    leaky = [piece.replace(b'{"type"', b'{"note": "the-secret-key", "type"') for piece in events]
    out, stream = relayed(kind, *leaky)
    assert stream.status == "ok"
    assert b"the-secret-key" not in out + stream.last
    assert b"[REDACTED]" in stream.last
    told = event(
        "error", error={"message": "key the-secret-key at https://gpu-7.internal:8000/v1?k=1 sk-abcdefghijk"}
    )
    for before in ([], events[:3]):
        _, stream = relayed(kind, *before, told)
        message = error_of(stream)["message"]
        assert not any(word in message for word in ("the-secret-key", "gpu-7.internal", "k=1", "sk-abc"))


@BOTH
def test_an_event_that_grows_without_end_is_an_error(kind: Kind, events: list[bytes]) -> None:
    piece = b"data: " + b"x" * (1024 * 1024)
    _, stream = relayed(kind, events[0], *[piece] * 18)
    assert stream.failure is not None
    assert (stream.status, stream.failure.code) == ("upstream_error", "invalid_upstream_stream")
    assert error_of(stream)["message"]


# --- words


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"null", None),
        (b'""', None),
        (b'"end_turn"', "end_turn"),
        (b'"\\u0061"', "a"),
        (b"7", "7"),
        (b'{"type":"stop"}', '{"type":"stop"}'),
        (b'"\\ud800"', "?"),
        (b'"' + b"x" * 500 + b'"', "x" * 100),
        (b"[" * 5000, "[" * 100),
    ],
)
def test_a_word_is_short_text_whatever_it_is(raw: bytes, word: str | None) -> None:
    assert word_of(raw) == word


# --- errors under HTTP 200

STATUSES = {"overloaded_error": 529, "server_error": 500}


@pytest.mark.parametrize(
    ("found", "status", "kind", "message"),
    [
        ({"error": {"type": "overloaded_error", "message": "busy"}}, 529, "overloaded_error", "busy"),
        ({"error": {"code": "server_error", "message": "m"}}, 500, "upstream_error", "m"),
        ({"type": "error", "code": "server_error", "message": "m"}, 500, "upstream_error", "m"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, 529, "overloaded_error", "m"),
        ({"error": {"code": 429, "type": "overloaded_error", "message": "m"}}, 429, "overloaded_error", "m"),
        ({"error": {"status": 418, "code": "server_error", "message": "m"}}, 418, "upstream_error", "m"),
        ({"error": {"status": "418", "code": "server_error", "message": "m"}}, 418, "upstream_error", "m"),
        ({"error": {"status": "FAILED", "code": "server_error", "message": "m"}}, 500, "upstream_error", "m"),
        ({"error": {"type": "invalid_request_error", "message": "m"}}, 400, "invalid_request_error", "m"),
        ({"error": {"code": ["x"], "type": {"a": 1}, "message": "m"}}, 502, "upstream_error", "m"),
        ({"error": {"code": "odd", "message": "m"}}, 502, "upstream_error", "m"),
        ({"error": "m"}, 502, "upstream_error", "m"),
        ({"message": "m", "type": "error"}, 502, "upstream_error", "m"),
        ("m", 502, "upstream_error", "m"),
        ({"odd": 1}, 502, "upstream_error", '{"odd": 1}'),
        (None, 502, "upstream_error", "null"),
    ],
)  # fmt: skip
def test_a_told_error_has_the_status_its_words_stand_for(
    found: object, status: int, kind: str, message: str
) -> None:
    failure = told_failure(found, REDACTOR, STATUSES)
    assert (failure.status, failure.type, failure.message) == (status, kind, message)


NO_JSON = "the provider answered 200 with something that is no JSON object"
NO_WORD = "the provider answered 200 with JSON that is no word"
A_BASE = "check that the base URL (--api-base) is an OpenAI-compatible API's, often with /v1 at its end"
A_PATH = "check that the endpoint serves this path for this model"


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        (b"", 502, "invalid_upstream_reply", f"the provider answered 200 with an empty body; {A_BASE}"),
        (b"<html><title>Bad</title></html>", 502, "invalid_upstream_reply", f"{NO_JSON}: Bad; {A_BASE}"),
        (b"[1]", 502, "invalid_upstream_reply", f"{NO_JSON}: [1]; {A_BASE}"),
        (b'{"odd":1}', 502, "invalid_upstream_reply", f'{NO_WORD}: {{"odd": 1}}; {A_PATH}'),
        (b'{"message":"m"}', 502, "invalid_upstream_reply", "m"),
        (b'{"message":"m","code":"own"}', 502, "own", "m"),
        (b'{"error":{"message":"m"}}', 502, None, "m"),
        (b'{"error":{"message":"m","type":"overloaded_error"}}', 529, None, "m"),
        (b'{"error":{"message":"caf\xe9"}}', 502, None, "caf\ufffd"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_answer_is_the_error_it_tells_of_or_an_invalid_reply(
    body: bytes, status: int, code: str | None, message: str
) -> None:
    failure = no_answer(body, REDACTOR, STATUSES, "word")
    assert (failure.status, failure.code, failure.message) == (status, code, message)
