"""S: how a stream ends: cuts, silence, errors in it, finishes that are none. Nothing of it may look like success."""

from __future__ import annotations

from dataclasses import replace

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange, needing
from osmosis_bridge.conformance.checks import (
    called,
    error_object,
    error_says,
    fault,
    header_is,
    says,
    status,
    status_between,
    stream_fails,
)
from osmosis_bridge.conformance.exact import Exact, show
from osmosis_bridge.conformance.samples import HELLO, ROLE, WHOLE, chunk, completion, finish, said, usage
from osmosis_bridge.conformance.script import (
    DONE,
    Drip,
    Hold,
    Pause,
    Script,
    Until,
    chunked,
    data,
    head,
    plain,
    raw,
    stream,
)
from osmosis_bridge.conformance.stage import Stage, record_value

ASK = Ask(stream=True)
HALF = (ROLE, said("hel"), said("lo"))
EVENTS = ("Content-Type", "text/event-stream")
CHUNKED = head(200, EVENTS, ("Transfer-Encoding", "chunked"))
BODY = b"".join(chunked(frame) for frame in HALF)


def kept_text(seen: Seen) -> Fault | None:
    """What came before the failure was passed on, unless the failure became a status."""
    if seen.reply.status >= 400 or "hel" in seen.reply.content():
        return None
    return fault("the chunks before the failure", seen)


def not_ok(seen: Seen) -> Fault | None:
    """The record does not call it a success."""
    if not seen.readable:
        return None
    state = record_value(seen, "status")
    if state in {"truncated", "upstream_error"}:
        return None
    return Fault("one record, truncated or upstream_error", f"{show(state)} of {len(seen.records)} records")


def broken(case_id: str, title: str, script: Script, *checks: Check, invented: bool = True) -> Case:
    """A stream that must be seen to fail."""
    return exchange(case_id, title, ASK, script, stream_fails(invented=invented), not_ok, called(1), *checks)


CUTS = (
    broken("S4-reset", "a reset in the middle is an error", stream(*HALF, Until(b'"lo"', 1.0), whole=False, end="reset"), kept_text),
    broken("S4-eof", "an end without [DONE] and finish is an error", stream(*HALF, framing="close"), kept_text),
    broken("S4-chunked", "a chunked body that stops is an error", stream(*HALF, whole=False), kept_text),
    broken("S4-clean-chunked", "a clean end without finish and [DONE] is an error", stream(*HALF), kept_text),
    broken("S4-short", "fewer bytes than announced are an error", stream(*HALF, framing="length", whole=False), kept_text),
    broken("S4-mid-chunk", "a cut inside an HTTP chunk is an error", raw(CHUNKED, BODY, b"ff\r\ndata: {"), kept_text),
    broken("S4-mid-event", "half an event is not passed on", raw(CHUNKED, BODY, chunked(said("never")[:60])), kept_text),
    broken("S4-bad-chunk-size", "a chunk size that is no number is an error", raw(CHUNKED, BODY, b"zz\r\nxx\r\n"), kept_text),
    broken("S4-after-role", "a cut after the role chunk is an error", stream(ROLE, whole=False)),
    broken("S4-head-only", "a cut after the head is an error", raw(CHUNKED), status_between(500, 599)),
    broken("S4-head-eof", "an empty stream is an error", stream(framing="close"), status_between(500, 599)),
    broken("S4-comments-only", "a stream of comments only is an error", stream(b": hi\n\n", b": hi\n\n")),
    broken("S4-reset-first", "a reset after the head is an error", raw(CHUNKED, Pause(0.05), end="reset"), status_between(500, 599)),
    broken("S4-no-head", "a reset before the head is an error", raw(Pause(0.01), end="reset"), status_between(500, 599)),
    broken("S4-half-head", "a cut inside the head is an error", raw(b"HTTP/1.1 200 OK\r\nContent-Ty"), status_between(500, 599)),
    broken("S-done-only", "[DONE] alone is no answer", stream(DONE)),
    broken("S-no-finish", "[DONE] without a finish is no answer", stream(*HALF, DONE), kept_text),
    broken("S-empty-finish", "finish_reason \"\" is no finish", stream(*HALF, finish('""'), DONE), kept_text),
    broken("S4-tool-cut", "a cut inside tool arguments is an error", stream(ROLE, chunk(r'{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\""}}]}'), whole=False)),
    broken("S4-usage-no-finish", "usage without a finish is no answer", stream(*HALF, usage(), DONE), kept_text),
    broken(
        "S4-finish-then-reset", "a reset after the finish gets no [DONE]", stream(*HELLO, Until(b'"stop"', 1.0), whole=False, end="reset"),
        invented=False,
    ),
    exchange(
        "S4-finish-then-eof", "a finish and a clean end without [DONE] keep text and finish", ASK, stream(*HELLO),
        lambda seen: None if seen.reply.content() == "hello" and seen.reply.finishes() == ["stop"] else fault("hello, stop", seen),
    ),
    needing(broken("S4-silent", "a stream that falls silent becomes an error", stream(*HALF, Hold(20), whole=False), kept_text), "idle_timeout"),
    needing(
        exchange("S4-silent-first", "a provider that never answers is a 504, or an error after signs of life", ASK, raw(Hold(20)), status(504, 200), stream_fails()), "idle_timeout"
    ),
    needing(
        exchange("S4-silent-plain", "a provider that never answers a plain call is a 504", Ask(), raw(Hold(20)), status(504), error_object),
        "idle_timeout",
    ),
)  # fmt: skip

