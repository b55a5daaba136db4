"""E: credentials stay inside: the provider's key never reaches a client, the client's bearer never a provider."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange, with_bearer
from osmosis_bridge.conformance.checks import (
    brief,
    error_object,
    error_says,
    fault,
    full_error,
    keeps_secrets,
    not_called,
    ours,
    reply_lacks,
    says,
    status,
    status_between,
)
from osmosis_bridge.conformance.samples import ROLE, WHOLE, completion, said
from osmosis_bridge.conformance.script import Script, Send, chunked, data, echoing, head, plain, stream
from osmosis_bridge.conformance.stage import Stage
from osmosis_bridge.conformance.upstream import Received

OK = plain(completion())
LOOKALIKE = "sk-proj-Zk3vR8mQ1tYxW7nB5cD2fG4hJ6kL9pS0"
SHAPED = (LOOKALIKE, "AIzaSyD-1a2B3c4D5e6F7g8H9i0JkLmNoPqRsTuV", "ghp_0123456789abcdefghijABCDEFGHIJ012345")


def echo(template: str, code: int, *headers: tuple[str, str]) -> Script:
    """A reply whose `KEY` is the credential that the proxy sent."""
    return echoing(lambda received: template.replace("KEY", received.secret() or "no-key"), code, *headers)


def echo_frame(template: str) -> Send:
    """A stream chunk whose `KEY` is the credential that the proxy sent."""
    return Send(lambda received: chunked(data(template.replace("KEY", received.secret() or "no-key"))))


def hiding(case_id: str, title: str, script: Script, *checks: Check, streaming: bool = False) -> Case:
    """A case in which the upstream tells the secret."""
    return exchange(case_id, title, Ask(stream=streaming), script, keeps_secrets, *checks)


def _head_with_key(received: Received) -> bytes:
    body = b'{"error":{"message":"no"}}'
    return head(401, ("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("x-request-id", received.secret()), ("WWW-Authenticate", f"Bearer key={received.secret()}")) + body  # fmt: skip


def escapes(text: str) -> str:
    """Every letter as a JSON escape."""
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def no_own_address(seen: Seen) -> Fault | None:
    """The host and port at which the proxy reaches its upstream do not stand in the reply."""
    host = seen.calls[0].headers("host")[0] if seen.calls else "no call"
    return (
        Fault(f"{host} is not shown to the client", brief(seen.reply))
        if host in brief(seen.reply, 10_000)
        else None
    )


def no_piece(seen: Seen) -> Fault | None:
    """Not even the beginning of a credential is shown."""
    shown = seen.reply.raw + seen.reply.body
    if any(secret[:12].encode() in shown for secret in seen.secrets):
        return Fault("no piece of the credential", "its beginning is shown")
    return None


FAILED = status_between(400, 599)

ECHOES = (
    hiding("E1-message", "a 401 that echoes the key does not show it", echo('{"error":{"message":"Incorrect API key provided: KEY.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}', 401), FAILED, error_object),
    hiding("E1-every-member", "nor in type, param or code", echo('{"error":{"message":"KEY","type":"KEY","param":"KEY","code":"KEY"}}', 400), FAILED),
    hiding("E1-detail", "nor from other shapes", echo('{"detail":[{"msg":"bad key KEY","loc":["KEY"]}]}', 422), FAILED),
    hiding("E1-html", "nor from a page", echo("<html><body>Authorization: Bearer KEY</body></html>", 502), FAILED),
    hiding("E1-header", "nor from a header", Script((Send(_head_with_key),)), FAILED),
    hiding("E1-escaped", "nor with JSON escapes around it", echo(r'{"error":{"message":"\u0022KEY\u0022\n\tKEY"}}', 403), FAILED),
    hiding("E1-url", "nor in a URL", echo('{"error":{"message":"GET https://x.example/v1?key=KEY&a=b failed"}}', 500), FAILED),
    hiding("E1-200-error", "nor from an error with status 200", echo('{"error":{"message":"key KEY is wrong","code":401}}', 200), status_between(400, 599)),
    hiding("E1-first-event", "nor from an error that is the first event", stream(echo_frame('{"error":{"message":"key KEY is wrong","code":401}}')), status_between(400, 599), streaming=True),
    hiding("E1-mid-stream", "nor from an error in the middle of a stream", stream(ROLE, said("he"), echo_frame('{"error":{"message":"key KEY is wrong","code":401}}')), streaming=True),
    hiding("E1-flat-stream", "nor from a flat error in a stream", stream(ROLE, echo_frame('{"object":"error","message":"key KEY","code":"KEY"}')), streaming=True),
    hiding("E1-choice-error", "nor from an error inside a choice", stream(ROLE, echo_frame('{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":401,"message":"key KEY is wrong"}}]}')), streaming=True),
    hiding("E1-plain-choice-error", "nor from one of a plain reply", echo('{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"error","error":{"code":401,"message":"key KEY is wrong"}}]}', 200)),
    hiding("E1-event-error", "nor from event: error", stream(ROLE, Send(lambda received: chunked(f'event: error\ndata: {{"message":"key {received.secret()}"}}\n\n'.encode()))), streaming=True),
    hiding("E1-unicode-escapes", "nor when every letter is an escape", echoing(lambda received: '{"error":{"message":"bad key ' + escapes(received.secret()) + '"}}', 401), FAILED),
    hiding("E1-stream-escapes", "nor in escapes on a stream", stream(ROLE, Send(lambda received: chunked(data('{"error":{"message":"bad key ' + escapes(received.secret()) + '"}}')))), streaming=True),
    hiding("E1-bad-frame", "nor from a frame that is no JSON", stream(ROLE, echo_frame('{"error": key KEY is wrong')), streaming=True),
    hiding("E1-text-frame", "nor from a line of plain text in a stream", stream(ROLE, Send(lambda received: chunked(f"authorization: Bearer {received.secret()} refused\n\n".encode()))), streaming=True),
    hiding("E1-detail-frame", "nor from a detail in place of a chunk", stream(ROLE, echo_frame('{"detail":"key KEY is wrong"}')), streaming=True),
    hiding("E1-comment", "nor from a comment of a stream", stream(Send(lambda received: chunked(f": key {received.secret()}\n\n".encode())), *WHOLE), streaming=True),
    hiding("E1-plain-garbage", "nor from a 200 that is no JSON", echo("KEY is not JSON", 200), status_between(500, 599)),
    hiding("E1-long", "nor cut in half by the limit of the message", echo('{"error":{"message":"' + "x" * 990 + ' KEY and more"}}', 400), FAILED, no_piece),
    exchange("E1-shaped", "text that looks like a key is not shown", Ask(), plain('{"error":{"message":"keys ' + " and ".join(SHAPED) + '"}}', 401), status(401), ours(reply_lacks(*SHAPED))),
    exchange("E1-bearer-text", "a bearer in an error's text is not shown", Ask(), plain('{"error":{"message":"sent Authorization: Bearer abcdefghijklmnop1234567890"}}', 401), status(401), ours(reply_lacks("abcdefghijklmnop1234567890"))),
    exchange("E1-url-parts", "credentials and query of a URL are not shown", Ask(), plain('{"error":{"message":"cannot reach https://user:hunter2pw@llm.example/v1/chat?key=topsecretvalue#f"}}', 502), status(502), ours(reply_lacks("hunter2pw", "topsecretvalue"))),
    exchange("E1-own-address", "the upstream's own address is not shown", Ask(), echoing(lambda received: f'{{"error":{{"message":"cannot connect to http://{received.headers("host")[0]}/v1 ({received.headers("host")[0]})"}}}}', 502), status(502), ours(no_own_address)),
    exchange("E1-private-address", "nor another private one", Ask(), plain('{"error":{"message":"cannot connect to http://10.1.2.3:8000/v1 (10.1.2.3:8000)"}}', 502), status(502), ours(reply_lacks("10.1.2.3"))),
)  # fmt: skip


def _client_stays_outside(seen: Seen) -> Fault | None:
    """Nothing that identifies the client to the proxy reaches the provider."""
    if not seen.calls:
        return fault("the request reaches the upstream", seen)
    head_text = seen.calls[0].head.decode("latin-1").lower()
    words = (
        "cookie-canary", "org-canary", "proj-canary", "proxy-canary", "x-stainless-lang", "xkey-canary",
        "idempotent-canary", "goog-canary",
    )  # fmt: skip
    there = [word for word in words if word in head_text]
    return Fault(f"{there[0]} is not sent to the provider", "it was") if there else None


async def _bearer_stays(stage: Stage) -> Fault | None:
    bearer = stage.target.bearer or ""
    stage.play(OK)
    seen = await stage.exchange(Ask())
    if not seen.calls:
        return fault("the request reaches the upstream", seen)
    if bearer.encode() in seen.calls[0].head + seen.calls[0].text():
        return Fault("the client's bearer is not sent to the provider", "it was")
    return None if seen.calls[0].secret() else Fault("the provider's own key is sent", "no credential was")


def _own_host(seen: Seen) -> Fault | None:
    """The Host that the upstream sees is its own."""
    hosts = seen.calls[0].headers("host") if seen.calls else []
    return (
        None if len(hosts) == 1 and "evil" not in hosts[0] else Fault("one Host, the upstream's", str(hosts))
    )


BELONGING = (
    ("HTTP-Referer", "https://agent.example"),
    ("X-Title", "An agent, of sorts"),
    ("OpenAI-Beta", "assistants=v2"),
    ("OpenAI-Beta", "realtime=v1"),
    ("X-Client-Request-Id", "c-7"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
)


def _belonging_arrive(seen: Seen) -> Fault | None:
    """Each of these headers stands in the provider's request, each line of several."""
    for name, _ in BELONGING:
        want = [value for other, value in BELONGING if other == name]
        got = seen.calls[0].headers(name.lower()) if seen.calls else []
        if got != want:
            return Fault(f"{name}: {want} at the provider", f"{got}")
    return None


