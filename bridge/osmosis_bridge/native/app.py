"""The door of the native lane's process: an OpenAI-compatible endpoint on loopback, for the bridge alone.

Routes: `GET /health`, at once, also while LiteLLM is loaded; `POST /v1/chat/completions`, and `/v1/messages` and the
bridge's other dialects; `POST /v1/explain/...` before any of them, what would be sent. Bare ASGI. Knows no provider.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import httpx
import msgspec

from osmosis_bridge.departure import watched
from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.native.direct import DirectCall
from osmosis_bridge.native.embeddings.call import EmbeddingCall
from osmosis_bridge.native.gate import Explained
from osmosis_bridge.native.lane import Call, Lane, NativeCall, Spoken
from osmosis_bridge.native.plan import Unsupported
from osmosis_bridge.native.sender import JSON_TYPE, SSE_TYPE, AnySender, Headers, Sender, SpokenSender
from osmosis_bridge.native.spoken.answer import Answer
from osmosis_bridge.native.spoken.table import ROUTES
from osmosis_bridge.native.via_responses.call import ResponsesAnswer, ViaCall
from osmosis_bridge.redact import REDACTED, Redactor
from osmosis_bridge.sse import encode_event

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Route = Callable[[dict[bytes, bytes], Receive, Sender], Awaitable[None]]

_CONNECTION: Final = frozenset(
    (b"connection", b"content-encoding", b"content-length", b"date", b"keep-alive", b"server", b"set-cookie",
     b"transfer-encoding", b"alt-svc", b"strict-transport-security", b"content-type")
)  # fmt: skip
_REQUEST_IDS: Final = (
    b"x-request-id",
    b"request-id",
    b"x-amzn-requestid",
    b"apim-request-id",
    b"x-debug-trace-id",
)
_SECRET_HEADER: Final = re.compile(r"(?i)auth|key|token|secret|signature|cookie|credential")
_SECRET_QUERY: Final = re.compile(r"(?i)([?&](?:key|sig|signature|token|api[-_]?key|x-amz-[a-z-]+)=)[^&]*")
_ERROR_LIMIT: Final = 1024 * 1024


class NativeApp:
    """The ASGI application; `bearer` is what the bridge must send."""

    def __init__(self, lane: Lane, bearer: str, redactor: Redactor) -> None:
        self._lane = lane
        self._bearer = f"Bearer {bearer}".encode()
        self._redactor = redactor
        self._routes: dict[tuple[str, str], Route] = {("GET", "/health"): self._health}
        for route in ROUTES:
            self._routes["POST", f"/v1{route}"] = functools.partial(self._complete, route)
            self._routes["POST", f"/v1/explain{route}"] = functools.partial(self._explain, route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        sender = Sender(send)
        try:
            route = self._routes.get((scope["method"], scope["path"]))
            if route is None:
                raise Refused("there is no such route", status=404, code="not_found")
            headers: dict[bytes, bytes] = dict(scope["headers"])
            if scope["path"] != "/health" and not hmac.compare_digest(
                headers.get(b"authorization", b""), self._bearer
            ):
                raise Refused(
                    "no valid bearer", status=401, type="authentication_error", code="invalid_bearer"
                )
            await route(headers, receive, sender)
        except BridgeError as error:
            await sender.fail(error)
        except Exception as error:
            # A fault of ours, or a reply cut short: what has begun is cut, and what has not is told without details.
            if sender.started:
                raise
            told = f"the native lane failed on this request ({type(error).__name__})"
            await sender.fail(BridgeError(told, code="internal_error"))

    async def _health(self, headers: dict[bytes, bytes], receive: Receive, sender: Sender) -> None:
        await sender.whole(
            200, [JSON_TYPE], msgspec.json.encode({"status": "ok", "loaded": self._lane.ready})
        )

    async def _explain(
        self, route: str, headers: dict[bytes, bytes], receive: Receive, sender: Sender
    ) -> None:
        spoken = Spoken(route, headers)
        try:
            explained = await self._lane.explain(await _body(receive), _rollout(headers), spoken)
        except Unsupported as refusal:
            told = msgspec.json.decode(refusal.body()) | {"refused": refusal.fields}
            body = self._redactor.scrub(msgspec.json.encode(told))
            await sender.whole(refusal.status, [JSON_TYPE], body)
            return
        await sender.whole(200, [JSON_TYPE], self._redactor.scrub(msgspec.json.encode(_report(explained))))

    async def _complete(
        self, route: str, headers: dict[bytes, bytes], receive: Receive, sender: Sender
    ) -> None:
        body = await _body(receive)
        async with _until_left(receive):
            call = await self._lane.open(body, _rollout(headers), Spoken(route, headers))
            try:
                await _answer(call, self._through_translations(call, sender))
            finally:
                await call.close()

    def _through_translations(self, call: Call, sender: Sender) -> AnySender:
        """The way of an answer: from Responses to chat completions to the client's dialect, as far as it is one."""
        to: AnySender = sender
        if call.translation is not None:
            to = SpokenSender(to, Answer(call.translation, self._redactor), stream=call.stream)
        if isinstance(call, ViaCall):
            to = SpokenSender(to, ResponsesAnswer(call.via, self._redactor), stream=call.stream)
        return to


