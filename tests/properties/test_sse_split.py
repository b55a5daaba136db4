"""Events do not depend on how their bytes were split into pieces, and nothing is lost or added on the way."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from fakes import admitted
from osmosis_bridge.dialects.chat import ChatStream
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import EventSplitter

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINES = st.one_of(
    st.sampled_from([b"", b"", b"", b"data", b"data:", b": comment", b"event: error", b"id: 7", b":", b"junk"]),
    st.sampled_from(
        [
            b"data: [DONE]",
            b'data: {"choices":[{"index":0,"delta":{"content":"h"}}],"model":"up"}',
            b'data:{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"model":"m"}',
            b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}',
            b'data: {"error":{"message":"no"}}',
        ]
    ),
    st.binary(max_size=6).map(lambda raw: b"data: " + raw.replace(b"\n", b"").replace(b"\r", b"")),
)  # fmt: skip
STREAMS = st.builds(
    lambda bom, lines, tail: bom + b"".join(line + end for line, end in lines) + tail,
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"]),
    st.lists(st.tuples(LINES, ENDS), max_size=12),
    st.sampled_from([b"", b"data: x", b"data", b"\xef\xbb\xbf"]),
)


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(stream) + 1) for cut in cuts})
    return [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


def split(pieces: list[bytes]) -> tuple[list[tuple[bytes | None, bytes | None]], bytes]:
    """What the events say, and their joined bytes."""
    splitter = EventSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    last = splitter.finish()
    events += [last] if last is not None else []
    return [(event.data, event.name) for event in events], b"".join(event.raw for event in events)


def by_the_standard(stream: bytes) -> list[tuple[bytes | None, bytes | None]]:
    """A second reader, line by line and with no thought for speed; a block of blank lines only is nothing."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found: list[tuple[bytes | None, bytes | None]] = []
    block: list[bytes] = []
    for line in [*text.split(b"\n"), b""]:
        if line:
            block.append(line)
            continue
        if block:
            fields = [
                (name, value.removeprefix(b" "))
                for name, _, value in (line.partition(b":") for line in block)
            ]
            data = [value for name, value in fields if name == b"data"]
            names = [value for name, value in fields if name == b"event"]
            found.append((b"\n".join(data) if data else None, names[-1] if names else None))
        block = []
    return found


@given(STREAMS, st.lists(st.integers(0, 2**16), max_size=30))
@example(b"data: a\r\n\r\n\n\ndata: b\n\n", [11])
@example(b"data: a\r\n\r\n\n\ndata: b\n\n", [10, 11])
@example(b"\n\n\n\ndata: a\n\n", [3])
def test_events_do_not_depend_on_where_the_bytes_were_split(stream: bytes, cuts: list[int]) -> None:
    assert split(pieces_of(stream, cuts))[0] == split([stream])[0] == by_the_standard(stream)


@given(STREAMS)
def test_one_byte_reads_give_the_same_events(stream: bytes) -> None:
    assert split([stream[place : place + 1] for place in range(len(stream))])[0] == by_the_standard(stream)


@given(STREAMS, st.lists(st.integers(0, 2**16), max_size=30))
def test_joined_raw_bytes_are_the_bytes_that_came_in(stream: bytes, cuts: list[int]) -> None:
    whole = stream.removeprefix(b"\xef\xbb\xbf")
    joined = split(pieces_of(stream, cuts))[1]
    assert whole.startswith(joined)
    assert whole[len(joined) :].strip(b"\r\n") == b""


def relay(pieces: list[bytes], *, usage_asked: bool) -> tuple[list[bytes], object, object, object]:
    """What a client would read of a relayed stream, without the framing; and how the call ended."""
    stream = ChatStream(admitted(usage_asked=usage_asked), Redactor())
    out = b""
    for piece in pieces:
        out += stream.feed(piece)
        if stream.ended:
            break
    else:
        out += stream.finish()
    read = [data for data, _ in split([out + stream.last])[0] if data is not None]
    return read, stream.status, stream.failure and stream.failure.message, stream.reading.outcome("ok", 200)


@given(STREAMS, st.lists(st.integers(0, 2**16), max_size=30), st.booleans())
def test_what_a_client_reads_does_not_depend_on_the_split_either(
    stream: bytes, cuts: list[int], usage_asked: bool
) -> None:
    whole = relay([stream], usage_asked=usage_asked)
    assert relay(pieces_of(stream, cuts), usage_asked=usage_asked) == whole
    assert relay([stream[i : i + 1] for i in range(len(stream))], usage_asked=usage_asked) == whole


@given(STREAMS)
def test_no_stream_ends_like_a_success_without_a_finish_reason(stream: bytes) -> None:
    read, status, message, outcome = relay([stream], usage_asked=False)
    if b"[DONE]" in read:
        assert (status, message) == ("ok", None)
    if status == "ok":
        assert outcome.finish_reasons  # pyright: ignore[reportAttributeAccessIssue]
        assert b'"finish_reason":"stop"' in stream
    else:
        assert b"error" in read[-1]
        assert message