STEERING = (
    ("X-Upstream-Url", "http://127.0.0.1:9/"),
    ("X-LiteLLM-Api-Base", "http://127.0.0.1:9/"),
    ("X-Portkey-Custom-Host", "http://127.0.0.1:9/"),
    ("Forwarded", "host=evil.example"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("X-Original-URL", "/admin"),
    ("Helicone-Target-Url", "http://127.0.0.1:9/"),
)


def _not_steered(seen: Seen) -> Fault | None:
    """The upstream got the ordinary request."""
    if not seen.calls:
        return fault("the request reaches the upstream", seen)
    head_text = seen.calls[0].head
    if not head_text.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n"):
        return Fault("POST /v1/chat/completions", head_text[:60].decode("latin-1"))
    return Fault("client headers do not reach the provider", "evil") if b"evil" in head_text else None


OUTGOING = (
    with_bearer(Case("E1-client-bearer", "the client's bearer stays at the proxy, the provider's key is used", _bearer_stays)),
    exchange(
        "E-client-headers", "the client's cookies, organisation and SDK headers stay at the proxy",
        Ask(headers=(("Cookie", "s=cookie-canary"), ("OpenAI-Organization", "org-canary"), ("OpenAI-Project", "proj-canary"), ("Proxy-Authorization", "Basic proxy-canary"), ("X-Stainless-Lang", "python"), ("X-Api-Key", "xkey-canary"), ("Idempotency-Key", "idempotent-canary"), ("X-Goog-User-Project", "goog-canary"))),
        OK, status(200), _client_stays_outside,
    ),
    exchange("F-client-headers", "headers that belong to the request reach the provider as they were", Ask(headers=BELONGING), OK, says("hello"), _belonging_arrive, scope="ours"),
    exchange("F-client-headers-streamed", "on a stream too", Ask(stream=True, headers=BELONGING), stream(*WHOLE), says("hello"), _belonging_arrive, scope="ours"),
    exchange("F-client-headers-hop", "a header that Connection names is for the proxy alone", Ask(headers=(("Connection", "X-Title"), ("X-Title", "evil"))), OK, says("hello"), _not_steered),
    exchange("E-client-headers-long", "a header too long to forward is refused by name", Ask(headers=(("X-Title", "t" * 5000),)), OK, status(400), full_error, error_says("x-title"), not_called, scope="ours"),
    exchange("E-steering-headers", "no header of the client steers where the call goes", Ask(headers=STEERING), OK, says("hello"), _not_steered, _own_host),
    exchange("E-steering-query", "a query of the client does not reach the provider", Ask(path="/v1/chat/completions?api_base=http://evil.example&key=evil"), OK, says("hello"), _not_steered, scope="ours"),
    exchange("E-one-host", "the provider sees one Host, its own", Ask(stream=True), stream(*WHOLE), says("hello"), _own_host),
)  # fmt: skip


async def _secret_free_ledger(stage: Stage) -> Fault | None:
    """After an exchange that told the key twice, the ledger's file holds neither key, bearer nor prompt."""
    ledger = stage.target.ledger
    stage.play(echo('{"error":{"message":"Incorrect API key: KEY"}}', 401))
    seen = await stage.exchange(Ask('"api_key":"sk-client-canary-1"'))
    if ledger is None:
        return None
    bearer = (stage.target.bearer,) if stage.target.bearer else ()
    held = [
        s for s in (*seen.secrets, *bearer, "sk-client-canary-1", stage.token) if s.encode() in ledger.text()
    ]
    return Fault("a ledger without secrets and prompts", f"{len(held)} found") if held else None


CASES: tuple[Case, ...] = (
    *ECHOES, *OUTGOING,
    Case("E1-ledger", "no secret and no prompt stands in the ledger", _secret_free_ledger, "ours"),
)  # fmt: skip