FLAT = '{"object":"error","message":"EngineDead","type":"server_error","param":null,"code":500}'
NESTED = '{"error":{"message":"boom-7","type":"overloaded","param":"p","code":"c-9"}}'
SHAPES: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "S1-flat": ("a flat vLLM error", data(FLAT), ("EngineDead",)),
    "S7-nested": ("a nested error keeps message, type and code", data(NESTED), ("boom-7", "overloaded", "c-9")),
    "S1-string": ("an error that is a string", data('{"error":"boom-7"}'), ("boom-7",)),
    "S1-numeric": ("an error with a numeric code", data('{"error":{"code":429,"message":"boom-7"}}'), ("boom-7", "429")),
    "S1-anthropic": (
        "an error in Anthropic's shape",
        data('{"type":"error","error":{"type":"overloaded_error","message":"boom-7"}}'),
        ("boom-7", "overloaded_error"),
    ),
    "S1-with-choices": (
        "an error beside a choice that finishes with it",
        data('{"id":"x","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"boom-7"}}'),
        ("boom-7",),
    ),
    "S1-in-choice": (
        "an error inside a choice",
        data('{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":502,"message":"boom-7"}}]}'),
        (),
    ),
    "S10-finish-error": ("finish_reason error", finish('"error"'), ()),
    "S2-event": ("event: error", b'event: error\ndata: {"message":"boom-7"}\n\n', ("boom-7",)),
    "S2-event-no-space": ("event:error without a space", b'event:error\ndata:{"error":{"message":"boom-7"}}\n\n', ("boom-7",)),
    "S2-event-text": ("event: error with plain text", b"event: error\ndata: boom-7 happened\n\n", ()),
    "S2-event-after": ("data first, event: error after it", b'data: {"message":"boom-7"}\nevent: error\n\n', ("boom-7",)),
    "S2-event-empty": ("event: error without data", b"event: error\ndata:\n\n", ()),
    "S1-detail": ("a detail instead of a chunk", data('{"detail":"boom-7"}'), ()),
    "S1-message": ("a message and a code instead of a chunk", data('{"message":"boom-7","code":500}'), ()),
    "S1-list": ("a list instead of a chunk", data(f"[{NESTED}]"), ()),
    "S1-bare-json": ("an error as a bare line of JSON", NESTED.encode() + b"\n\n", ()),
    "S1-html": ("an HTML page inside the stream", b"<html><body>502 Bad Gateway</body></html>\n\n", ()),
    "S1-text": ("a line of plain text", b"upstream connect error or disconnect/reset before headers\n\n", ()),
    "S1-bad-json": ("a frame that is no JSON", b'data: {"choices":[{"index":0,"del\n\n', ()),
    "S1-null": ("a frame that is null", b"data: null\n\n", ()),
    "S1-number": ("a frame that is a number", b"data: 42\n\n", ()),
}  # fmt: skip
"""What comes in place of a chunk, and what the client's error must say."""


