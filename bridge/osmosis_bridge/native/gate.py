"""The gate at the transport: what LiteLLM would send is held, completed and checked, and only then sent.

Every HTTP request of this process goes through `install`'s one change of httpx, made at class level, because LiteLLM
makes its clients itself, in a dozen places, and hands none of them out. The gate of a call is found by context, which
LiteLLM's own threads inherit. A request made without a gate, such as a download LiteLLM does at import, is not sent.

Rules for whoever edits this file: a call sends one request, never a second one in its place; what a gate holds back
was not sent; a reply that is not a success never reaches LiteLLM, which would rewrite its status and words.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal, cast

import httpx
import msgspec

from osmosis_bridge.errors import BridgeError
from osmosis_bridge.native.arrival import check_sent, turns_row
from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.outgoing import FieldRow, not_a_call, settle
from osmosis_bridge.native.plan import Plan, Unsupported
from osmosis_bridge.native.restate import CohereLines
from osmosis_bridge.native.rule import Family
from osmosis_bridge.native.witness import Witness, with_empty_usage

Mode = Literal["explain", "learn", "relay", "translate"]
_HELPFUL: Final = re.compile(r"/(?:api/show|.*token.*|.*oauth.*)$")
"""Requests that LiteLLM may make beside a call: what Ollama knows of a model, and tokens to authorise with."""
_SIGNED: Final = "aws4-hmac-sha256"
TIMEOUTS: Final = {"connect": 10.0, "read": None, "write": None, "pool": None}
"""How long a reply may take is the bridge's to say: it leaves when it has waited enough."""


class Withheld(Exception):
    """Raised through LiteLLM in place of a reply: the gate holds what happened."""


