"""The bridge as an ASGI application: paths, guards, limits and the shape of errors; no decision about a call.

A call takes the short way, on bare ASGI; every other route goes through Starlette (`routes.py`). Knows no provider.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import os
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import msgspec

from osmosis_bridge.bearers import ROLLOUT_ID_RULE, RUN, Caller, identify, valid_rollout_id
from osmosis_bridge.call import Call
from osmosis_bridge.departure import DEPARTURE, Departure, watched
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.dry_run import DryRun, dry_run
from osmosis_bridge.entry import Headers
from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.replay import MARK, retry_count
from osmosis_bridge.serve import Bridge
from osmosis_bridge.unserved import dialect_near

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

DEFAULT_ROLLOUT = "default"
_PREFIX = "/v1"
_ROLLOUT_PREFIX = "/v1/rollouts/"
_BY_PATH = {path: dialect for dialect in DIALECTS.values() for path in dialect.served_at}
_BY_CALL_PATH = {_PREFIX + path: dialect for path, dialect in _BY_PATH.items()}
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_DRY_RUN = b"x-osmosis-dry-run"
_JSON = ((b"content-type", b"application/json"),)


class Gate:
    """Who may come in: bearers, and on loopback the Host and Origin a browser cannot forge.

    `token` is the run's bearer, None where none is needed. `hosts` are the names a `Host` header may carry, None for
    any.
    """

    def __init__(self, token: str | None, hosts: frozenset[str] | None) -> None:
        self._token = token
        self._hosts = hosts

    def check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuse requests that a web page of another origin caused (cross-site calls, DNS rebinding)."""
        if self._hosts is None:
            return
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if _name(host) not in self._hosts:
            raise _forbidden("the Host header does not name this bridge; call it by its own address")
        origin = headers.get(b"origin")
        if origin is None:
            return
        scheme, _, site = origin.decode("latin-1").lower().partition("://")
        if scheme not in ("http", "https") or site != host:
            raise _forbidden("calls from pages of another origin are not served")

    def caller(self, headers: dict[bytes, bytes]) -> Caller:
        """Who calls; raises `Refused` 401."""
        if self._token is None:
            return RUN
        # Anthropic's clients send theirs as `x-api-key`, some beside another in `authorization`.
        caller = identify(headers.get(b"authorization"), self._token) or identify(
            _as_bearer(headers.get(b"x-api-key")), self._token
        )
        if caller is None:
            raise Refused(
                "no valid bearer: send the run's or the rollout's as `Authorization: Bearer ...`"
                " (an OpenAI client's api_key)",
                status=401,
                type="authentication_error",
                code="invalid_bearer",
                headers=((b"www-authenticate", b"Bearer"),),
            )
        return caller

    def rollout(self, caller: Caller, in_path: str | None, headers: dict[bytes, bytes]) -> str:
        """Which rollout a call is of: by its path, its bearer, `X-Osmosis-Rollout-Id`, else `default`."""
        raw = headers.get(b"x-osmosis-rollout-id")
        named = in_path if in_path is not None else (None if raw is None else raw.decode("latin-1"))
        if named is not None and not valid_rollout_id(named):
            raise Refused(
                f"a rollout id is {ROLLOUT_ID_RULE}",
                code="invalid_rollout_id",
            )
        if caller.rollout_id is None:
            return named or DEFAULT_ROLLOUT
        if named is not None and named != caller.rollout_id:
            raise _forbidden("this bearer belongs to another rollout")
        return caller.rollout_id


@dataclass(slots=True)
class _Request:
    """A call before its body is read."""

    scope: Scope
    headers: dict[bytes, bytes]
    dialect: Dialect
    rollout_id: str | None
    receive: Receive


