"""Events that repeat an earlier one but for their text, and those that only look like it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes import admitted, delta
from osmosis_bridge.dialects.chat import ChatStream
from osmosis_bridge.dialects.repeated import Repeated
from osmosis_bridge.redact import Redactor


def event(text: str, *, model: str = '"up"', more: str = "", end: str = "\n\n") -> bytes:
    return f'data: {{"id":"c","model":{model},"choices":[{{"delta":{{"content":"{text}"}}}}]{more}}}{end}'.encode()


FIRST = Repeated.of(event("a"), event("a", model='"alias"'))


@pytest.mark.parametrize(
    "text", ["", "b", "two words", "ä \U0001f600", r"\n\"quoted\" \\ \/ \t", "{}[],:'", "##12"]
)
def test_an_event_with_another_text_goes_out_like_the_first(text: str) -> None:
    assert FIRST is not None
    assert FIRST.again(event(text)) == event(text, model='"alias"')


@pytest.mark.parametrize(
    "other",
    [
        event("a", model='"another"'),
        event("a", more=',"usage":{}'),
        event('","x":"'),
        event('"}}],"error":{},"y":[{"z":{"b":"'),
        event("\\"),
        event("\\x"),
        event(r"\u0061"),
        event(r"\ud800"),
        event("\x00"),
        event("a\n\ndata: b"),
        event("a\rb"),
        event("a") * 2,
        event("a")[:-1],
        event("a") + b"\n",
        event("a", end="\r\n\r\n"),
        b" " + event("a"),
        event("")[:20] + event("")[-20:],
        b"",
    ],
)
def test_what_is_not_certain_to_be_a_repetition_is_none(other: bytes) -> None:
    assert FIRST is not None
    assert FIRST.again(other) is None


def test_text_at_several_places_may_change() -> None:
    first = Repeated.of(
        event("a", more=',"obfuscation":"xy"'),
        event("a", more=',"obfuscation":"xy"', model='"a longer alias"'),
    )
    assert first is not None
    again = first.again(event("bc", more=',"obfuscation":""'))
    assert again == event("bc", more=',"obfuscation":""', model='"a longer alias"')
    assert first.again(event("bc", more=',"obfuscation":null')) is None
    assert first.again(event("bc", more=',"obfuscatiox":"xy"')) is None


@pytest.mark.parametrize("alias", ['"u"', '"up"', '"xy"', '"a longer one"'])
def test_the_change_may_stand_behind_the_text_and_be_of_any_length(alias: str) -> None:
    def late(text: str, model: str) -> bytes:
        return f'data: {{"choices":[{{"text": "{text}"}}],"model":{model}}}\n\n'.encode()

    first = Repeated.of(late("a", '"up"'), late("a", alias))
    assert first is not None
    assert first.again(late("bcd", '"up"')) == late("bcd", alias)


@pytest.mark.parametrize(
    "came",
    [
        b'data: {"choices":[{"delta":{}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":null}}]}\n\n',
        event(r"\u00e4"),
        event("a", end="\r\n\r\n"),
        event("a", end="\n"),
        b"id: 1\n" + event("a"),
    ],
)
def test_of_an_event_without_a_plain_text_in_one_line_nothing_is_told(came: bytes) -> None:
    assert Repeated.of(came, came) is None


def test_an_event_that_went_out_otherwise_tells_nothing() -> None:
    assert Repeated.of(event("a"), event("b")) is None
    assert Repeated.of(event("a"), b"") is None
    assert Repeated.of(event("a"), event("a", model='"x"', more=',"y":1')) is None


def stream(**fields: Any) -> ChatStream:
    return ChatStream(admitted(**fields), Redactor(["the-secret-key"]))


def sent(*chunks: dict[str, Any]) -> list[bytes]:
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]


def test_a_secret_in_a_repeated_event_is_replaced_too() -> None:
    one = stream()
    pieces = sent(delta("a"), delta("the-secret-key"), delta("b"))
    assert b"".join(map(one.feed, pieces)).count(b"[REDACTED]") == 1


def test_what_ends_an_answer_is_read_though_it_looks_like_a_repetition() -> None:
    one = stream()
    for piece in sent(delta("a"), delta("b"), delta("c", finish="stop"), delta("d")):
        assert one.feed(piece)
    one.feed(b"data: [DONE]\n\n")
    assert (one.ended, one.failure, one.reading.outcome("ok", 200).finish_reasons) == (True, None, ("stop",))


def test_events_that_never_repeat_are_passed_on_all_the_same() -> None:
    one = stream()
    for number in range(30):
        (piece,) = sent(delta("a", created=number))
        assert one.feed(piece) == piece.replace(b"up/real", b"m")
    assert one._repeated is None
