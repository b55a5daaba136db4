"""S: the framing of event streams: every legal spelling gives the same answer, as it arrives."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange
from osmosis_bridge.conformance.checks import called, fault, relayed, says
from osmosis_bridge.conformance.samples import HELLO, ROLE, WHOLE, chunk, chunk_json, finish, said, usage
from osmosis_bridge.conformance.script import (
    DONE,
    Drip,
    Hold,
    Pause,
    Script,
    Send,
    Step,
    Until,
    chunked,
    data,
    head,
    raw,
    stream,
)

ASK = Ask(stream=True)
EVENTS = ("Content-Type", "text/event-stream")


def _joined(*frames: bytes) -> bytes:
    return b"".join(frames)


def good(case_id: str, title: str, script: Script, *checks: Check, text: str = "hello") -> Case:
    """A stream that must arrive as a complete answer."""
    return exchange(case_id, title, ASK, script, says(text), *checks)


def on_time(seen: Seen) -> Fault | None:
    """Each chunk had reached the client before the next one was sent."""
    late = [call.late for call in seen.calls if call.late is not None]
    return (
        Fault("a chunk reaches the client before the next is sent", f"{late[0]!r} was held back")
        if late
        else None
    )


def _spaced(frames: list[tuple[bytes, bytes]]) -> list[bytes | Step]:
    """Each frame, then a wait until the client has its marker."""
    steps: list[bytes | Step] = []
    for frame, marker in frames:
        steps += [frame, Until(marker)]
    return steps


_SIX = [(said(f"w{n} "), b'"w%d "' % n) for n in range(6)]
_TOOL = [
    (chunk('{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}'), b"call_1"),
    (chunk(r'{"tool_calls":[{"index":0,"function":{"arguments":"{\"part1\""}}]}'), b"part1"),
    (chunk('{"tool_calls":[{"index":0,"function":{"arguments":":2}"}}]}'), b":2}"),
]  # fmt: skip
_THINK = [(chunk(f'{{"reasoning_content":"r{n}"}}'), b'"r%d"' % n) for n in range(3)]
_END = (finish(), usage(), DONE)

SPACING = (
    good("S14-spaced", "each delta reaches the client before the next is sent", stream(*_spaced(_SIX), *_END), on_time, text="w0 w1 w2 w3 w4 w5 "),
    good(
        "S14-first", "the first chunk reaches the client before the second is sent", stream(ROLE, Until(b'"assistant"'), *HELLO[1:], usage(), DONE), on_time
    ),
    exchange(
        "S14-tools", "tool deltas are passed on as they come", ASK, stream(*_spaced(_TOOL), finish('"tool_calls"'), DONE), on_time,
        says("", "tool_calls"),
    ),
    good("S14-reasoning", "reasoning deltas are passed on as they come", stream(*_spaced(_THINK), said("hello"), *_END), on_time),
    good(
        "S14-split", "an event sent in two writes is passed on once whole, and before the next",
        raw(
            head(200, EVENTS, ("Transfer-Encoding", "chunked")), chunked(said("hel")[:30]), Pause(0.02), chunked(said("hel")[30:]),
            Until(b'"hel"'), chunked(_joined(said("lo"), *_END)), b"0\r\n\r\n", end="keep",
        ),
        on_time,
    ),
    good(
        "S14-silence", "a pause in the middle is only a pause", stream(said("hel"), Until(b'"hel"'), Pause(1.0), said("lo"), *_END), on_time
    ),
)  # fmt: skip


def _closing(body: bytes) -> Script:
    return raw(head(200, EVENTS, ("Connection", "close")), body)


def _crlf(newline: bytes) -> bytes:
    return _joined(*WHOLE).replace(b"\n", newline)


_EMOJI = _joined(ROLE, said("hé"), said("llo 😀 日本"), finish(), usage(), DONE)
_LINES = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",\ndata: "choices":[{"index":0,\n'
_MULTI = _LINES + b'data:  "delta":{"content":"hello"},"finish_reason":null}]}\n\n'
_SPACED_JSON = b'data: { "choices" : [ { "index" : 0 , "delta" : { "content" : "hello" } , "finish_reason" : null } ] }\n\n'
_SEPARATORS = "a\u2028b\u2029c\u0085d"

SPELLINGS = (
    good("S-crlf", "CRLF ends a line", _closing(_crlf(b"\r\n"))),
    good("S-cr", "CR alone ends a line", _closing(_crlf(b"\r"))),
    good("S-mixed", "line ends may be mixed", _closing(_joined(ROLE, said("hel").replace(b"\n", b"\r\n"), said("lo"), *_END))),
    good(
        "S-crlf-split", "CR and LF in different writes are one line end",
        raw(head(200, EVENTS, ("Connection", "close")), *[Send(b) for part in _crlf(b"\r\n").split(b"\r") for b in (part, b"\r")][:-1]),
    ),
    good("S-multi-line", "data over several lines is one event", stream(ROLE, _MULTI, *_END)),
    good("S-no-space", "no space after the colon", stream(*[frame.replace(b"data: ", b"data:") for frame in WHOLE])),
    good("S-spaced-json", "blanks inside the JSON", stream(ROLE, _SPACED_JSON, *_END)),
    good("S-ids", "id and retry lines are no data", stream(b"id: 1\nretry: 500\n" + ROLE, b"id: 2\n" + said("hello"), b"id\n" + _END[0], *_END[1:])),
    good("S-event-message", "event: message is an ordinary event", stream(b"event: message\n" + ROLE, b"event: chunk\n" + said("hello"), *_END)),
    good("S-bom", "a byte order mark at the start is skipped", stream(b"\xef\xbb\xbf" + ROLE, said("hello"), *_END)),
    good("S-blank-lines", "blank lines more than needed", stream(b"\n\n", ROLE, b"\n\n\n", said("hello"), *_END)),
    good("S-unknown-lines", "lines of unknown names are ignored", stream(b"foo: bar\nbaz\n" + ROLE, said("hello"), *_END)),
    good("S-empty-data", "an event of empty data is nothing", stream(b"data:\n\n", ROLE, b"data: \n\n", said("hello"), *_END)),
    good("S-done-spaces", "[DONE] with blanks around it", stream(*HELLO, usage(), b"data:  [DONE] \n\n")),
    good("S-done-unterminated", "[DONE] without its blank line, then the end", stream(*HELLO, usage(), b"data: [DONE]")),
    good("S-done-one-newline", "[DONE] with one line end, then the end", stream(*HELLO, usage(), b"data: [DONE]\n")),
    good("S-one-write", "all events in one write", stream(_joined(*WHOLE))),
    good("S-length", "a stream with a content-length", stream(*WHOLE, framing="length")),
    good("S-until-close", "a stream that ends by closing", stream(*WHOLE, framing="close")),
    good("S-one-byte", "one byte a write", raw(head(200, EVENTS, ("Connection", "close")), Drip(_joined(*WHOLE)))),
    good("S-one-byte-head", "the head one byte a write", raw(Drip(head(200, EVENTS, ("Connection", "close"))), _joined(*WHOLE))),
    good("S-code-points", "code points split between writes", raw(head(200, EVENTS, ("Connection", "close")), Drip(_EMOJI)), text="héllo 😀 日本"),
    good("S-chunk-per-byte", "one byte a chunk", raw(head(200, EVENTS, ("Transfer-Encoding", "chunked")), b"".join(chunked(bytes([b])) for b in _EMOJI), b"0\r\n\r\n", end="keep"), text="héllo 😀 日本"),
    good("S-separators", "U+2028, U+2029 and U+0085 inside a string end no line", stream(ROLE, said(_SEPARATORS), *_END), text=_SEPARATORS),
    good("S-done-in-text", "a text that says [DONE] does not end the stream", stream(ROLE, said(r"data: [DONE]\n\n"), said("x"), *_END), text="data: [DONE]\n\nx"),
    good("S-only-done-text", "a content of exactly [DONE] is content", stream(ROLE, said("[DONE]"), *_END), text="[DONE]"),
    good("S-error-in-text", "a content that quotes an error is content", stream(ROLE, said(r'{\"error\":{\"message\":\"x\"}}'), *_END), text='{"error":{"message":"x"}}'),
    good("S-error-null", "error null in a chunk is no error", stream(ROLE, chunk('{"content":"hello"}', more=',"error":null'), *_END)),
    good("S-long-event", "an event of 1 MB", stream(ROLE, said("x" * 1_000_000), *_END), text="x" * 1_000_000),
    good("S-many", "3,000 chunks", stream(ROLE, _joined(*(said("ab") for _ in range(3000))), *_END), text="ab" * 3000),
    good("S19-identical", "120 identical chunks are legal output", stream(ROLE, *(said("la ") for _ in range(120)), *_END), text="la " * 120),
    good("S-type-plain", "an event stream served as text/plain", stream(*WHOLE, headers=(("Content-Type", "text/plain"),))),
    good("S-type-upper", "Text/Event-Stream in another case", stream(*WHOLE, headers=(("Content-Type", "Text/Event-Stream;charset=UTF-8"),))),
)  # fmt: skip

COMMENTS = (
    good("S11-comments", "comments before and among data", stream(b": OPENROUTER PROCESSING\n\n", b": OPENROUTER PROCESSING\n\n", ROLE, b":\n\n", said("hel"), b": x\n", said("lo"), *_END)),
    good("S11-tricky-comment", "a comment that looks like data", stream(b": data: [DONE]\n\n", b':{"error":{"message":"x"}}\n\n', *WHOLE)),
    good("S11-between-lines", "a comment between the lines of an event", stream(ROLE, b": ping\n" + said("hello"), *_END)),
    good("S11-after-done", "a comment after [DONE]", stream(*WHOLE, b": bye\n\n")),
    good("S11-slow", "comments while the model thinks", stream(b": wait\n\n", Pause(0.3), b": wait\n\n", Pause(0.3), *WHOLE)),
)  # fmt: skip


def _ends_promptly(seen: Seen) -> Fault | None:
    """The reply ends with `[DONE]`, not with the upstream's connection."""
    return fault("the reply ends at [DONE]", seen) if seen.reply.seconds > 3.5 else None


