"""F, U, S, T, E: the other wire formats that agents speak, held to the same promises."""

from __future__ import annotations

from dataclasses import replace

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange, with_bearer
from osmosis_bridge.conformance.cases.controls import names_stripped
from osmosis_bridge.conformance.cases.framing import on_time
from osmosis_bridge.conformance.cases.leaving import leaving
from osmosis_bridge.conformance.checks import (
    brief,
    called,
    configured_model,
    error_says,
    fault,
    forwarded,
    full_error,
    header_is,
    keeps_secrets,
    not_called,
    recorded,
    reply_lacks,
    status,
    status_between,
    upstream_has,
    upstream_lacks,
)
from osmosis_bridge.conformance.exact import Number, at, difference, members, parse, show
from osmosis_bridge.conformance.samples import MODEL, completion
from osmosis_bridge.conformance.script import Hold, Script, Send, Step, Until, chunked, plain, stream
from osmosis_bridge.conformance.stage import record_value

ALIAS = "osmosis-rollout"
NAMED = f'"model":"{MODEL}"'
BOOM = '{"error":{"message":"boom-7","type":"t-8","param":"p-9","code":"c-10"}}'


def asking(dialect: str, fields: str = "", *, streaming: bool = False, headers: tuple[tuple[str, str], ...] = ()) -> Ask:  # fmt: skip
    """A request of a dialect, with the token where its text stands."""
    prompt = {
        "responses": '"input":[{"role":"user","content":[{"type":"input_text","text":"$CASE"}]}]',
        "messages": '"max_tokens":64,"messages":[{"role":"user","content":"$CASE"}]',
        "completions": '"prompt":"$CASE"',
        "embeddings": '"input":["$CASE","b"]',
    }[dialect]
    parts = [
        f'"model":"{ALIAS}"',
        prompt,
        *([fields] if fields else []),
        *(['"stream":true'] if streaming else []),
    ]
    return Ask(raw=("{" + ",".join(parts) + "}").encode(), path=f"/v1/{dialect}", headers=headers)


def event(name: str, data: str) -> bytes:
    """A typed event: its name is the type inside."""
    return f"event: {name}\ndata: {data}\n\n".encode()


R_USAGE = '"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":10}'


def response(state: str = "completed", more: str = f",{R_USAGE}", output: str | None = None) -> str:
    """A response of the Responses API."""
    items = (
        output
        or '[{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"AA=="},{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hello","annotations":[],"logprobs":[]}]}]'
    )
    return f'{{"id":"resp_1","object":"response","created_at":1700000000,"status":"{state}","error":null,"incomplete_details":null,{NAMED},"output":{items},"temperature":1.0,"metadata":{{}}{more}}}'


def r_event(kind: str, rest: str) -> bytes:
    """A `response.*` event."""
    return event(kind, f'{{"type":"{kind}","sequence_number":1,{rest}}}')


