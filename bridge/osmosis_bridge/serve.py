"""One call, from top to bottom.

Three promises, whatever happens on the way:

1. a call that came in is recorded exactly once, and its record is kept before the bytes that end it are sent;
2. whoever leaves early leaves nothing open behind: the upstream exchange is closed when `serve` returns, by any path;
3. what did not end well never looks like success.

All three hold because `serve` is a coroutine that its caller awaits: once it runs, its `finally` runs. Knows no HTTP
server: it is given a `Call` and a `Reply`, and it awaits a `Transport`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from osmosis_bridge.accounts import Accounts
from osmosis_bridge.call import Admitted, Call, Outcome
from osmosis_bridge.client_headers import passing
from osmosis_bridge.controls import header_list
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.entry import Entry, Headers, Recorder
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.exchanges import (
    ANSWERED,
    TRUNCATIONS,
    as_refusal,
    content_type,
    drain,
    error_body,
    request_id,
    transport_failure,
)
from osmosis_bridge.heartbeat import Heartbeat
from osmosis_bridge.ledger import Ledger
from osmosis_bridge.policy import Policy, admit
from osmosis_bridge.provider_errors import read_failure
from osmosis_bridge.redact import Redactor
from osmosis_bridge.relay import Relay
from osmosis_bridge.replay import Attempt, Attempts
from osmosis_bridge.reply import Reply
from osmosis_bridge.sse import comment
from osmosis_bridge.upstream import Endpoint, Exchange, Transport, TransportError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_SSE: Headers = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"))
_JSON: Headers = ((b"content-type", b"application/json"),)
_REPLY_LIMIT = 512 * 1024 * 1024
_RELAYED = frozenset(
    (b"retry-after", b"retry-after-ms", b"x-should-retry", b"x-request-id", b"request-id", b"openai-processing-ms",
     b"openai-version", b"x-generation-id", b"cf-ray")
)  # fmt: skip
_RELAYED_PREFIXES = (b"x-ratelimit-", b"anthropic-ratelimit-")


class Target(msgspec.Struct, frozen=True):
    """Where calls are sent: the endpoint, and the headers that go with each, by whether a stream is asked for."""

    provider: str
    model: str
    endpoint: Endpoint
    plain_headers: Headers
    stream_headers: Headers
    key: str | None = None
    lane: Literal["wire", "native"] = "wire"

    def headers(self, *, stream: bool) -> Headers:
        """The headers of a request for a stream or for a plain reply."""
        return self.stream_headers if stream else self.plain_headers


@dataclass(slots=True, kw_only=True)
class Bridge:
    """Serves calls of one target; `clock` is monotonic, in seconds.

    `keepalive_s` is the silence on a stream after which a comment is sent, `plain_keepalive_s` that on a plain reply
    after which white space is; 0 turns either off.
    """

    target: Target
    transport: Transport
    policy: Policy
    ledger: Ledger
    accounts: Accounts
    redactor: Redactor
    log: FilteringBoundLogger
    keepalive_s: float = 15.0
    plain_keepalive_s: float = 0.0
    clock: Callable[[], float] = time.monotonic
    in_flight: int = 0
    attempts: Attempts = field(init=False)
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        self.attempts = Attempts(self.clock)
        self.recorder = Recorder(
            provider=self.target.provider,
            model=self.target.model,
            lane=self.target.lane,
            endpoint=self.target.endpoint.shown_origin if self.target.lane == "wire" else None,
            ledger=self.ledger,
            accounts=self.accounts,
            redactor=self.redactor,
            log=self.log,
            clock=self.clock,
        )

    async def serve(self, call: Call, reply: Reply) -> None:
        """Answer one call; raises only what is not the call's doing (cancellation, a fault of ours)."""
        entry = Entry(self.recorder, call, DIALECTS[call.dialect])
        self.in_flight += 1
        try:
            await self._serve(entry, reply)
        except BridgeError as error:
            await self._send_failure(entry, entry.settle_failure(error), reply)
        except asyncio.CancelledError:
            entry.settle_cancelled()
            raise
        finally:
            self.in_flight -= 1
            entry.settle_lost()

    def passed_headers(self, dialect: Dialect) -> frozenset[bytes]:
        """Names of the client's headers that go out, or to the process that asks the provider for us."""
        return dialect.passed if self.target.lane == "wire" else dialect.passed_natively

    def client_headers(
        self, dialect: Dialect, headers: Mapping[bytes, bytes], lines: Iterable[tuple[bytes, bytes]]
    ) -> Headers:
        """What goes out beside the usual: those of the client's headers that pass, and the dialect's own.

        Raises `Refused` for a value that cannot be forwarded.
        """
        own = dialect.headers(self.target.key, headers)
        return passing(headers, lines, self.passed_headers(dialect)) + own

    async def _serve(self, entry: Entry, reply: Reply) -> None:
        """Admit the call; give it the reply of the attempt it repeats, if there is one, else ask the provider."""
        call = entry.call
        if self.ledger.trouble is not None:
            raise self.ledger.trouble.refusal()
        entry.admitted = admit(call.body, self.policy, entry.dialect.envelope)
        if call.retry_count is None:
            await self._ask(entry, entry.admitted, reply)
            return
        if call.retry_count > 0:
            earlier = self.attempts.claim(call.rollout_id, call.body)
            if earlier is not None and await earlier.wait():
                await self._again(entry, entry.admitted, earlier, reply)
                return
        entry.attempt = self.attempts.begin(call.rollout_id, call.body, call.call_id)
        ok = False
        try:
            await self._ask(entry, entry.admitted, reply)
            ok = entry.ended_well
        finally:
            self.attempts.end(entry.attempt, ok=ok)

    async def _again(self, entry: Entry, admitted: Admitted, earlier: Attempt, reply: Reply) -> None:
        """The reply of an earlier attempt, whose own record holds its usage."""
        entry.settle(Outcome(status="ok", http_status=200, replay_of=earlier.call_id))
        body = b"".join(earlier.pieces)
        await reply.whole(200, self._reply_headers(entry, _SSE if admitted.stream else _JSON), body)

    async def _ask(self, entry: Entry, admitted: Admitted, reply: Reply) -> None:
        beat = Heartbeat(
            self.keepalive_s if admitted.stream else self.plain_keepalive_s, self._beat(entry, reply)
        )
        exchange: Exchange | None = None
        try:
            exchange = await self._open(entry, admitted)
            if admitted.stream:
                await self._relay(entry, admitted, exchange, reply, beat)
            else:
                await self._whole(entry, admitted, exchange, reply, beat)
        finally:
            # The close is first, since the wait may itself be cancelled.
            if exchange is not None:
                exchange.close()
            await beat.stop()

    async def _open(self, entry: Entry, admitted: Admitted) -> Exchange:
        """Send the call; the provider's reply, its head read. Raises `UpstreamFailed` for any but a success."""
        target = self.target
        entry.ask(stream=admitted.stream)
        try:
            exchange = await self.transport.open(
                b"POST",
                target.endpoint,
                entry.dialect.path_bytes,
                self._request_headers(entry, admitted),
                admitted.body,
                entry.call.rollout_id,
            )
        except TransportError as error:
            raise transport_failure(error, self.redactor) from None
        try:
            entry.headers = self._relayed_headers(exchange.headers)
            entry.upstream_request_id = request_id(entry.headers)
            if not 200 <= exchange.status <= 299:
                body = await error_body(exchange)
                failure = read_failure(exchange.status, body, self.redactor, entry.headers)
                raise as_refusal(failure) if self._is_refusal(exchange) else failure
        except BaseException:
            exchange.close()
            raise
        return exchange

    async def _whole(
        self, entry: Entry, admitted: Admitted, exchange: Exchange, reply: Reply, beat: Heartbeat
    ) -> None:
        """Read a plain reply, record it, pass it on."""
        try:
            body = await exchange.whole(_REPLY_LIMIT)
        except TransportError as error:
            if error.reason == "cut":
                entry.status = "truncated"
            raise transport_failure(error, self.redactor) from None
        if content_type(exchange) == b"text/event-stream":
            raise UpstreamFailed(
                "the provider answered a plain request with a stream of events", code="invalid_upstream_reply"
            )
        passed_on, outcome = entry.dialect.read_reply(body, admitted, self.redactor)
        entry.settle(outcome)
        entry.keep(passed_on)
        await beat.stop()
        if reply.started:
            await reply.end(passed_on)
        else:
            await reply.whole(exchange.status, self._reply_headers(entry, _JSON), passed_on)

    async def _relay(
        self, entry: Entry, admitted: Admitted, exchange: Exchange, reply: Reply, beat: Heartbeat
    ) -> None:
        """Pass a stream on as it comes, all but its end; record it; send the end."""
        first = b""
        if content_type(exchange) != b"text/event-stream":
            first = await self._first_of_stream(entry, admitted, exchange)
        stream = entry.dialect.open_stream(admitted, self.redactor)
        entry.reading = stream.reading
        relay = Relay(entry, stream, reply, beat.touch, self.clock)
        if first:
            relay.take(first)
        while True:
            if stream.started and not reply.started:
                await reply.start(200, self._reply_headers(entry, _SSE))
            if relay.held:
                await reply.send(relay.held)
                relay.held = b""
            if stream.ended:
                break
            try:
                if not await exchange.pour(relay.take):
                    relay.pass_on(stream.finish())
            except TransportError as error:
                stream.fail(transport_failure(error, self.redactor), "truncated")
        await beat.stop()
        await self._end(entry, stream, reply)
        await drain(exchange)

    async def _end(self, entry: Entry, stream: Stream, reply: Reply) -> None:
        failure = stream.failure
        if self.target.lane == "native" and failure is not None and failure.code in TRUNCATIONS:
            # The translator saw the provider break off, and says so in its own words.
            stream.status = "truncated"
        if failure is not None and not reply.started:
            entry.status = stream.status
            raise failure
        code = None if failure is None else str(failure.code or failure.type)
        entry.settle(stream.reading.outcome(stream.status, 200, code))
        entry.keep(stream.last)
        await reply.end(stream.last)

    async def _first_of_stream(self, entry: Entry, admitted: Admitted, exchange: Exchange) -> bytes:
        """The first piece of a body that is not named a stream and may be one all the same.

        No line of a stream begins with a brace, a bracket or a tag: then it is one body, an error if it says so, else a
        completion that was paid for and cannot be passed on as a stream; its usage is kept.
        """
        try:
            first = await exchange.chunk()
        except TransportError as error:
            raise transport_failure(error, self.redactor) from None
        if first.lstrip()[:1] not in (b"{", b"[", b"<"):
            return first
        _, entry.outcome_hint = entry.dialect.read_reply(
            first + await error_body(exchange), admitted, self.redactor
        )
        raise UpstreamFailed(
            "the provider answered a request for a stream with one JSON body; ask for a plain reply instead",
            code="invalid_upstream_stream",
        )

    def _is_refusal(self, exchange: Exchange) -> bool:
        """Whether the native lane's own process refused the call; no provider was asked then."""
        return self.target.lane == "native" and exchange.header(b"x-osmosis-error-origin") == b"bridge"

    def _request_headers(self, entry: Entry, admitted: Admitted) -> Headers:
        target, dialect = self.target, entry.dialect
        sent = (
            dialect.outgoing(target.headers(stream=admitted.stream), target.endpoint.host)
            + entry.call.headers
        )
        if target.lane == "native":
            # Our own translator keeps reasoning by rollout; no provider ever sees this.
            return (*sent, (b"x-osmosis-rollout-id", entry.call.rollout_id.encode()))
        return sent

    def _reply_headers(self, entry: Entry, kind: Headers) -> Headers:
        """The head of a reply: its type, what the provider said, and what was stripped."""
        admitted = entry.admitted
        own: Headers = ((b"x-osmosis-call-id", entry.call.call_id.encode()),)
        if admitted is not None and admitted.stripped:
            own = (*own, (b"x-osmosis-stripped", self.redactor.scrub(header_list(admitted.stripped))))
        return kind + entry.headers + own

    def _beat(self, entry: Entry, reply: Reply) -> Callable[[], Awaitable[None]]:
        """A sign of life in the form that the reply's kind allows; the first one commits the reply to HTTP 200."""

        async def beat() -> None:
            stream = entry.admitted is not None and entry.admitted.stream
            if not reply.started:
                await reply.start(200, self._reply_headers(entry, _SSE if stream else _JSON))
            await reply.send(comment() if stream else b" ")

        return beat

    async def _send_failure(self, entry: Entry, error: BridgeError, reply: Reply) -> None:
        """The error as a reply of its own, or as the end of one that has begun; it may hold names the client wrote."""
        dialect, scrub = entry.dialect, self.redactor.scrub
        if reply.started:
            stream = entry.admitted is not None and entry.admitted.stream
            await reply.end(scrub(dialect.error_event(error) if stream else dialect.error_body(error)))
            return
        further = tuple(header for header in error.headers if header not in entry.headers)
        origin = (b"x-osmosis-error-origin", error.origin.encode())
        # An answer that came whole was paid for: a client that asks again by itself would pay again.
        final = ((b"x-should-retry", b"false"),) if entry.asked and error.code in ANSWERED else ()
        headers = (*self._reply_headers(entry, _JSON), *further, *final, origin)
        await reply.whole(error.status, entry.for_error(headers), scrub(dialect.error_body(error)))

    def _relayed_headers(self, headers: Sequence[tuple[bytes, bytes]]) -> Headers:
        scrub = self.redactor.scrub
        return tuple(
            [
                (name, scrub(value))
                for name, value in headers
                if name in _RELAYED or name.startswith(_RELAYED_PREFIXES)
            ]
        )