def _nothing_after_done(seen: Seen) -> Fault | None:
    """`[DONE]` is the last event."""
    events = [event.data.strip() for event in seen.reply.events()]
    return (
        None
        if events[-1:] == ["[DONE]"] and events.count("[DONE]") == 1
        else fault("[DONE] once, at the end", seen)
    )


AFTER = (
    good("S-done-then-silence", "after [DONE] the client does not wait for the upstream to close", stream(*WHOLE, Hold(4), whole=False, end="close"), _ends_promptly),
    good("S-done-then-reset", "a reset after [DONE] is no failure", stream(*WHOLE, Pause(0.1), whole=False, end="reset")),
    good("S-done-twice", "a second [DONE] and late chunks are not passed on", stream(*WHOLE, said("late"), DONE), _nothing_after_done),
    good("S-event-order", "chunks keep their order", stream(ROLE, *(said(f"{n},") for n in range(50)), *_END), called(1), text="".join(f"{n}," for n in range(50))),
    exchange(
        "S-bytes", "every member of every chunk survives, unknown ones too", ASK,
        stream(
            chunk('{"role":"assistant","content":"","x_vendor":{"a":[1.10,null]}}', more=',"x_top":{"z":1,"a":2},"provider":"P"'),
            chunk('{"content":"hello"}', more=',"obfuscation":"abc","service_tier":"default","system_fingerprint":null'),
            data('{"id":"2","object":"chat.completion.chunk","created":1.5,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"eos","matched_stop":2}],"x":1e400}'),
            DONE,
        ),
        relayed([
            chunk_json('{"role":"assistant","content":"","x_vendor":{"a":[1.10,null]}}', more=',"x_top":{"z":1,"a":2},"provider":"P"'),
            chunk_json('{"content":"hello"}', more=',"obfuscation":"abc","service_tier":"default","system_fingerprint":null'),
            '{"id":"2","object":"chat.completion.chunk","created":1.5,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"eos","matched_stop":2}],"x":1e400}',
        ]),
        says("hello"),
    ),
    exchange(
        "S16-nulls", "role null, content null and finish_reason \"\" are passed on as they are", ASK,
        stream(chunk('{"role":null,"content":null}'), chunk('{"content":"hello"}', finish='""'), chunk('{"content":""}', finish='"stop"'), DONE),
        relayed([chunk_json('{"role":null,"content":null}'), chunk_json('{"content":"hello"}', finish='""'), chunk_json('{"content":""}', finish='"stop"')]),
    ),
)  # fmt: skip

CASES: tuple[Case, ...] = (*SPACING, *SPELLINGS, *COMMENTS, *AFTER)
