"""The bridge as an application: paths, guards, limits and the shape of errors; no decision about a call.

A call is answered by `BridgeApp.answer`, which asks no more of a server than `Asked` and `Reply` say: the one of
`door/` comes in there, any other by way of ASGI. Every route that is not a call goes through Starlette (`routes.py`).
Knows no provider and no socket.
"""

from __future__ import annotations

import gzip
import itertools
import os
import time
import zlib
from functools import lru_cache
from typing import Protocol

import msgspec

from osmosis_bridge.asgi import App, AsgiCall, AsgiReply, Receive, Scope, Send
from osmosis_bridge.bearers import ROLLOUT_ID_RULE, RUN, Caller, identify, valid_rollout_id
from osmosis_bridge.call import Call
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.dry_run import DryRun, dry_run
from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.replay import MARK, retry_count
from osmosis_bridge.reply import Reply
from osmosis_bridge.serve import Bridge
from osmosis_bridge.unserved import dialect_near

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
        host = headers.get(b"host", b"")
        if _name(host) not in self._hosts:
            raise _forbidden("the Host header does not name this bridge; call it by its own address")
        origin = headers.get(b"origin")
        if origin is None:
            return
        scheme, _, site = origin.decode("latin-1").lower().partition("://")
        if scheme not in ("http", "https") or site != host.decode("latin-1").lower():
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
        if named is None or named == caller.rollout_id:
            return caller.rollout_id or DEFAULT_ROLLOUT
        if not valid_rollout_id(named):
            raise Refused(
                f"a rollout id is {ROLLOUT_ID_RULE}",
                code="invalid_rollout_id",
            )
        if caller.rollout_id is not None:
            raise _forbidden("this bearer belongs to another rollout")
        return named


class Asked(Protocol):
    """A call before its body is read; `rollout_id` is that of the path.

    `lines` are the headers as they came, names in lower case, `headers` the last of each name.
    """

    dialect: Dialect
    rollout_id: str | None
    lines: list[tuple[bytes, bytes]]
    headers: dict[bytes, bytes]

    async def body(self, limit: int) -> bytes:
        """The body as it came; beyond `limit` bytes the rest need not be there. Raises `Refused`."""
        ...


class BridgeApp:
    """The application; `rest` answers every route that is not a call."""

    def __init__(self, bridge: Bridge, gate: Gate, rest: App, max_body: int) -> None:
        self._bridge = bridge
        self._gate = gate
        self._rest = rest
        self._max_body = max_body
        self._ids = itertools.count(1)
        self._id_prefix = f"call-{os.urandom(6).hex()}-"

    async def answer(self, asked: Asked, reply: Reply) -> None:
        """Answer a call. Whoever awaits this cancels it when the client leaves, and the call ends at once."""
        bridge = self._bridge
        try:
            self._gate.check_origin(asked.headers)
            received, started_at = bridge.clock(), time.time()
            caller = self._gate.caller(asked.headers)
            rollout_id = self._gate.rollout(caller, asked.rollout_id, asked.headers)
            self._refuse_if_closed(rollout_id)
            body = await read_body(asked, self._max_body)
            if asked.headers.get(_DRY_RUN, b"0") not in (b"0", b""):
                what = DryRun(body, asked.dialect, asked.headers, shows_host=caller.kind == "run")
                report = msgspec.json.encode(await dry_run(bridge, what))
                await reply.whole(200, _JSON, bridge.redactor.scrub(report))
                return
            # Again: it may have been closed while the body came in.
            self._refuse_if_closed(rollout_id)
            call = Call(
                call_id=f"{self._id_prefix}{next(self._ids)}",
                rollout_id=rollout_id,
                seq=bridge.accounts.next_seq(rollout_id),
                started_at=started_at,
                received=received,
                dialect=asked.dialect.name,
                body=body,
                retry_count=retry_count(asked.headers.get(MARK)),
                headers=bridge.client_headers(asked.dialect, asked.headers, asked.lines),
            )
            await bridge.serve(call, reply)
        except BridgeError as error:
            await self._fail(reply, error, asked.dialect)
        except Exception as error:  # noqa: BLE001 - whatever it is: the log has it, and the client an answer
            await self._fault(reply, error, asked.dialect, asked.dialect.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request that comes by way of ASGI."""
        if scope["type"] != "http":
            return
        dialect, in_path = call_path(scope["path"])
        reply = AsgiReply(send, in_pieces=scope.get("http_version") != "1.0")
        if dialect is not None and scope["method"] == "POST":
            async with AsgiCall(scope, receive, dialect, in_path, reply) as asked:
                await self.answer(asked, reply)
            return
        shape = dialect or dialect_near(scope["path"])
        try:
            self._gate.check_origin(dict(scope["headers"]))
            await self._rest(scope, receive, reply.pass_on)
        except BridgeError as error:
            await self._fail(reply, error, shape)
        except Exception as error:  # noqa: BLE001 - whatever it is: the log has it, and the client an answer
            await self._fault(reply, error, shape, scope["path"])

    async def _fault(self, reply: Reply, error: Exception, dialect: Dialect | None, path: str) -> None:
        """A fault of ours: told without its details, which are in the log."""
        self._bridge.log.error("fault", path=path, error=repr(error), exc_info=error)
        told = BridgeError("the bridge failed on this request; its log says why", code="internal_error")
        await self._fail(reply, told, dialect)

    async def _fail(self, reply: Reply, error: BridgeError, dialect: Dialect | None) -> None:
        """Send an error as a reply of its own, if nothing was sent yet; it may hold names that the client wrote."""
        if reply.started:
            return
        head = (*_JSON, (b"x-osmosis-error-origin", error.origin.encode()), *error.headers)
        body = error.body() if dialect is None else dialect.error_body(error)
        await reply.whole(error.status, head, self._bridge.redactor.scrub(body))

    def _refuse_if_closed(self, rollout_id: str) -> None:
        if self._bridge.accounts.is_closed(rollout_id):
            raise Refused(
                f"rollout {rollout_id!r} is closed and takes no more calls", status=409, code="rollout_closed"
            )


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


async def read_body(asked: Asked, limit: int) -> bytes:
    """The request body, decompressed; raises `Refused` 413 beyond `limit` bytes, 415 for an unknown encoding."""
    headers = asked.headers
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    body = await asked.body(limit)
    if len(body) > limit:
        raise _too_large(limit)
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


@lru_cache(maxsize=64)
def _name(header: bytes) -> str:
    """The name in a Host header, without its port, in lower case."""
    host = header.decode("latin-1").lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def local_hosts(extra: tuple[str, ...]) -> frozenset[str]:
    """The names under which a bridge on loopback may be called."""
    return _LOCAL_NAMES | {name.lower() for name in extra}
