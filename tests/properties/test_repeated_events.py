"""A stream whose events repeat each other goes out as if each had been read for itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakes import admitted
from osmosis_bridge.dialects.chat import ChatStream
from osmosis_bridge.redact import Redactor

TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "\n", '"', "\\", '","model":"x', "the-secret-key", "\u2028", "[DONE]", "data: x\n\n"]
    ),
    st.text(max_size=5),
)
CHUNKS = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries(
        {"index": st.sampled_from([0, 0, 0, 1]), "delta": st.fixed_dictionaries({}, optional={"content": TEXTS})},
        optional={"finish_reason": st.sampled_from([None, None, "stop", "error"])},
    ), min_size=1, max_size=2)},
    optional={
        "model": st.sampled_from(["up/real", "up/real", "other"]),
        "obfuscation": TEXTS,
        "usage": st.sampled_from([None, *({"prompt_tokens": 1, "completion_tokens": count} for count in (2, 3))]),
        "error": st.sampled_from([None, {"message": "no"}]),
    },
)  # fmt: skip
LINES = st.one_of(
    *[CHUNKS.map(lambda chunk: b"data: " + json.dumps(chunk).encode())] * 4,
    st.sampled_from([b"data: [DONE]", b": comment", b'data: {"choices":[{"delta":{"content":"\xff"}}]}']),
)
ENDS = st.sampled_from([b"\n\n"] * 6 + [b"\r\n\r\n", b"\r\r", b"\n\n\n"])
EVENTS = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=8)


class EachForItself(ChatStream):
    """The same stream without the short way."""

    __slots__ = ()

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._tries = 0


def read(stream: ChatStream, pieces: list[bytes]) -> tuple[Any, ...]:
    out = [stream.feed(piece) for piece in pieces if not stream.ended]
    if not stream.ended:
        out.append(stream.finish())
    said = None if stream.failure is None else stream.failure.body()
    return out, stream.last, stream.started, stream.status, said, stream.reading.outcome("ok", 200)


@given(
    events=EVENTS,
    times=st.integers(1, 3),
    joined=st.booleans(),
    alias=st.sampled_from(["m", "up/real", "long-alias"]),
)
@example([b'data: {"choices":[{"delta":{"content":"a"}}],"model":"up/real"}\n\n'] * 3, 2, True, "m")
@example(
    [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'] * 3
    + [b'data: {"choices":[{"delta":{}}],"model":"up/real"}\n\n'],
    3,
    False,
    "m",
)
def test_the_short_way_and_the_long_one_give_out_the_same(
    events: list[bytes], times: int, joined: bool, alias: str
) -> None:
    repeated = [event for event in events for _ in range(times)]
    pieces = [b"".join(repeated)] if joined else repeated
    redactor = Redactor(["the-secret-key"])
    short = read(ChatStream(admitted(alias), redactor), pieces)
    assert short == read(EachForItself(admitted(alias), redactor), pieces)


def counted(text: str, completion_tokens: int) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    usage = {"prompt_tokens": 1, "completion_tokens": completion_tokens}
    return b"data: " + json.dumps({"choices": [choice], "usage": usage}).encode() + b"\n\n"


def plain(text: str) -> bytes:
    return (
        b'data: {"choices":[{"index":0,"delta":{"content":"' + text.encode() + b'"}}],"model":"up/real"}\n\n'
    )


def hidden(end: bytes) -> bytes:
    return b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}' + end


@pytest.mark.parametrize(
    "pieces",
    [
        [counted("a", 3), hidden(b"\n\n"), counted("b", 3)],
        [plain("a"), plain("b"), hidden(b"\r\r"), plain("c"), b"\n" + plain("d")],
        [plain("a"), plain("b"), hidden(b"\r\r"), b"\n" + plain("c")],
        [plain("a"), plain("b")[:20], plain("b")[20:], plain("c") * 2],
    ],
    ids=["the last usage stands", "a line end goes with its own event", "half a line end", "in other pieces"],
)
def test_cases_that_chance_seldom_meets(pieces: list[bytes]) -> None:
    short = read(ChatStream(admitted(), Redactor()), pieces)
    assert short == read(EachForItself(admitted(), Redactor()), pieces)
