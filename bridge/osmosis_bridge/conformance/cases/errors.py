"""E: a provider's failure stays what it is: its status, its hint when to come back, its words, in one shape."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, alone, exchange
from osmosis_bridge.conformance.checks import (
    brief,
    called,
    error_object,
    error_says,
    fault,
    full_error,
    header_absent,
    header_is,
    ours,
    recorded,
    reply_lacks,
    says,
    status,
    status_between,
)
from osmosis_bridge.conformance.exact import Number, at, show
from osmosis_bridge.conformance.samples import MODEL, USAGE, WHOLE, completion
from osmosis_bridge.conformance.script import Hold, Pause, Script, chunked, head, plain, raw, stream
from osmosis_bridge.conformance.stage import Stage

SAID = '{"error":{"message":"boom-7","type":"t-8","param":"p-9","code":"c-10"}}'
CLIENT = (400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 415, 418, 422, 424, 425, 426, 429, 431, 451, 499)
SERVER = (500, 501, 502, 503, 504, 507, 520, 522, 524, 529, 530)
FROM_UPSTREAM = ours(header_is("x-osmosis-error-origin", "upstream"))


def relayed_status(code: int, *, streaming: bool) -> Case:
    """A status that must be kept, once, with its words."""
    way = "stream" if streaming else "plain"
    return exchange(
        f"E3-{code}-{way}", f"a {code} stays a {code} ({way} request)", Ask(stream=streaming), plain(SAID, code), status(code),
        error_object, error_says("boom-7"), FROM_UPSTREAM, ours(called(1)), ours(recorded("upstream_error", http_status=Number(str(code)))),
    )  # fmt: skip


STATUSES = (
    *(relayed_status(code, streaming=False) for code in (*CLIENT, *SERVER)),
    *(relayed_status(code, streaming=True) for code in (400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 529)),
    *(
        exchange(f"C3-{code}-once", f"a {code} is not tried again", Ask(), plain(SAID, code), status(code), called(1))
        for code in (400, 401, 403, 404, 413, 422)
    ),
)  # fmt: skip

HINTS = {
    "retry-after": "17",
    "retry-after-ms": "17000",
    "x-should-retry": "true",
    "x-request-id": "req_abc-1",
    "request-id": "req_abc-2",
    "x-ratelimit-limit-requests": "100",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "6m0s",
    "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:00Z",
    "openai-processing-ms": "12",
}


def keeps(name: str, value: str, code: int) -> Case:
    """A header that helps the client must come through."""
    body = SAID if code != 200 else completion()
    return exchange(
        f"E-{name}-{code}", f"{name} of a {code} reaches the client", Ask(), plain(body, code, (name, value)), status(code), header_is(name, value)
    )  # fmt: skip


HEADERS = (
    *(keeps(name, value, 429) for name, value in HINTS.items()),
    keeps("x-request-id", "req_abc-1", 200),
    keeps("x-ratelimit-remaining-requests", "99", 200),
    keeps("openai-processing-ms", "5", 200),
    keeps("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", 503),
    exchange(
        "E-request-id-stream", "the request id of a stream reaches the client", Ask(stream=True),
        stream(*WHOLE, headers=(("x-request-id", "req_s"),)), says("hello"), header_is("x-request-id", "req_s"),
        ours(recorded("ok", upstream_request_id="req_s")),
    ),
    exchange(
        "E-private-headers", "cookies and the upstream's own headers are not passed on", Ask(),
        plain(completion(), 200, ("Set-Cookie", "a=b"), ("Server", "scripted"), ("Alt-Svc", "h3"), ("Strict-Transport-Security", "x"), ("openai-organization", "org-1")),
        status(200), header_absent("set-cookie", "alt-svc", "strict-transport-security", "openai-organization"), reply_lacks("scripted"),
    ),
    exchange(
        "E-private-headers-error", "nor with an error", Ask(), plain(SAID, 500, ("Set-Cookie", "a=b"), ("Server", "scripted"), ("WWW-Authenticate", "Basic")),
        status_between(500, 599), ours(status(500)), header_absent("set-cookie", "www-authenticate"), reply_lacks("scripted"),
    ),
    exchange(
        "E-named-hop", "headers that Connection names stay on their hop", Ask(),
        plain(completion(), 200, ("Connection", "x-hop, keep-alive"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"), ("Proxy-Authenticate", "x")),
        status(200), header_absent("x-hop", "proxy-authenticate"),
    ),
)  # fmt: skip

SHAPES: dict[str, tuple[str, str | bytes, str, tuple[str, ...]]] = {
    "E8-string": ("an error that is a string", '{"error":"boom-7"}', "application/json", ("boom-7",)),
    "E8-message": ("a message at the top", '{"message":"boom-7"}', "application/json", ("boom-7",)),
    "E8-flat": ("vLLM's flat error", '{"object":"error","message":"boom-7","type":"BadRequestError","param":null,"code":400}', "application/json", ("boom-7", "BadRequestError")),
    "E8-detail": ("FastAPI's detail", '{"detail":"boom-7"}', "application/json", ("boom-7",)),
    "E8-detail-list": ("FastAPI's list of details", '{"detail":[{"loc":["body","x"],"msg":"boom-7","type":"missing"}]}', "application/json", ("boom-7",)),
    "E8-anthropic": ("Anthropic's shape", '{"type":"error","error":{"type":"overloaded_error","message":"boom-7"},"request_id":"r"}', "application/json", ("boom-7", "overloaded_error")),
    "E8-google": ("Google's shape", '{"error":{"code":400,"message":"boom-7","status":"INVALID_ARGUMENT","details":[]}}', "application/json", ("boom-7",)),
    "E8-google-list": ("Google's list", '[{"error":{"code":400,"message":"boom-7","status":"INVALID_ARGUMENT"}}]', "application/json", ("boom-7",)),
    "E8-numeric": ("OpenRouter's numeric code with metadata", '{"error":{"message":"boom-7","code":400,"metadata":{"raw":"x","provider_name":"P"}},"user_id":"u"}', "application/json", ("boom-7", "400")),
    "E8-errors": ("a list of errors", '{"errors":[{"message":"boom-7","code":7}]}', "application/json", ("boom-7",)),
    "E8-nulls": ("an error of nulls", '{"error":{"message":null,"type":null,"param":null,"code":null}}', "application/json", ()),
    "E8-message-object": ("a message that is an object", '{"error":{"message":{"text":"boom-7"}}}', "application/json", ()),
    "E8-empty-object": ("an empty object", "{}", "application/json", ()),
    "E8-null": ("null", "null", "application/json", ()),
    "E8-number": ("a number", "42", "application/json", ()),
    "E8-json-string": ("a JSON string", '"boom-7"', "application/json", ()),
    "E8-empty": ("an empty body", "", "application/json", ()),
    "E8-text": ("plain text", "boom-7 happened", "text/plain", ("boom-7",)),
    "E8-broken": ("JSON that is cut", '{"error":{"message":"boo', "application/json", ()),
    "E8-not-utf8": ("bytes that are no UTF-8", b'{"error":{"message":"boom-7 \xff\xfe"}}', "application/json", ()),
    "E8-no-type": ("no content-type", SAID, "", ("boom-7",)),
    "E8-event": ("an error as an event stream", f"event: error\ndata: {SAID}\n\n", "text/event-stream", ()),
    "E8-deep": ("an error nested 10,000 deep", '{"error":' * 10_000 + "1" + "}" * 10_000, "application/json", ()),
    "E10-html": ("an HTML page", "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>", "text/html", ()),
}  # fmt: skip


def shaped(case_id: str) -> Case:
    """An error body of any shape becomes the one shape, its words kept."""
    title, body, typed, texts = SHAPES[case_id]
    saying = (error_says(*texts),) if texts else ()
    return exchange(
        case_id, f"{title} becomes the one error shape", Ask(), plain(body, 400, content_type=typed), status(400), full_error, error_object, *saying
    )  # fmt: skip


def one_short_line(seen: Seen) -> Fault | None:
    """The message is one line of at most 1,000 characters."""
    message = seen.reply.errors()[0].get("message") if seen.reply.errors() else None
    if isinstance(message, str) and len(message) <= 1000 and not any(c in message for c in "\r\n\x00\x1b"):
        return None
    return Fault(
        "one line, at most 1,000 characters", f"{len(message) if isinstance(message, str) else 0} characters"
    )


def kept_members(seen: Seen) -> Fault | None:
    """message, type, param and code as the provider gave them."""
    got = seen.reply.errors()[0] if seen.reply.errors() else {}
    want = {"message": "boom-7", "type": "t-8", "param": "p-9", "code": "c-10"}
    wrong = [name for name, value in want.items() if got.get(name) != value]
    return Fault(f"{wrong[0]} = {want[wrong[0]]}", show(got.get(wrong[0]))) if wrong else None


def quota(case_id: str, code: int) -> Case:
    """An exhausted quota keeps its status and its type."""
    body = '{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}'
    return exchange(case_id, f"a quota sent as {code} stays {code} and says so", Ask(), plain(body, code), status(code), error_says("insufficient_quota"))  # fmt: skip


BODIES = (
    *(shaped(case_id) for case_id in SHAPES),
    exchange("E7-members", "message, type, param and code are kept", Ask(), plain(SAID, 400), status(400), kept_members),
    exchange("E12-not-429", "an error that speaks of rate limits keeps its 400", Ask(), plain('{"error":{"message":"rate limit 429 Too Many Requests","type":"x","param":null,"code":null}}', 400), status(400)),
    exchange("E-long", "a message of 100 kB is cut", Ask(), plain('{"error":{"message":"' + "long " * 20_000 + '"}}', 400), status(400), error_object, ours(one_short_line)),
    exchange("E-lines", "a message of several lines is one line", Ask(), plain(r'{"error":{"message":"a\r\nb\u0000\u001b[31mc\n\nd"}}', 400), status(400), error_object, ours(one_short_line)),
    exchange("E10-long-html", "a long HTML page is cut and not trusted", Ask(), plain("<html>" + "x<br>\n" * 50_000, 503, content_type="text/html"), status_between(500, 599), ours(status(503)), full_error, ours(one_short_line)),
    alone(exchange("E-huge-error", "an error of 20 MB is not swallowed whole", Ask(), plain('{"error":{"message":"' + "x" * 20_000_000 + '"}}', 500), status(500, 502), error_object, ours(one_short_line))),
    exchange("E-cut-error", "a 429 whose body is cut stays a 429", Ask(), raw(head(429, ("Content-Type", "application/json"), ("Content-Length", "500"), ("retry-after", "9")), b'{"error":{"message":"boo'), status(429), error_object, header_is("retry-after", "9")),
    exchange("E-reset-error", "a 400 whose body is reset stays a 400", Ask(), raw(head(400, ("Content-Type", "application/json"), ("Content-Length", "500")), b'{"error":', Pause(0.05), end="reset"), status(400), error_object),
    exchange("E-chunked-error", "an error in chunks is read", Ask(), raw(head(422, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")), b"".join(chunked(SAID.encode()[i : i + 7]) for i in range(0, len(SAID), 7)), b"0\r\n\r\n", end="keep"), status(422), kept_members),
    exchange("E-closing-error", "an error that ends by closing is read", Ask(), raw(head(503, ("Content-Type", "application/json"), ("Connection", "close")), SAID.encode()), status_between(500, 599), ours(status(503)), kept_members),
    exchange("E-endless-error", "an error body that never ends is given up", Ask(), raw(head(500, ("Content-Type", "text/plain"), ("Content-Length", "1000")), b"boom-7", Pause(0.2)), status_between(500, 599), full_error),
    exchange("E13-unknown-parameter", "the provider's own 400 about a parameter is passed on", Ask('"system_prompt":"x"'), plain('{"error":{"message":"Unrecognized request argument supplied: system_prompt","type":"invalid_request_error","param":"system_prompt","code":"unknown_parameter"}}', 400), status(400), error_says("system_prompt", "unknown_parameter"), called(1)),
    exchange("E18-temperature", "a refused temperature is not dropped and tried again", Ask('"temperature":0.1'), plain('{"error":{"message":"Unsupported value: temperature","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}', 400), status(400), error_says("temperature"), called(1)),
    quota("E4-quota-400", 400),
    quota("E4-quota-402", 402),
    quota("E4-quota-429", 429),
)  # fmt: skip


def bad_gateway(case_id: str, title: str, script: Script, *checks: Check) -> Case:
    """A reply that is no answer: 502."""
    return exchange(case_id, title, Ask(), script, status_between(500, 599), ours(status(502)), error_object, FROM_UPSTREAM, ours(recorded_failed), *checks)  # fmt: skip


def recorded_failed(seen: Seen) -> Fault | None:
    """One record, and not of a success."""
    if not seen.readable:
        return None
    state = at(seen.records[0], "status") if len(seen.records) == 1 else None
    return None if state in {"upstream_error", "truncated"} else Fault("one record of a failure", show(state))


FALSE_OK = (
    bad_gateway("E-200-broken", "a 200 whose JSON is cut is no 200", plain(completion()[:-40])),
    bad_gateway("E-200-html", "a 200 of HTML is no 200", plain("<html><body>log in</body></html>", content_type="text/html")),
    bad_gateway("E-200-empty", "a 200 without a body is no 200", plain("")),
    bad_gateway("E-200-list", "a 200 that is a list is no 200", plain("[]")),
    bad_gateway("E-200-null", "a 200 that is null is no 200", plain("null")),
    bad_gateway("E-200-text", "a 200 of plain text is no 200", plain("OK", content_type="text/plain")),
    bad_gateway("E-200-trailing", "a 200 of two values is no 200", plain(completion() + "{}")),
    bad_gateway("E-204", "a 204 is no answer", raw(head(204), end="keep")),
    bad_gateway("E-200-short", "a 200 with fewer bytes than announced is no 200", raw(head(200, ("Content-Type", "application/json"), ("Content-Length", "5000")), completion().encode())),
    bad_gateway("E-200-cut-chunk", "a 200 whose chunks stop is no 200", raw(head(200, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")), b"10\r\n" + completion().encode()[:16] + b"\r\n")),
    bad_gateway("E-200-reset", "a 200 that is reset is no 200", raw(head(200, ("Content-Type", "application/json"), ("Content-Length", "5000")), completion().encode()[:50], Pause(0.05), end="reset")),
    bad_gateway("E6-reset", "a connection reset instead of a reply is a 502", raw(Pause(0.01), end="reset")),
    bad_gateway("E6-closed", "a connection closed instead of a reply is a 502", raw(Pause(0.01))),
    bad_gateway("E6-garbage", "a reply that is no HTTP is a 502", raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")),
    exchange("E-200-error", "a 200 with an error in it is an error", Ask(), plain(SAID), status_between(400, 599), error_object, error_says("boom-7"), ours(recorded("upstream_error"))),
    exchange("E-200-error-code", "its code is the status", Ask(), plain('{"error":{"message":"boom-7","code":429}}'), status(429), error_object),
    exchange("E-200-flat-error", "a 200 with a flat error is an error", Ask(), plain('{"object":"error","message":"boom-7","type":"x","param":null,"code":400}'), status(400), error_says("boom-7")),
    exchange("E-200-error-string", "a 200 with an error string is an error", Ask(), plain('{"error":"boom-7"}'), status_between(400, 599), error_says("boom-7")),
    exchange("E-200-error-type", "a 200 with Anthropic's error is an error", Ask(), plain('{"type":"error","error":{"type":"overloaded_error","message":"boom-7"}}'), status_between(400, 599), error_says("boom-7")),
    exchange("E-200-error-null", "error null beside an answer is no error", Ask(), plain(completion(more=',"error":null')), says("hello")),
    exchange("E-200-detail", "a 200 with a detail and no answer is an error", Ask(), plain('{"detail":"boom-7"}'), status_between(400, 599), error_object),
    exchange("E-200-no-type", "an answer without a content-type is an answer", Ask(), plain(completion(), content_type=""), says("hello")),
    exchange("E-200-text-json", "an answer served as text/plain is an answer", Ask(), plain(completion(), content_type="text/plain"), says("hello")),
    exchange("E-201", "an answer with status 201 is an answer", Ask(), plain(completion(), 201), status(200, 201), lambda seen: None if seen.reply.content() == "hello" else fault("hello", seen)),
)  # fmt: skip


def redirected(code: int) -> Case:
    """A redirect is not followed: it could carry the credential anywhere."""

    async def play(stage: Stage) -> Fault | None:
        other = stage.play(plain(completion()), "followed")
        location = f"http://127.0.0.1:{stage.upstream.port}/elsewhere?case:{other}"
        stage.play(plain("", code, ("Location", location)))
        seen = await stage.exchange(Ask())
        if stage.received(other) or len(seen.calls) > 1 or seen.reply.content() == "hello":
            return Fault("the redirect is not followed", "the other address was asked")
        return next((f for c in (status_between(300, 599), reply_lacks("elsewhere"), ours(status(502)), ours(error_object)) if (f := c(seen))), None)  # fmt: skip

    return Case(f"E-redirect-{code}", f"a {code} is not followed, and its address not shown", play)


def _failed_visibly(seen: Seen) -> Fault | None:
    """An error status, or an error on a stream that had begun."""
    return None if seen.reply.status >= 500 or seen.reply.errors() else fault("an error", seen)


async def _refusing(stage: Stage) -> Fault | None:
    """Nobody listens: 502, at once, JSON."""
    port = stage.upstream.port
    await stage.upstream.stop()
    try:
        plainly = await stage.ask(Ask())
        streamed = await stage.ask(Ask(stream=True))
    finally:
        await stage.upstream.start()
    for reply in (plainly, streamed):
        seen = await stage.seen(Ask(), reply)
        checks: tuple[Check, ...] = (
            _failed_visibly,
            ours(status(502)),
            error_object,
            reply_lacks(f":{port}"),
        )
        found = next((fault_seen for check in checks if (fault_seen := check(seen))), None)
        if found:
            return found
    stage.play(plain(completion()))
    again = await stage.ask(Ask())
    return None if again.status == 200 else Fault("200 once the upstream is back", brief(again))


OTHERS = (
    *(redirected(code) for code in (301, 302, 303, 307, 308)),
    Case("E6-refused", "nobody listening is a 502, and works again when somebody does", _refusing, alone=True),
    exchange("E-status-odd", "a status that does not exist is an error", Ask(), plain(SAID, 799), status_between(400, 599), error_object),
    exchange("E-status-600", "a status of 600 is an error", Ask(), plain(SAID, 600), status_between(400, 599), error_object),
    exchange("E-status-304", "a 304 is an error", Ask(), raw(head(304), end="keep"), status_between(400, 599), error_object),
    exchange("E-status-101", "a 101 nobody asked for is an error", Ask(), raw(head(101, ("Upgrade", "websocket"), ("Connection", "upgrade")), Hold(1)), status_between(500, 599)),
    exchange("E-usage-in-error", "usage in an error body is not an answer", Ask(), plain(f'{{"error":{{"message":"boom-7"}},"usage":{USAGE},"model":"{MODEL}"}}', 500), status_between(500, 599), ours(status(500)), error_says("boom-7")),
)  # fmt: skip

CASES: tuple[Case, ...] = (*STATUSES, *HEADERS, *BODIES, *FALSE_OK, *OTHERS)