def in_band(case_id: str, place: str, ending: bytes) -> Case:
    """An error after two chunks, then `ending`."""
    title, frame, texts = SHAPES[case_id]
    ends = (ending,) if ending else ()
    saying = (error_says(*texts),) if texts else ()
    return broken(
        f"{case_id}{place}",
        f"{title}, in the middle, is relayed as an error",
        stream(*HALF, frame, *ends),
        kept_text,
        *saying,
    )


def first(case_id: str) -> Case:
    """An error as the first event: it has a status."""
    title, frame, texts = SHAPES[case_id]
    saying = (error_says(*texts),) if texts else ()
    return exchange(
        f"{case_id}-first", f"{title}, as the first event, becomes a status", ASK, stream(frame, DONE), status_between(400, 599),
        error_object, *saying, not_ok,
    )  # fmt: skip


def mapped(case_id: str, code: str, *wanted: int) -> Case:
    """A first event that is an error with this code."""
    allowed = wanted or (400, 401, 402, 403, 404, 408, 409, 422, 429, 500, 502, 503, 504, 529)
    return exchange(
        case_id, f"a first event with error code {code} becomes {wanted[0] if wanted else 'an error status'}", ASK,
        stream(data(f'{{"error":{{"code":{code},"message":"boom-7"}}}}')), status(*allowed), error_object, error_says("boom-7"),
    )  # fmt: skip


ERRORS = (
    *(in_band(case_id, "", DONE) for case_id in SHAPES),
    *(in_band(case_id, "-eof", b"") for case_id in ("S1-flat", "S7-nested", "S2-event", "S10-finish-error", "S1-bad-json")),
    *(first(case_id) for case_id in SHAPES if case_id not in {"S10-finish-error", "S1-null", "S1-number", "S2-event-empty"}),
    mapped("S6-429", "429", 429),
    mapped("S6-429-string", '"429"', 429),
    mapped("S6-401", "401", 401),
    mapped("S6-500", "500", 500),
    mapped("S6-503", "503", 503),
    mapped("S6-400", "400", 400),
    mapped("S6-word", '"rate_limit_exceeded"'),
    mapped("S6-null", "null"),
    mapped("S6-200", "200"),
    mapped("S6-absurd", "99999"),
    mapped("S6-negative", "-1"),
    exchange(
        "S6-bom-and-ids", "an error after a byte order mark and ids still becomes a status", ASK,
        stream(b"\xef\xbb\xbfid: 1\nretry: 5\n\n", b'id: 2\ndata: {"error":{"code":429,"message":"boom-7"}}\n\n'), status(429), error_says("boom-7"),
    ),
    exchange(
        "S6-unterminated", "a first error without its blank line still becomes a status", ASK,
        stream(b'data: {"error":{"code":429,"message":"boom-7"}}'), status_between(400, 599), error_object,
    ),
    exchange(
        "S6-one-byte", "a first error one byte a write", ASK,
        raw(head(200, EVENTS, ("Connection", "close")), Drip(data('{"error":{"code":429,"message":"boom-7"}}'))), status(429), error_says("boom-7"),
    ),
    exchange(
        "S6-pretty", "an error as a page of JSON under an event stream's type becomes a status", ASK,
        stream(b'{\n  "error": {\n    "message": "boom-7",\n    "code": 429\n  }\n}\n', framing="close"), status_between(400, 599), error_object,
    ),
    exchange(
        "S6-role-and-error", "an error right after the role chunk is an error event or a status", ASK,
        stream(ROLE, data('{"error":{"code":429,"message":"boom-7"}}')), stream_fails(), error_says("boom-7"),
    ),
    broken("S1-after-finish", "an error after the finish is an error", stream(*HELLO, data(NESTED), DONE), error_says("boom-7"), invented=False),
    broken("S1-batched", "an error in one write with what surrounds it", stream(b"".join((*HALF, data(NESTED), DONE))), error_says("boom-7")),
    broken("S1-one-byte", "an error one byte a write", raw(head(200, EVENTS, ("Connection", "close")), Drip(b"".join((ROLE, said("hel"), data(NESTED), DONE)))), error_says("boom-7")),
    broken("S1-crlf", "an error with CRLF and several data lines", stream(*HALF, b'event: error\r\ndata: {"error":\r\ndata: {"message":"boom-7"}}\r\n\r\n', DONE), error_says("boom-7")),
    broken("S1-escaped", "an error whose name is written in escapes", stream(*HALF, data(r'{"\u0065rror":{"message":"boom-7"}}'), DONE), error_says("boom-7")),
    broken("S1-spaced", "an error with blanks inside", stream(*HALF, data('{ "error" : { "message" : "boom-7" } }'), DONE), error_says("boom-7")),
    broken("S1-empty-error", "an empty error in place of a chunk", stream(*HALF, data('{"error":{}}'), DONE)),
    broken("S1-error-last-member", "an error after 100 kB of other members", stream(*HALF, data('{"id":"' + "x" * 100_000 + '","error":{"message":"boom-7"}}'), DONE), error_says("boom-7")),
    broken("S1-usage-then-error", "an error after usage", stream(*HALF, usage(), data(NESTED), DONE), error_says("boom-7")),
    exchange(
        "S6-after-comments", "an error after comments only still becomes a status", ASK,
        stream(b": OPENROUTER PROCESSING\n\n", data('{"error":{"code":429,"message":"boom-7"}}')), status(429), error_object,
    ),
    exchange(
        "S6-slow", "headers wait for the first event, so that a late first error has a status", ASK,
        stream(Pause(0.5), data('{"error":{"code":503,"message":"boom-7"}}')), status(503), error_object,
    ),
    exchange(
        "S6-flat-code", "a flat first error gives its code as the status", ASK,
        stream(data('{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}')), status(400), error_says("too long"),
    ),
    exchange(
        "S6-retry-after", "the headers of a first-event error are kept", ASK,
        stream(data('{"error":{"code":429,"message":"x"}}'), headers=(("retry-after", "7"),)), status(429), header_is("retry-after", "7"),
    ),
    broken("S8-no-retry", "after the first byte nothing is tried again", stream(*HALF, data(NESTED))),
    broken("S10-error-recorded", "finish_reason error is recorded as a failure", stream(*HALF, finish('"error"'), DONE)),
)  # fmt: skip