class Pattern(msgspec.Struct, frozen=True):
    """How calls of one kind are sent: where to, with which headers, and what LiteLLM puts into the body by itself."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: dict[str, Json]
    send: Callable[[httpx.Request], Awaitable[httpx.Response]]


class Explained(msgspec.Struct, frozen=True):
    """What would be sent, and what became of each field."""

    rows: tuple[FieldRow, ...]
    request: httpx.Request
    body: Json


class Gate:
    """The gate of one call.

    In `learn` a call is made up to the gate, for how it would be sent; in `explain` not even what helps it is.

    After the call `rows` say what became of its fields and `outgoing` is the request as sent; `failure` is our refusal
    or a fault of the transport; `reply` is the provider's, where LiteLLM was not given it: always in `relay`, and in
    `translate` where it is not a success.
    """

    def __init__(
        self, mode: Mode, plan: Plan, family: Family, messages: list[dict[str, Json]], *, stream: bool = False
    ) -> None:
        self.mode: Final = mode
        self._stream = stream
        self._plan = plan
        self.family: Final = family
        self.messages: Final = messages
        self._calls = re.compile(family.calls + "$") if family.calls else None
        self.rows: list[FieldRow] = []
        self.outgoing: httpx.Request | None = None
        self.outgoing_body: Json = None
        self.failure: BridgeError | httpx.TransportError | None = None
        self.reply: httpx.Response | None = None
        self.head: httpx.Response | None = None
        self.sender: Callable[[httpx.Request], Awaitable[httpx.Response]] | None = None
        self._made: dict[str, Json] = {}
        self.witness = Witness(family.dialect)

    def is_call(self, request: httpx.Request) -> bool:
        """Whether a request is the call itself, not one that helps it."""
        path = request.url.path
        return bool(self._calls.search(path)) if self._calls is not None else not _HELPFUL.search(path)

    def check(self, request: httpx.Request) -> httpx.Request:
        """The request to send; raises `Withheld` after noting why not."""
        if self.failure is not None:
            raise Withheld
        try:
            if self.is_call(request):
                return self._checked(request, _body_of(request))
        except BridgeError as refusal:
            self.failure = refusal
            raise Withheld from None
        if not _HELPFUL.search(request.url.path):
            self.failure = self.foreign(request)
        if self.failure is not None or self.mode == "explain":
            raise Withheld
        return request

    async def send_like(self, pattern: Pattern) -> None:
        """Send the call as an earlier one was sent, without LiteLLM; afterwards `reply` or `failure` is there."""
        request = httpx.Request(pattern.method, pattern.url, headers=pattern.headers)
        try:
            checked = self._checked(request, copy.deepcopy(pattern.body))
            await self.take(checked, await pattern.send(checked))
        except BridgeError as refusal:
            self.failure = refusal
        except httpx.TransportError as error:
            self.failure = error
        except Withheld:
            return

    def pattern(self) -> Pattern | None:
        """How this call was sent, or would be, for those that are sent alike; None where it was not taken well."""
        request = self.outgoing
        if self.sender is None or request is None:
            return None
        if self.mode == "relay" and (self.reply is None or not self.reply.is_success):
            return None
        headers = [(name, value) for name, value in request.headers.multi_items() if name != "content-length"]
        return Pattern(request.method, str(request.url), headers, self._made, self.sender)

    def _checked(self, request: httpx.Request, body: dict[str, Json]) -> httpx.Request:
        if self.outgoing is not None:
            raise not_a_call(request.url.path)
        if self.mode != "translate":
            # A copy, for what the client's fields are merged into must not reach the calls that are sent alike.
            self._made = copy.deepcopy({name: value for name, value in body.items() if name != "messages"})
        signed = request.headers.get("authorization", "").lower().startswith(_SIGNED)
        rows = self.settled(body, signed=signed)
        request.headers["accept-encoding"] = "identity"
        request.extensions["timeout"] = dict(TIMEOUTS)
        sent = request if signed else _with_body(request, body)
        self.rows, self.outgoing, self.outgoing_body = rows, sent, body
        if self.mode in ("explain", "learn"):
            raise Withheld
        return sent

    def settled(self, body: dict[str, Json], *, signed: bool) -> list[FieldRow]:
        """Complete the body and look through it; raises `Unsupported` with all that does not stand in it."""
        refused: dict[str, str] = {}
        rows: list[FieldRow] = []
        try:
            rows = settle(body, self._plan, self.family, signed=signed)
        except Unsupported as refusal:
            refused |= refusal.fields
        if self.family.relayed:
            body["messages"] = self.messages
        try:
            check_sent(self.messages, body, self.family)
        except Unsupported as refusal:
            refused |= refusal.fields
        if refused:
            raise Unsupported(refused, self.family)
        return [*rows, turns_row(self.messages, body, self.family)]

    def foreign(self, request: httpx.Request) -> BridgeError:
        """Why a request is not sent that is no call and does not help one."""
        return not_a_call(request.url.path)

    def failed(self, error: httpx.TransportError) -> Withheld:
        """Note a fault on the way to the provider; LiteLLM would try again, or call it something else."""
        self.failure = error
        return Withheld("the provider could not be reached")

    async def take(self, request: httpx.Request, reply: httpx.Response) -> httpx.Response:
        """The reply as LiteLLM gets it; raises `Withheld` where it gets none."""
        if request is not self.outgoing:
            return reply
        self.head = reply
        if self.mode == "relay" or not reply.is_success:
            self.reply = reply
            raise Withheld
        again = CohereLines() if self._stream and self.witness.dialect == "cohere" else None
        reply.stream = _Overheard(cast("httpx.AsyncByteStream", reply.stream), self.witness, again)
        return reply if self._stream else await self._read(reply)

    async def _read(self, reply: httpx.Response) -> httpx.Response:
        """A whole reply, with a count of nothing where there is none: LiteLLM cannot read a reply without one."""
        try:
            body = await reply.aread()
        except httpx.TransportError as error:
            raise self.failed(error) from None
        if self.witness.usage:
            return reply
        content = with_empty_usage(body, self.witness.dialect)
        headers = [
            (name, value)
            for name, value in reply.headers.multi_items()
            if name not in ("content-length", "transfer-encoding")
        ]
        return httpx.Response(
            reply.status_code, headers=headers, content=content, extensions=reply.extensions
        )


class _Overheard(httpx.AsyncByteStream):
    """A reply's body that a witness reads along."""

    def __init__(self, stream: httpx.AsyncByteStream, witness: Witness, again: CohereLines | None) -> None:
        self._stream = stream
        self._witness = witness
        self._again = again

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                self._witness.feed(piece)
                yield piece if self._again is None else self._again.feed(piece)
        except httpx.TransportError:
            self._witness.cut = True
            raise
        self._witness.end()
        if self._again is not None:
            yield self._again.end()

    async def aclose(self) -> None:
        await self._stream.aclose()


GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)
"""The gate of the call that is being made."""

_UNLIMITED: Final = httpx.Limits(max_connections=None, max_keepalive_connections=None)
"""How many calls there are at a time is the bridge's to say: a client's own limit, 100, would hold the rest back."""

_Send = Callable[[httpx.AsyncHTTPTransport, httpx.Request], Awaitable[httpx.Response]]
_SendBlocking = Callable[[httpx.HTTPTransport, httpx.Request], httpx.Response]


def install() -> Callable[[], None]:
    """Put the gate into httpx, for this process; gives back what takes it out again."""
    if getattr(httpx.AsyncHTTPTransport.handle_async_request, "gated", False):
        return lambda: None
    plain: _Send = httpx.AsyncHTTPTransport.handle_async_request
    blocking: _SendBlocking = httpx.HTTPTransport.handle_request
    limited = httpx.AsyncHTTPTransport.__init__

    @functools.wraps(limited)
    def without_limits(self: httpx.AsyncHTTPTransport, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - httpx's own
        bound = inspect.signature(limited).bind(self, *args, **kwargs)
        bound.arguments["limits"] = _UNLIMITED
        limited(*bound.args, **bound.kwargs)

    async def handle_async_request(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        gate = _gate_for(request)
        await request.aread()
        gate.sender = functools.partial(plain, self)
        checked = gate.check(request)
        try:
            reply = await plain(self, checked)
        except httpx.TransportError as error:
            raise gate.failed(error) from None
        return await gate.take(checked, reply)

    def handle_request(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        gate = _gate_for(request)
        request.read()
        if gate.is_call(request):
            gate.failure = BridgeError(
                "LiteLLM reaches this provider by blocking requests only, which is not done",
                code="unsupported_provider",
            )
            raise Withheld
        return blocking(self, gate.check(request))

    vars(handle_async_request)["gated"] = True
    httpx.AsyncHTTPTransport.handle_async_request = handle_async_request
    httpx.HTTPTransport.handle_request = handle_request
    httpx.AsyncHTTPTransport.__init__ = without_limits

    def remove() -> None:
        httpx.AsyncHTTPTransport.__init__ = limited
        httpx.AsyncHTTPTransport.handle_async_request = plain
        httpx.HTTPTransport.handle_request = blocking

    return remove


def _gate_for(request: httpx.Request) -> Gate:
    gate = GATE.get()
    if gate is None:
        raise Withheld(f"no call asked for this request ({request.url.host})")
    return gate


def _body_of(request: httpx.Request) -> dict[str, Json]:
    try:
        body = json.loads(request.content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise BridgeError(
            "LiteLLM made a request that is no JSON object; it cannot be checked", code="unsupported_provider"
        )
    return cast("dict[str, Json]", body)


def _with_body(request: httpx.Request, body: Mapping[str, Json]) -> httpx.Request:
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    headers = [(name, value) for name, value in request.headers.multi_items() if name != "content-length"]
    return httpx.Request(
        request.method, request.url, headers=headers, content=content, extensions=request.extensions
    )
