"""Streams of typed events, whatever their bytes: the same however they are split, and no success without an ending."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakes import admitted
from osmosis_bridge.dialects.members import members, replaced
from osmosis_bridge.dialects.messages import MessagesStream
from osmosis_bridge.dialects.responses import ResponsesStream
from osmosis_bridge.dialects.typed import TypedStream
from osmosis_bridge.redact import Redactor
from osmosis_bridge.usage import MessagesUsage, read_responses_usage
from typed_events import (
    MESSAGE_STOP,
    MESSAGES,
    PING,
    RESPONSES,
    RESPONSES_USAGE,
    event,
    message_delta,
    message_start,
    response,
)

REDACTOR = Redactor(["the-secret-key"])
Kind = type[ResponsesStream] | type[MessagesStream]
BOTH = pytest.mark.parametrize("kind", [ResponsesStream, MessagesStream], ids=["responses", "messages"])
ENDS = {
    ResponsesStream: (b"event: response.completed", b"event: response.incomplete"),
    MessagesStream: (b"event: message_stop",),
}

EVENTS = st.one_of(
    st.sampled_from([*RESPONSES, *MESSAGES, PING, MESSAGE_STOP, message_start(), message_delta(), message_delta(None)]),
    st.sampled_from(
        [
            event("response.completed", response=response(usage=RESPONSES_USAGE)),
            event("response.failed", response=response("failed", error={"code": "x", "message": "the-secret-key"})),
            event("response.incomplete", response=response("incomplete")),
            event("error", error={"type": "overloaded_error", "message": "busy the-secret-key"}),
            b"data: [DONE]\n\n", b": comment\n\n", b"id: 7\r\n\r\n", b"data:\n\n", b"data: {\n\n", b"event: error\n\n",
            b'event: error\ndata: {"a\n\n', b'data: {"type":"the-secret-key"}\n\n', b"\n", b"\r", b"data: {}\n\n",
        ]
    ),
    st.builds(
        lambda kind, value: event(kind, response=value, message=value, delta=value, usage=value, error=None),
        st.sampled_from(["response.created", "message_start", "message_delta", "odd", "ping"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["model", "usage", "status", "stop_reason", "error"]), inner, max_size=3),
            max_leaves=6,
        ),
    ),
    st.binary(max_size=8).map(lambda raw: b"data: " + raw.replace(b"\n", b"").replace(b"\r", b"") + b"\n\n"),
)  # fmt: skip
STREAMS = st.builds(
    lambda bom, events, tail: bom + b"".join(events) + tail,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(EVENTS, max_size=10),
    st.sampled_from(
        [b"", b"data: x", b"data: {}", MESSAGE_STOP.rstrip(), RESPONSES[-1].rstrip(), b'data: {"ty']
    ),
)
CUTS = st.lists(st.integers(0, 2**16), max_size=30)


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(stream) + 1) for cut in cuts})
    return [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


def relayed(kind: Kind, pieces: list[bytes]) -> tuple[bytes, TypedStream]:
    stream = kind(admitted(), REDACTOR)
    out = b""
    for piece in pieces:
        assert not stream.ended
        out += stream.feed(piece)
        if stream.ended:
            return out, stream
    return out + stream.finish(), stream


@BOTH
@given(stream=STREAMS, cuts=CUTS)
@example(stream=b"".join(RESPONSES), cuts=list(range(0, 4000, 7)))
@example(stream=b"".join(MESSAGES), cuts=list(range(0, 4000, 3)))
@example(stream=b"id: 7\r\n\r\ndata: {}", cuts=[8])
def test_what_comes_out_does_not_depend_on_how_the_bytes_were_split(
    kind: Kind, stream: bytes, cuts: list[int]
) -> None:
    whole, at_once = relayed(kind, [stream])
    split, in_pieces = relayed(kind, pieces_of(stream, cuts))
    assert (split, in_pieces.last, in_pieces.status) == (whole, at_once.last, at_once.status)
    assert (in_pieces.started, in_pieces.complete) == (at_once.started, at_once.complete)
    assert in_pieces.reading.outcome("ok", 200) == at_once.reading.outcome("ok", 200)


@BOTH
@given(stream=STREAMS)
def test_no_stream_is_a_success_that_does_not_say_so_and_none_leaks(kind: Kind, stream: bytes) -> None:
    out, found = relayed(kind, [stream])
    assert found.ended
    assert b"the-secret-key" not in out + found.last
    assert (found.status == "ok") is (found.failure is None)
    if found.status == "ok":
        assert found.complete
        assert found.last.lstrip().startswith(ENDS[kind])
    else:
        assert b"error" in found.last
        *_, last = [part for part in found.last.split(b"\n\n") if part]
        assert json.loads(last.partition(b"data: ")[2])["error"]["message"]
    assert not any(word in out for word in ENDS[kind])


@BOTH
@given(data=st.data())
def test_a_stream_that_is_cut_at_any_byte_before_its_end_is_a_truncation(
    kind: Kind, data: st.DataObject
) -> None:
    whole = b"".join(RESPONSES if kind is ResponsesStream else MESSAGES)
    place = data.draw(st.integers(0, len(whole.rstrip()) - 1))
    _, found = relayed(kind, [whole[:place]])
    assert (found.status, found.complete) == ("truncated", False)


@BOTH
@given(stream=st.binary(max_size=200), cuts=CUTS)
def test_any_bytes_are_read_without_an_error(kind: Kind, stream: bytes, cuts: list[int]) -> None:
    _, found = relayed(kind, pieces_of(stream, cuts))
    assert found.status in ("truncated", "upstream_error")


# --- members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(
    st.sampled_from(["model", "response", "usage", "é", '"', "a\\b"]),
    VALUES | st.dictionaries(st.just("model"), VALUES),
)
FORMATS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r\n ")])


@given(OBJECTS, FORMATS, st.booleans())
def test_the_members_of_any_object_are_found_in_any_layout(
    value: dict[str, Any], separators: tuple[str, str], ascii_only: bool
) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
    data = text.encode("utf-8", "surrogatepass")
    found = members(data)
    assert found is not None
    assert [repr(json.loads(data[start:end])) for _, start, end in found] == [
        repr(each) for each in value.values()
    ]


@given(OBJECTS, FORMATS, st.sampled_from([("model",), ("response", "model")]), VALUES)
def test_a_replaced_value_is_the_only_change(
    value: dict[str, Any], separators: tuple[str, str], path: tuple[str, ...], put: Any
) -> None:
    data = json.dumps(value, separators=separators).encode()
    new = replaced(data, path, json.dumps(put).encode())
    expected = json.loads(data)
    holder = expected if len(path) == 1 else expected.get(path[0])
    if isinstance(holder, dict) and path[-1] in holder:
        holder[path[-1]] = put
    assert repr(json.loads(new)) == repr(expected)


@given(st.binary(max_size=60))
def test_any_bytes_have_members_or_none(data: bytes) -> None:
    found = members(data)
    assert (found is None) or data.strip()[:1] == b"{"
    assert replaced(data, ("a",), b"1") == data or found


# --- usage


@given(st.lists(VALUES, max_size=4))
def test_any_json_is_read_as_whole_counts_or_as_nothing(parts: list[Any]) -> None:
    usage = MessagesUsage()
    for part in parts:
        usage.take(json.dumps(part).encode())
        read_responses_usage(json.dumps(part).encode())
    found, cost = usage.read()
    assert cost is None or 0 <= cost < 1e9
    if found is not None:
        assert found.total == (found.prompt_tokens or 0) + (found.completion_tokens or 0)


COUNTS = st.integers(0, 2**40)


@given(COUNTS, COUNTS, COUNTS, st.lists(COUNTS, min_size=1, max_size=4))
def test_the_parts_of_a_message_count_as_the_whole(
    fresh: int, read: int, written: int, outputs: list[int]
) -> None:
    """Cumulative counts: the last of the rising completion stands, and the prompt is counted once."""
    outputs = sorted(outputs)
    start = {
        "input_tokens": fresh, "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
        "output_tokens": outputs[0],
    }  # fmt: skip
    parts, whole = MessagesUsage(), MessagesUsage()
    parts.take(json.dumps(start).encode())
    for count in outputs[1:]:
        parts.take(json.dumps({"output_tokens": count}).encode())
    whole.take(json.dumps({**start, "output_tokens": outputs[-1]}).encode())
    assert parts.read() == whole.read()