async def _answer(call: Call, sender: AnySender) -> None:
    if isinstance(call, DirectCall | EmbeddingCall | ViaCall):
        await _relay(call.relayed, sender)
    elif (relayed := call.relayed) is not None:
        await _relay(relayed, sender)
    elif call.stream:
        await _stream(call, sender)
    else:
        whole = call.whole()
        await sender.whole(200, [JSON_TYPE, *_passed_on(whole.headers)], msgspec.json.encode(whole.reply))


async def _relay(reply: httpx.Response, sender: AnySender) -> None:
    """The provider's own bytes, as they come."""
    kind = reply.headers.get("content-type", "application/json").encode("latin-1")
    await sender.start(reply.status_code, [(b"content-type", kind), *_passed_on(reply.headers)])
    try:
        async for piece in reply.aiter_raw():
            await sender.send(piece)
    except httpx.TransportError:
        if isinstance(sender, SpokenSender):
            await sender.cut()
            return
        # The connection is cut short, as the provider's was; the bridge says so to its client.
        raise _CutShort from None
    await sender.end()


class _CutShort(Exception):
    """The server closes a connection whose reply it did not finish."""


async def _stream(call: NativeCall, sender: AnySender) -> None:
    try:
        async with contextlib.aclosing(call.events()) as events:
            async for event in events:
                await _send_event(event, call, sender)
    except BridgeError as error:
        if not sender.started:
            raise
        await sender.send(encode_event(error.body()))
    await sender.end()


async def _send_event(event: bytes, call: NativeCall, sender: AnySender) -> None:
    """Send an event; the head of the reply with the first."""
    if not event:
        return
    if not sender.started:
        await sender.start(200, [SSE_TYPE, *_passed_on(call.headers)])
    await sender.send(event)


@contextlib.asynccontextmanager
async def _until_left(receive: Receive):  # noqa: ANN202
    """Cancel what is within when the caller leaves."""
    serving = asyncio.current_task()
    left = False

    def leave() -> None:
        nonlocal left
        left = True
        if serving is not None:
            serving.cancel("the caller left")

    try:
        async with watched(receive) as departure:
            departure.tell(leave)
            try:
                yield
            finally:
                departure.forget(leave)
    except asyncio.CancelledError:
        if not left or serving is None or serving.uncancel() > 0:
            raise


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("the caller left before its request was complete", code="client_left")
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


def _rollout(headers: dict[bytes, bytes]) -> str:
    return headers.get(b"x-osmosis-rollout-id", b"default").decode("latin-1")


def _passed_on(headers: httpx.Headers) -> Headers:
    """The provider's headers but those of the connection, and its request id under the name the bridge reads."""
    kept = [(name.lower(), value) for name, value in headers.raw if name.lower() not in _CONNECTION]
    found = dict(kept)
    known = next((found[name] for name in _REQUEST_IDS if name in found), None)
    if known is not None and b"x-request-id" not in found:
        kept.append((b"x-request-id", known))
    return kept


def _report(explained: Explained) -> dict[str, Any]:
    request = explained.request
    shown = {
        name: REDACTED if _SECRET_HEADER.search(name) else value
        for name, value in request.headers.items()
        if name not in ("accept-encoding", "connection", "content-length")
    }
    return {
        "fields": explained.rows,
        "outgoing": {
            "method": request.method,
            "url": _SECRET_QUERY.sub(rf"\1{REDACTED}", str(request.url)),
            "headers": shown,
            "body": explained.body,
        },
    }