def finished_with(reason: str) -> Check:
    """The finish reason is passed on, never turned into another."""

    def check(seen: Seen) -> Fault | None:
        given = [show(value) for value in seen.reply.finishes()]
        return (
            None
            if given == [reason] and seen.reply.content() == "hello"
            else fault(f"hello, finish {reason}", seen)
        )

    return check


def passes(reason: str) -> tuple[Case, Case]:
    """One finish reason, streamed and plain."""
    word = reason.strip('"') or "empty"
    return (
        exchange(
            f"S10-stream-{word}", f"finish_reason {reason} of a stream is passed on", ASK, stream(*HALF_HELLO, finish(reason), DONE),
            finished_with(reason),
        ),
        exchange(
            f"S10-plain-{word}", f"finish_reason {reason} of a plain reply is passed on", Ask(), plain(completion(finish=reason)),
            finished_with(reason),
        ),
    )  # fmt: skip


HALF_HELLO = (ROLE, said("hello"))


def _never_stop(seen: Seen) -> Fault | None:
    invented: list[Exact] = [reason for reason in seen.reply.finishes() if reason == "stop"]
    return fault("no invented stop", seen) if invented else None


FINISHES = (
    *(case for word in ("length", "content_filter", "tool_calls", "eos", "abort", "weird", "max_tokens") for case in passes(f'"{word}"')),
    exchange("S10-plain-null", "finish_reason null of a plain reply is not turned into stop", Ask(), plain(completion(finish="null")), _never_stop),
    exchange("S10-plain-empty", 'finish_reason "" of a plain reply is not turned into stop', Ask(), plain(completion(finish='""')), _never_stop),
    exchange("S10-plain-error", "finish_reason error of a plain reply is not turned into stop", Ask(), plain(completion(finish='"error"')), _never_stop, not_ok),
    exchange("S-ran-out", "a stream that ran out of tokens says so", ASK, stream(*HALF_HELLO, finish('"length"'), usage(), DONE), says("hello", "length")),
)  # fmt: skip


def _usable(seen: Seen) -> Fault | None:
    """The answer is there, in a form that says what it is; or an error."""
    reply = seen.reply
    if reply.status >= 400:
        return error_object(seen)
    if reply.content() != "hello":
        return fault("the answer, or an error", seen)
    return None


def told(case_id: str, title: str, script: Script) -> Case:
    """An odd stream: a complete answer, or an error; never half of either."""

    def check(seen: Seen) -> Fault | None:
        if seen.reply.status == 200 and seen.reply.done and not seen.reply.errors():
            return None if seen.reply.content().startswith("hello") else fault("hello, or an error", seen)
        return stream_fails(invented=False)(seen)

    return exchange(case_id, title, ASK, script, check)


