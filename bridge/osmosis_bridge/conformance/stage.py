"""The stage of one case: its token, its rollout id, its requests, and what they left behind."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from osmosis_bridge.conformance.case import Ask, Seen
from osmosis_bridge.conformance.client import Address, Wire
from osmosis_bridge.conformance.exact import Exact, at, parsed_or_none
from osmosis_bridge.conformance.ledger_view import LedgerView
from osmosis_bridge.conformance.reply import Reply
from osmosis_bridge.conformance.script import Script
from osmosis_bridge.conformance.upstream import Received, ScriptedUpstream


@dataclass(frozen=True, slots=True)
class Knobs:
    """Limits of the target that the suite was told; a case that needs one that is None is skipped.

    `idle_timeout` and `heartbeat` (silence after which a stream shows signs of life) in seconds, `max_body` in bytes,
    `slots` upstream connections.
    """

    idle_timeout: float | None = None
    heartbeat: float | None = None
    max_body: int | None = None
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The proxy that is held to the cases.

    `url` ends before `/v1`; `path` holds `{rollout}` where the proxy wants a rollout id in it; `model` is the name that
    the client sends, `upstream_model` the one that the proxy is configured to ask its provider for (None: the suite
    learns it). `ours`: whether it has this bridge's surface. `patience` multiplies the one-second limit for
    noticing a client that left, for machines under load.
    """

    url: str
    bearer: str | None = None
    path: str = "/v1/chat/completions"
    model: str = "osmosis-rollout"
    ours: bool = False
    ledger: LedgerView | None = None
    secrets: tuple[str, ...] = ()
    knobs: Knobs = field(default_factory=Knobs)
    patience: float = 1.0
    upstream_model: str | None = None


class Stage:
    """What a case's coroutine works with."""

    def __init__(self, case_id: str, target: Target, upstream: ScriptedUpstream) -> None:
        nonce = secrets.token_hex(4)
        self.token = f"{case_id}.{nonce}"
        self.rollout = f"conf-{case_id}-{nonce}"
        self.target = target
        self.upstream = upstream
        self.address = Address.parse(target.url)
        self._nonce = nonce
        self._case_id = case_id
        self._tokens = [self.token]

    def play(self, script: Script, name: str = "") -> str:
        """Register a script under the case's token, or under a second one; returns the token."""
        token = f"{self._case_id}~{name}.{self._nonce}" if name else self.token
        self.upstream.play(token, script)
        self._tokens.append(token)
        return token

    def forget(self) -> None:
        """Drop what the upstream keeps for the case."""
        for token in self._tokens:
            self.upstream.forget(token)

    def received(self, token: str | None = None) -> list[Received]:
        """What the upstream received for the case's token, or for another."""
        return self.upstream.received(token or self.token)

    def wire(self, token: str | None = None) -> Wire:
        """A new connection to the target; use it as a context manager."""
        return Wire(self.address, self.upstream.progress(token or self.token))

    def request(self, ask: Ask, token: str | None = None, rollout: str | None = None) -> bytes:
        """The bytes of a request."""
        return self._head(ask, ask.body(token or self.token, self.target.model), rollout or self.rollout)

    def _head(self, ask: Ask, body: bytes, rollout: str) -> bytes:
        path = (ask.path or self.target.path).replace("{rollout}", rollout)
        lines = [f"{ask.method} {self.address.prefix}{path} HTTP/1.1"]
        given = {name.lower() for name, _ in ask.headers}
        auth = ask.auth if ask.auth is not None else self.authorization()
        defaults = {
            "Host": self.address.authority,
            "Content-Type": "application/json",
            "Authorization": auth,
            "X-Osmosis-Rollout-Id": rollout,
        }
        lines += [
            f"{name}: {value}" for name, value in defaults.items() if value and name.lower() not in given
        ]
        lines += [f"{name}: {value}" for name, value in ask.headers]
        if ask.transfer == "chunked":
            lines.append("Transfer-Encoding: chunked")
            middle = len(body) // 2
            pieces = (body[:middle], body[middle:])
            body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"
        elif "content-length" not in given and (body or ask.method == "POST"):
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def authorization(self) -> str:
        """The Authorization header that opens the target, empty where it needs none."""
        return f"Bearer {self.target.bearer}" if self.target.bearer else ""

    async def ask(
        self, ask: Ask, token: str | None = None, *, rollout: str | None = None, deadline: float = 15.0
    ) -> Reply:
        """One request on a connection of its own."""
        async with self.wire(token) as wire:
            await wire.send(self.request(ask, token, rollout))
            return await wire.reply(deadline, bodiless=ask.method == "HEAD")

    async def exchange(self, ask: Ask, token: str | None = None) -> Seen:
        """One request, and all that it left behind, the ledger's line included."""
        reply = await self.ask(ask, token)
        return await self.seen(ask, reply, token)

    async def seen(self, ask: Ask, reply: Reply, token: str | None = None) -> Seen:
        """What an exchange left behind, for checks."""
        calls = tuple(self.received(token))
        await self._ended(calls)
        ledger = self.target.ledger
        records: Sequence[Exact] = await ledger.of(self.rollout) if ledger else ()
        secret = tuple(call.secret() for call in calls if len(call.secret()) >= 8)
        return Seen(
            reply=reply,
            calls=calls,
            sent=ask.body(token or self.token, self.target.model),
            ours=self.target.ours,
            records=tuple(records),
            readable=ledger is not None,
            secrets=(*self.target.secrets, *secret),
            upstream_model=self.target.upstream_model or "",
        )

    async def _ended(self, calls: tuple[Received, ...]) -> None:
        """Let scripts that the reply has overtaken come to their end."""
        try:
            async with asyncio.timeout(6):
                for call in calls:
                    await call.played.wait()
        except TimeoutError:
            return

    async def arrived(self, count: int = 1, token: str | None = None, seconds: float = 10.0) -> bool:
        """Wait until the upstream has received this many requests."""
        until = time.monotonic() + seconds
        while len(self.received(token)) < count:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(0.005)
        return True

    async def get(self, path: str, *, method: str = "GET", auth: str | None = None) -> Reply:
        """A request without a body to another path; `{rollout}` is replaced."""
        async with self.wire() as wire:
            await wire.send(self._head(Ask(method=method, path=path, auth=auth), b"", self.rollout))
            return await wire.reply()

    async def totals(self, rollout: str | None = None) -> dict[str, Exact]:
        """The live totals of a rollout, by this bridge's own route."""
        reply = await self.get(f"/v1/rollouts/{rollout or self.rollout}/usage")
        value = parsed_or_none(reply.body)
        return value if isinstance(value, dict) else {"status": parsed_or_none(str(reply.status))}

    async def gone(self, call: Received, how_long: float = 6.0) -> float | None:
        """Seconds until the upstream saw its peer close, None when it never did."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(how_long):
                await call.peer_closed.wait()
        except TimeoutError:
            return None
        return time.monotonic() - started

    async def leave(self, ask: Ask, marker: bytes | None, how: Literal["fin", "rst"] = "fin") -> bool:
        """Send a request and go away: once the upstream has it, or once `marker` has been received."""
        async with self.wire() as wire:
            await wire.send(self.request(ask))
            came = await (wire.read_until(marker) if marker else self.arrived())
            wire.leave(how)
        return came


def record_of(seen: Seen) -> Exact:
    """The one record of an exchange, None where there is not exactly one."""
    return seen.records[0] if len(seen.records) == 1 else None


def record_value(seen: Seen, *path: str | int) -> Exact:
    """A value of the one record."""
    return at(record_of(seen), *path)