R_BEGUN = (
    r_event("response.created", f'"response":{response("in_progress", "", "[]")}'),
    r_event("response.output_text.delta", '"item_id":"msg_1","output_index":0,"content_index":0,"delta":"hel","logprobs":[]'),
    r_event("response.output_text.delta", '"item_id":"msg_1","output_index":0,"content_index":0,"delta":"lo","logprobs":[]'),
)  # fmt: skip
R_DONE = r_event("response.completed", f'"response":{response()}')
R_WHOLE = (*R_BEGUN, R_DONE)
FAILED_RESPONSE = response("failed", more="").replace(
    '"error":null', '"error":{"code":"server_error","message":"boom-7"}'
)
R_FAILED = r_event("response.failed", f'"response":{FAILED_RESPONSE}')
R_CUT_SHORT = response("incomplete").replace(
    '"incomplete_details":null', '"incomplete_details":{"reason":"max_output_tokens"}'
)
R_INCOMPLETE = r_event("response.incomplete", f'"response":{R_CUT_SHORT}')
M_ERROR = event("error", '{"type":"error","error":{"type":"overloaded_error","message":"boom-7"}}')
R_ERROR = event(
    "error", '{"type":"error","code":"server_error","message":"boom-7","param":null,"sequence_number":3}'
)
M_USAGE = '{"input_tokens":5,"cache_read_input_tokens":7,"cache_creation_input_tokens":3,"output_tokens":1}'
M_BODY = f'{{"id":"msg_1","type":"message","role":"assistant",{NAMED},"content":[{{"type":"thinking","thinking":"t","signature":"s+/="}},{{"type":"text","text":"hello"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{M_USAGE},"container":null}}'
M_BEGUN = (
    event("message_start", f'{{"type":"message_start","message":{{"id":"msg_1","type":"message","role":"assistant",{NAMED},"content":[],"stop_reason":null,"stop_sequence":null,"usage":{M_USAGE}}}}}'),
    event("ping", '{"type":"ping"}'),
    event("content_block_start", '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'),
    event("content_block_delta", '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hel"}}'),
    event("content_block_delta", '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}'),
)  # fmt: skip
M_STOPS = (
    event("content_block_stop", '{"type":"content_block_stop","index":0}'),
    event("message_delta", '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}'),
    event("message_stop", '{"type":"message_stop"}'),
)  # fmt: skip
M_WHOLE = (*M_BEGUN, *M_STOPS)
C_BODY = f'{{"id":"cmpl-1","object":"text_completion","created":1,{NAMED},"choices":[{{"index":0,"text":"hello","logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}}}'
E_BODY = f'{{"object":"list",{NAMED},"data":[{{"object":"embedding","index":0,"embedding":[0.10,-1e-7,1.0]}},{{"object":"embedding","index":1,"embedding":"AACAPw=="}}],"usage":{{"prompt_tokens":7,"total_tokens":7}}}}'
BODIES = {"responses": response(), "messages": M_BODY, "completions": C_BODY, "embeddings": E_BODY}


def aliased(text: str) -> str:
    """What was sent, with the client's name for the model."""
    return text.replace(NAMED, f'"model":"{ALIAS}"')


def as_it_was(sent: str) -> Check:
    """The plain reply is what the provider sent, under the client's name for the model."""

    def check(seen: Seen) -> Fault | None:
        found = difference(parse(aliased(sent)), seen.reply.json)
        return Fault("the reply as it was", found) if found else status(200)(seen)

    return check


def events_as_sent(frames: tuple[bytes, ...]) -> Check:
    """The events are what the provider sent, names and order too; pings may be left out."""

    def check(seen: Seen) -> Fault | None:
        wanted = [(block.split("\n", 1)[0][7:], parse(block.split("data: ", 1)[1])) for block in (aliased(frame.decode()).strip() for frame in frames)]  # fmt: skip
        got = [(one.name, one.json) for one in seen.reply.events() if one.name != "ping"]
        wanted = [pair for pair in wanted if pair[0] != "ping"]
        if [name for name, _ in wanted] != [name for name, _ in got]:
            return Fault(f"events {', '.join(name for name, _ in wanted)}", ", ".join(name for name, _ in got) or brief(seen.reply))  # fmt: skip
        pairs = zip(wanted, got, strict=True)
        found = next((d for (name, want), (_, have) in pairs if (d := difference(want, have, name))), None)
        return Fault("events as they were", found) if found else None

    return check


def counted(prompt: int, completion_tokens: int, total: int | None) -> Check:
    """The record's usage, in the words of chat completions."""

    def check(seen: Seen) -> Fault | None:
        kept = members(record_value(seen, "usage"))
        want = {"prompt_tokens": prompt, "completion_tokens": completion_tokens, "total_tokens": total}
        wrong = [n for n, v in want.items() if v is not None and kept.get(n) != Number(str(v))]
        return Fault(f"usage {want}", show(record_value(seen, "usage"))) if seen.readable and wrong else None

    return check


