"""Scripts: the bytes that they say."""

from __future__ import annotations

from osmosis_bridge.conformance.reply import ReplyReader
from osmosis_bridge.conformance.script import (
    DONE,
    Drip,
    Hold,
    Pause,
    Script,
    Send,
    Until,
    chunked,
    data,
    echoing,
    head,
    plain,
    raw,
    stream,
)
from osmosis_bridge.conformance.upstream import Received


def written(script: Script) -> bytes:
    sends = [step.data for step in script.steps if isinstance(step, Send)]
    return b"".join(part for part in sends if isinstance(part, bytes))


def test_a_head_has_the_headers_given_and_no_other() -> None:
    assert head(200, ("A", "b"), reason="OK") == b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"


def test_a_plain_reply_announces_its_bytes() -> None:
    assert written(plain("é", 201, ("X", "y"))) == (
        b"HTTP/1.1 201 Scripted\r\nContent-Type: application/json\r\nContent-Length: 2\r\nX: y\r\n\r\n\xc3\xa9"
    )
    assert b"Content-Type" not in written(plain("x", content_type=""))


def test_a_chunk_says_its_size_in_hexadecimal() -> None:
    assert chunked(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"


def read(script: Script) -> ReplyReader:
    reader = ReplyReader()
    reader.feed(written(script))
    return reader


def test_a_whole_stream_is_complete_and_one_that_is_not_is_not() -> None:
    for framing in ("chunked", "length"):
        assert read(stream(data("1"), DONE, framing=framing)).complete
        assert not read(stream(data("1"), DONE, framing=framing, whole=False)).complete
    assert bytes(read(stream(data("1"), DONE)).body) == b"data: 1\n\ndata: [DONE]\n\n"


def test_how_a_stream_ends_follows_from_its_framing_unless_it_is_said() -> None:
    assert stream(DONE).end == "keep"
    assert stream(DONE, framing="close").end == "close"
    assert stream(DONE, whole=False).end == "close"
    assert stream(DONE, whole=False, end="reset").end == "reset"


def test_steps_stand_between_the_frames_they_were_put_between() -> None:
    script = stream(data("1"), Until(b"1"), Pause(0.1), data("2"), Hold())
    assert [type(step) for step in script.steps] == [Send, Send, Until, Pause, Send, Hold, Send]


def test_a_type_of_its_own_replaces_the_usual_one() -> None:
    assert written(stream(DONE, headers=(("Content-Type", "text/plain"),))).count(b"Content-Type") == 1


def test_raw_steps_are_kept_as_they_are() -> None:
    assert raw(b"a", Drip(b"bc")) == Script((Send(b"a"), Drip(b"bc")), "close")


def test_an_echo_is_written_from_what_was_received() -> None:
    received = Received(b"POST / HTTP/1.1\r\nAuthorization: Bearer k\r\n\r\n", b"", 1)
    (step,) = echoing(lambda seen: f'"{seen.secret()}"', 401).steps
    assert isinstance(step, Send)
    assert callable(step.data)
    assert step.data(received).endswith(b'Content-Length: 3\r\n\r\n"k"')