class BridgeApp:
    """The ASGI application; `rest` answers every route that is not a call."""

    def __init__(self, bridge: Bridge, gate: Gate, rest: App, max_body: int) -> None:
        self._bridge = bridge
        self._gate = gate
        self._rest = rest
        self._max_body = max_body
        self._ids = itertools.count(1)
        self._id_prefix = f"call-{os.urandom(6).hex()}-"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        dialect, in_path = call_path(scope["path"])
        shape = dialect or dialect_near(scope["path"])
        reply = AsgiReply(send, shape, in_pieces=scope.get("http_version") != "1.0")
        scrub = self._bridge.redactor.scrub
        try:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            self._gate.check_origin(headers)
            if dialect is not None and scope["method"] == "POST":
                await self._call(_Request(scope, headers, dialect, in_path, receive), reply)
            else:
                await self._rest(scope, receive, reply.pass_on)
        except BridgeError as error:
            await reply.fail(error, scrub)
        except Exception as error:
            # A fault of ours: told without its details, which are in the log.
            self._bridge.log.error("fault", path=scope["path"], error=repr(error), exc_info=error)
            await reply.fail(
                BridgeError("the bridge failed on this request; its log says why", code="internal_error"),
                scrub,
            )

    async def _call(self, request: _Request, reply: AsgiReply) -> None:
        headers, dialect = request.headers, request.dialect
        received = self._bridge.clock()
        started_at = time.time()
        caller = self._gate.caller(headers)
        rollout_id = self._gate.rollout(caller, request.rollout_id, headers)
        accounts = self._bridge.accounts
        self._refuse_if_closed(rollout_id)
        body = await read_body(headers, request.receive, self._max_body)
        if headers.get(_DRY_RUN, b"0") not in (b"0", b""):
            asked = DryRun(body, dialect, headers, shows_host=caller.kind == "run")
            report = msgspec.json.encode(await dry_run(self._bridge, asked))
            await reply.whole(200, _JSON, self._bridge.redactor.scrub(report))
            return
        # Again: it may have been closed while the body came in.
        self._refuse_if_closed(rollout_id)
        call = Call(
            call_id=f"{self._id_prefix}{next(self._ids)}",
            rollout_id=rollout_id,
            seq=accounts.next_seq(rollout_id),
            started_at=started_at,
            received=received,
            dialect=dialect.name,
            body=body,
            retry_count=retry_count(headers.get(MARK)),
            headers=self._bridge.client_headers(dialect, headers, request.scope["headers"]),
        )
        known = request.scope.get(DEPARTURE)
        if known is not None:
            await serve_while_present(self._bridge, call, reply, known)
            return
        async with watched(request.receive) as departure:
            await serve_while_present(self._bridge, call, reply, departure)

    def _refuse_if_closed(self, rollout_id: str) -> None:
        if self._bridge.accounts.is_closed(rollout_id):
            raise Refused(
                f"rollout {rollout_id!r} is closed and takes no more calls", status=409, code="rollout_closed"
            )


async def serve_while_present(bridge: Bridge, call: Call, reply: AsgiReply, departure: Departure) -> None:
    """Serve one call, and stop at once when its client leaves."""
    serving = asyncio.current_task()
    if serving is None:
        raise RuntimeError("a call is served within a task")
    left = False

    def leave() -> None:
        nonlocal left
        if not reply.finished:
            left = True
            serving.cancel("the client left")

    departure.tell(leave)
    try:
        await bridge.serve(call, reply)
    except asyncio.CancelledError:
        if not left or serving.uncancel() > 0:
            raise
    finally:
        departure.forget(leave)


class _Held:
    """A reply that waits for its end."""

    __slots__ = ("head", "pieces")

    def __init__(self) -> None:
        self.head: tuple[int, Headers] = (500, ())
        self.pieces: list[bytes] = []