def torn(*endings: bytes | str) -> Check:
    """The stream visibly failed and none of these endings came."""

    def check(seen: Seen) -> Fault | None:
        if seen.reply.status >= 400:
            return None
        names = [one.name or one.data.strip() for one in seen.reply.events()]
        if not {"error", "response.failed"} & set(names) and not seen.reply.errors():
            return fault("an error event", seen)
        there = [ending for ending in endings if ending in names]
        return Fault(f"no {there[0]!r} after a failure", ", ".join(names)) if there else None

    return check


def anthropic_error(seen: Seen) -> Fault | None:
    """`{"type":"error","error":{"type","message"}}`."""
    told = seen.reply.json
    fits = at(told, "type") == "error" and isinstance(at(told, "error", "message"), str)
    return (
        None
        if fits and isinstance(at(told, "error", "type"), str)
        else fault("Anthropic's error shape", seen)
    )


def ours_only(case_id: str, title: str, ask: Ask, script: Script, *checks: Check) -> Case:
    """A case of a route that this bridge promises."""
    return exchange(case_id, title, ask, script, *checks, scope="ours")


EXTRA = '"extra_body":{"provider":{"order":["OpenAI"]},"api_key":"ctl-canary"},"seed":1.10,"api_base":"http://127.0.0.1:9"'


def fields_case(dialect: str) -> Case:
    """extra_body is unwrapped, fields go out, controls do not."""
    return ours_only(
        f"F5-{dialect}", f"/{dialect}: extra_body is unwrapped once, fields are forwarded, controls stripped", asking(dialect, EXTRA), plain(BODIES[dialect]),
        status(200), upstream_has("seed", "1.10"), upstream_has("provider", '{"order":["OpenAI"]}'), configured_model,
        upstream_lacks("api_key", "api_base", "extra_body"), names_stripped(["api_base", "api_key"]), recorded("ok", dialect=dialect),
    )  # fmt: skip


def path_kept(dialect: str) -> Check:
    """The provider is asked on the same path."""

    def check(seen: Seen) -> Fault | None:
        target = seen.calls[0].target if seen.calls else "no call"
        return None if target == f"/v1/{dialect}" else Fault(f"/v1/{dialect} at the provider", target)

    return check


def spaced(frames: tuple[bytes, ...], markers: tuple[bytes, ...]) -> tuple[bytes | Step, ...]:
    """Frames, each followed by a wait until the client has its marker."""
    steps: list[bytes | Step] = []
    for number, frame in enumerate(frames):
        steps.append(frame)
        if number < len(markers) and markers[number]:
            steps.append(Until(markers[number]))
    return tuple(steps)


def failing(dialect: str, name: str, title: str, script: Script, *checks: Check) -> Case:
    """A stream of a dialect that must be seen to fail."""
    endings = {"responses": "response.completed", "messages": "message_stop", "completions": "[DONE]"}
    return ours_only(f"S4-{dialect}-{name}", f"/{dialect}: {title}", asking(dialect, streaming=True), script, torn(endings[dialect]), called(1), *checks)  # fmt: skip


def told_key(shape: str) -> Send:
    """An event that tells the credential that the proxy sent."""
    return Send(lambda received: chunked(event("error", shape.replace("KEY", received.secret() or "none"))))


def forwarded_but_input(seen: Seen) -> Fault | None:
    """Every field arrives, the input too."""
    found = (
        difference(at(seen.sent_json, "input"), at(seen.upstream_json, "input"), "input")
        if seen.calls
        else None
    )
    return Fault("input as it was", found) if found else forwarded(seen)


def anthropic_headers(seen: Seen) -> Fault | None:
    """The headers that Anthropic's API needs, and the provider's key instead of the client's."""
    if not seen.calls:
        return None if seen.reply.status == 401 else fault("the request reaches the upstream", seen)
    call = seen.calls[0]
    if call.headers("anthropic-version") != ["2023-06-01"] or call.headers("anthropic-beta") != ["b-1"]:
        return Fault("anthropic-version and anthropic-beta", call.head.decode("latin-1")[:300])
    return Fault("the client's key stays", "it went out") if b"client-key-canary" in call.head else None