ODD = (
    told("S16-null-choice", "a choice that is null", stream(data('{"id":"x","choices":[null]}'), *WHOLE)),
    told("S16-choices-object", "choices that are an object", stream(data('{"id":"x","choices":{"a":1}}'), *WHOLE)),
    told("S16-no-delta", "a choice without a delta", stream(data('{"id":"x","choices":[{"index":0}]}'), *WHOLE)),
    told("S16-null-delta", "a delta that is null", stream(data('{"id":"x","choices":[{"index":0,"delta":null,"finish_reason":null}]}'), *WHOLE)),
    told("S16-index-text", "an index that is a text", stream(data('{"id":"x","choices":[{"index":"0","delta":{},"finish_reason":null}]}'), *WHOLE)),
    told("S16-finish-number", "a finish_reason that is a number", stream(*HALF_HELLO, finish("7"), DONE)),
    told("S16-empty-chunk", "a chunk that is an empty object", stream(data("{}"), *WHOLE)),
    told("S-finish-twice", "a finish that comes twice", stream(*HALF_HELLO, finish(), finish(), usage(), DONE)),
    told("S-content-after-finish", "content after the finish", stream(*HALF_HELLO, finish(), said("!"), usage(), DONE)),
    told("S-duplicate-members", "a chunk with a member twice", stream(data('{"id":"x","choices":[],"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}'), *WHOLE)),
    told("S-deep-chunk", "a chunk nested 5,000 deep", stream(chunk('{"x":' + "[" * 5000 + "]" * 5000 + "}"), *WHOLE)),
    told("S-surrogate-chunk", "a lone surrogate in a chunk", stream(*HALF_HELLO, said(r"\ud83d"), finish(), DONE)),
    told("S-bad-utf8", "bytes that are no UTF-8 in a chunk", stream(*HALF_HELLO, data(b'{"id":"x","choices":[{"index":0,"delta":{"content":"\xff"},"finish_reason":null}]}'), finish(), DONE)),
    told("S-nul-bytes", "NUL bytes between events", stream(*HALF_HELLO, b"\x00\x00\n\n", finish(), DONE)),
)  # fmt: skip

MISMATCHES = (
    exchange("S-json-as-stream", "a plain completion under an event stream's type is an answer or an error", ASK, plain(completion(), content_type="text/event-stream"), _usable),
    exchange("S-json-to-stream", "a plain reply to a stream request reaches the client as what it is", ASK, plain(completion()), _usable),
    exchange("S-stream-to-plain", "a stream in reply to a plain request is not mislabelled", Ask(), replace(stream(*WHOLE), stubborn=True), _usable),
    exchange("S-json-error-to-stream", "a JSON error with status 200 to a stream request is an error", ASK, plain(NESTED), status_between(400, 599), error_object, error_says("boom-7")),
    exchange("S-html-to-stream", "an HTML page with status 200 to a stream request is an error", ASK, plain("<html>hi</html>", content_type="text/html"), status_between(500, 599), error_object),
    exchange("S-html-as-stream", "HTML served as an event stream is an error", ASK, stream(b"<html><body>login</body></html>\n"), status_between(500, 599), error_object),
    exchange("S-empty-to-stream", "an empty 200 to a stream request is an error", ASK, plain(""), status_between(500, 599), error_object),
    exchange("S-204-to-stream", "a 204 to a stream request is an error", ASK, raw(head(204), end="keep"), status_between(500, 599), error_object),
)  # fmt: skip


async def _parallel_streams(stage: Stage) -> Fault | None:
    """A failing stream does not touch the one beside it on the same pool."""
    bad = stage.play(stream(*HALF, Until(b'"lo"', 1.0), whole=False, end="reset"), "bad")
    good = stage.play(stream(*WHOLE), "good")
    for _ in range(5):
        await stage.ask(ASK, bad)
        seen = await stage.exchange(ASK, good)
        if found := says("hello")(seen):
            return found
    return None


CASES: tuple[Case, ...] = (
    *CUTS, *ERRORS, *FINISHES, *ODD, *MISMATCHES,
    Case("S4-next-call", "a cut stream does not harm the next call", _parallel_streams),
)  # fmt: skip