class AsgiReply:
    """A reply on an ASGI `send`; errors have the shape of `dialect`.

    A client of HTTP/1.0 knows no chunks: without `in_pieces` a stream is collected and sent whole, with its length.
    """

    __slots__ = ("_dialect", "_held", "_send", "finished", "started")

    def __init__(self, send: Send, dialect: Dialect | None = None, *, in_pieces: bool = True) -> None:
        self._send = send
        self._dialect = dialect
        self._held: _Held | None = None if in_pieces else _Held()
        self.started = False
        self.finished = False

    async def pass_on(self, message: Message) -> None:
        """Send what another application says."""
        self.started = True
        await self._send(message)

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete reply."""
        self.started = True
        length = (b"content-length", str(len(body)).encode())
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        self.finished = True
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of a reply whose body follows in pieces."""
        self.started = True
        if self._held is not None:
            self._held.head = (status, headers)
            return
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def send(self, piece: bytes) -> None:
        """Send a piece of the body."""
        if self._held is not None:
            self._held.pieces.append(piece)
            return
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self, piece: bytes) -> None:
        """Send the last piece."""
        if self._held is not None:
            status, headers = self._held.head
            await self.whole(status, headers, b"".join((*self._held.pieces, piece)))
            return
        self.finished = True
        await self._send({"type": "http.response.body", "body": piece})

    async def fail(self, error: BridgeError, scrub: Callable[[bytes], bytes]) -> None:
        """Send an error as a reply of its own, if nothing was sent yet; it may hold names that the client wrote."""
        if self.started:
            return
        head = (*_JSON, (b"x-osmosis-error-origin", error.origin.encode()), *error.headers)
        body = error.body() if self._dialect is None else self._dialect.error_body(error)
        await self.whole(error.status, head, scrub(body))


def call_path(path: str) -> tuple[Dialect | None, str | None]:
    """The dialect of a call's path, None for any other path, and the rollout id in it."""
    dialect = _BY_CALL_PATH.get(path)
    if dialect is not None:
        return dialect, None
    if not path.startswith(_ROLLOUT_PREFIX):
        return None, None
    rest = path[len(_ROLLOUT_PREFIX) :]
    for suffix, dialect in _BY_PATH.items():
        if rest.endswith(suffix):
            return dialect, rest[: -len(suffix)]
    return None, None


async def read_body(headers: dict[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """The request body, decompressed; raises `Refused` 413 beyond `limit` bytes, 415 for an unknown encoding."""
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("the client left before its request was complete", status=400, code="client_left")
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
        if not message.get("more_body", False):
            break
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    return body if encoding in (b"identity", b"") else _decompressed(body, encoding, limit)


def _decompressed(body: bytes, encoding: bytes, limit: int) -> bytes:
    if encoding not in (b"gzip", b"x-gzip", b"deflate"):
        raise Refused(
            f"content-encoding {encoding.decode('latin-1')!r} is not read; send the body plain or as gzip",
            status=415,
            code="unsupported_encoding",
        )
    try:
        unpacker = zlib.decompressobj(wbits=47)
        plain = unpacker.decompress(body, limit + 1)
    except (zlib.error, gzip.BadGzipFile):
        raise Refused(
            "the request body is not what its content-encoding says", code="invalid_encoding"
        ) from None
    if len(plain) > limit:
        raise _too_large(limit)
    if not unpacker.eof:
        raise Refused("the compressed request body is cut short", code="invalid_encoding")
    return plain


def _as_bearer(key: bytes | None) -> bytes | None:
    return None if key is None else b"Bearer " + key


def _too_large(limit: int) -> Refused:
    return Refused(
        f"the request body is larger than {limit // (1024 * 1024)} MiB; --max-body-mb raises the limit",
        status=413,
        code="body_too_large",
        headers=((b"connection", b"close"),),
    )


def _forbidden(message: str) -> Refused:
    return Refused(message, status=403, type="permission_error", code="forbidden")


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def local_hosts(extra: tuple[str, ...]) -> frozenset[str]:
    """The names under which a bridge on loopback may be called."""
    return _LOCAL_NAMES | {name.lower() for name in extra}