BESIDE = (
    ("count-tokens", "POST", "/v1/messages/count_tokens", 404),
    ("count-tokens-rollout", "POST", "/v1/rollouts/{rollout}/v1/messages/count_tokens", 404),
    ("batches", "GET", "/v1/messages/batches", 404),
    ("get", "GET", "/v1/messages", 405),
    ("put-rollout", "PUT", "/v1/rollouts/{rollout}/messages", 405),
)


def beside_messages(case_id: str, word: str, method: str, path: str, code: int) -> Case:
    """What is not served around /messages is told in the shape that its clients read, and says what to do."""
    says = ("max_tokens 1",) if "count" in word else ("POST",) if code == 405 else ("/v1/messages",)
    ask = Ask(method=method, path=path, raw=b"" if method == "GET" else b'{"messages":[]}')
    title = f"{method} {path} is a {code} in Anthropic's shape"
    return ours_only(
        case_id, title, ask, plain(M_BODY), status(code), anthropic_error, error_says(*says), not_called
    )


PLAIN = (
    *(fields_case(dialect) for dialect in BODIES),
    *(ours_only(f"T-{dialect}", f"/{dialect}: a plain reply arrives as it was, under the client's name", asking(dialect), plain(body), as_it_was(body), path_kept(dialect)) for dialect, body in BODIES.items()),
    *(ours_only(f"E3-{dialect}-429", f"/{dialect}: a 429 stays one, with its hint", asking(dialect), plain(BOOM, 429, ("retry-after", "7")), status(429), header_is("retry-after", "7"), error_says("boom-7"), recorded("upstream_error", http_status=Number("429"))) for dialect in BODIES),
    *(ours_only(f"E-{dialect}-200-html", f"/{dialect}: a 200 of HTML is no 200", asking(dialect), plain("<html>", content_type="text/html"), status(502)) for dialect in BODIES),
    *(ours_only(f"E-{dialect}-200-error", f"/{dialect}: a 200 with an error in it is an error", asking(dialect), plain(BOOM), status_between(400, 599), error_says("boom-7")) for dialect in BODIES),
    *(ours_only(f"F-{dialect}-bad-json", f"/{dialect}: a body that is no JSON is a 400", Ask(raw=b"{$CASE", path=f"/v1/{dialect}"), plain(body), status(400), not_called) for dialect, body in BODIES.items()),
    ours_only("F15-responses-stop", "/responses: stop is forwarded, for the provider to judge", asking("responses", '"stop":["END"],"reasoning":{"effort":"low"},"include":["reasoning.encrypted_content"],"previous_response_id":null'), plain(response()), status(200), forwarded_but_input),
    ours_only("E-messages-shape", "/messages: errors have Anthropic's shape, the bridge's own too", Ask(raw=b'{"model":7}', path="/v1/messages"), plain(M_BODY), status(400), anthropic_error),
    ours_only("E-messages-upstream-shape", "/messages: and the provider's", asking("messages"), plain('{"type":"error","error":{"type":"overloaded_error","message":"boom-7"}}', 529), status(529), anthropic_error, error_says("overloaded_error", "boom-7")),
    with_bearer(ours_only("E-messages-unauthorised", "/messages: a wrong bearer is told in Anthropic's shape", Ask(raw=b"{}", path="/v1/messages", auth="Bearer wrong-bearer-1"), plain(M_BODY), status(401), anthropic_error, not_called)),
    *(beside_messages(f"E-messages-{word}", word, method, path, code) for word, method, path, code in BESIDE),
    ours_only("E-responses-shape", "/responses: errors have OpenAI's shape", asking("responses"), plain('{"detail":"boom-7"}', 422), status(422), full_error, error_says("boom-7")),
    ours_only("E-responses-failed", "/responses: a response that failed is no 200", asking("responses"), plain(FAILED_RESPONSE), status_between(400, 599), error_says("boom-7")),
    ours_only("U-responses", "/responses: input, output, cached and reasoning tokens are counted", asking("responses"), plain(response()), status(200), counted(7, 3, 10)),
    ours_only("U11-messages", "/messages: the prompt is input, cache reads and cache writes", asking("messages"), plain(M_BODY), status(200), counted(15, 1, None)),
    ours_only("U-embeddings", "/embeddings: prompt tokens are counted", asking("embeddings"), plain(E_BODY), status(200), recorded("ok", usage_source="provider")),
    ours_only("F-embeddings-stream", "/embeddings: stream is for the provider to judge, or a 400", asking("embeddings", streaming=True), plain(E_BODY), status(200, 400), lambda seen: fault("no stream", seen) if seen.reply.is_stream else None),
    ours_only("F-messages-version", "/messages: version and betas go out, the client's key does not", asking("messages", headers=(("anthropic-version", "2023-06-01"), ("anthropic-beta", "b-1"), ("x-api-key", "client-key-canary"))), plain(M_BODY), status_between(200, 401), anthropic_headers),
    ours_only("E-embeddings-chat", "/embeddings: a chat completion in reply is none, and is told in terms of embeddings", asking("embeddings"), plain(completion()), status(502), error_says("no list of embeddings")),
    ours_only("F-chat-on-responses", "/responses: a chat completion in reply is no response", asking("responses"), plain(completion()), status(502)),
)  # fmt: skip

R_ASK, M_ASK, C_ASK = (
    asking(dialect, streaming=True) for dialect in ("responses", "messages", "completions")
)
C_CHUNKS = tuple(
    f'{{"id":"cmpl-1","object":"text_completion","created":1,{NAMED},"choices":[{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{reason}}}]}}'
    for text, reason in (("hel", "null"), ("lo", "null"), ("", '"stop"'))
)
C_FRAMES = tuple(f"data: {text}\n\n".encode() for text in C_CHUNKS)


def chunks_as_sent(seen: Seen) -> Fault | None:
    """The chunks of a text completion are what the provider sent, and `[DONE]` came."""
    found = difference([parse(aliased(text)) for text in C_CHUNKS], seen.reply.payloads())
    if found or not seen.reply.done:
        return Fault("the chunks as they were, and [DONE]", found or brief(seen.reply))
    return None


STREAMS = (
    ours_only("T6-responses", "/responses: every event arrives as it was, ids and names too", R_ASK, stream(*R_WHOLE), events_as_sent(R_WHOLE), recorded("ok"), counted(7, 3, 10)),
    ours_only("T6-messages", "/messages: every event arrives as it was", M_ASK, stream(*M_WHOLE), events_as_sent(M_WHOLE), recorded("ok")),
    ours_only("T6-completions", "/completions: every chunk arrives as it was", C_ASK, stream(*C_FRAMES, b"data: [DONE]\n\n"), chunks_as_sent, recorded("ok")),
    ours_only("T6-responses-crlf", "/responses: CRLF, and one chunk for all", R_ASK, stream(b"".join(R_WHOLE).replace(b"\n", b"\r\n")), events_as_sent(R_WHOLE)),
    ours_only("T6-responses-unnamed", "/responses: events without a name arrive as they were", R_ASK, stream(*(frame.split(b"\n", 1)[1] for frame in R_WHOLE)), lambda seen: None if at(seen.reply.payloads()[-1], "type") == "response.completed" else fault("response.completed at the end", seen), recorded("ok")),
    ours_only("S-responses-incomplete", "/responses: a response cut short by its limit is complete as a stream", R_ASK, stream(*R_BEGUN, R_INCOMPLETE), events_as_sent((*R_BEGUN, R_INCOMPLETE)), recorded("ok")),
    ours_only("S14-responses", "/responses: events are passed on as they come", R_ASK, stream(*spaced(R_WHOLE, (b"response.created", b'"hel"', b'"lo"'))), on_time, recorded("ok")),
    ours_only("S14-messages", "/messages: events are passed on as they come", M_ASK, stream(*spaced(M_WHOLE, (b"message_start", b"", b"block_start", b'"hel"', b'"lo"'))), on_time, recorded("ok")),
    ours_only("U11-messages-stream", "/messages: usage of start and deltas is put together, the last count stands", M_ASK, stream(*M_WHOLE), counted(15, 9, None)),
    failing("responses", "eof", "an end without response.completed is an error", stream(*R_BEGUN)),
    failing("responses", "chunked", "a body that stops is an error", stream(*R_BEGUN, whole=False)),
    failing("responses", "reset", "a reset is an error", stream(*R_BEGUN, Until(b'"lo"', 1.0), whole=False, end="reset")),
    failing("responses", "done", "[DONE] without response.completed is an error", stream(*R_BEGUN, b"data: [DONE]\n\n")),
    failing("responses", "failed", "response.failed is told as it was", stream(*R_BEGUN, R_FAILED), lambda seen: None if "boom-7" in seen.reply.body.decode() else fault("boom-7", seen), recorded("upstream_error")),
    failing("responses", "error", "an error event is told", stream(*R_BEGUN, R_ERROR), lambda seen: None if "boom-7" in seen.reply.body.decode() else fault("boom-7", seen), recorded("upstream_error")),
    failing("responses", "garbage", "a frame that is no JSON is an error", stream(*R_BEGUN, b"data: {nonsense\n\n", R_DONE)),
    failing("messages", "eof", "an end without message_stop is an error", stream(*M_BEGUN)),
    failing("messages", "chunked", "a body that stops is an error", stream(*M_BEGUN, whole=False)),
    failing("messages", "no-reason", "message_stop without a stop reason is an error", stream(*M_BEGUN, M_STOPS[0], M_STOPS[2])),
    failing("messages", "error", "an error event is told", stream(*M_BEGUN, M_ERROR), lambda seen: None if "boom-7" in seen.reply.body.decode() else fault("boom-7", seen), recorded("upstream_error")),
    failing("completions", "eof", "an end without [DONE] and finish is an error", stream(*C_FRAMES[:2])),
    ours_only("S6-responses-error", "/responses: an error as the first event has a status", R_ASK, stream(R_ERROR), status_between(400, 599), error_says("boom-7")),
    ours_only("S6-responses-failed", "/responses: a response that fails at once has a status", R_ASK, stream(R_FAILED), status_between(400, 599), error_says("boom-7")),
    ours_only("S6-messages-error", "/messages: an error as the first event has a status and Anthropic's shape", M_ASK, stream(M_ERROR), status_between(400, 599), anthropic_error, error_says("boom-7")),
    ours_only("S6-messages-ping", "/messages: a ping before the error changes nothing", M_ASK, stream(M_BEGUN[1], M_ERROR), status_between(400, 599), anthropic_error),
    ours_only("S-messages-json", "/messages: a plain reply to a stream request is the answer or an error", M_ASK, plain(M_BODY), lambda seen: None if seen.reply.status >= 400 or "hello" in seen.reply.body.decode() else fault("the answer or an error", seen)),
    ours_only("E1-responses", "/responses: a key told in an error event is not shown", R_ASK, stream(*R_BEGUN, told_key('{"type":"error","message":"key KEY"}')), keeps_secrets),
    ours_only("E1-messages", "/messages: nor there", M_ASK, stream(*M_BEGUN, told_key('{"type":"error","error":{"type":"x","message":"key KEY"}}')), keeps_secrets),
    ours_only("E1-responses-first", "/responses: nor in a first error", R_ASK, stream(told_key('{"type":"error","message":"key KEY"}')), keeps_secrets, reply_lacks("Bearer")),
    leaving("C1-responses", "/responses: a client that leaves closes the upstream within a second", R_ASK, stream(*R_BEGUN, Hold(), whole=False), b'"lo"'),
    leaving("C1-messages", "/messages: so here", M_ASK, stream(*M_BEGUN, Hold(), whole=False), b'"lo"'),
)  # fmt: skip

CASES: tuple[Case, ...] = (*PLAIN, *(replace(case, scope="ours") for case in STREAMS))
