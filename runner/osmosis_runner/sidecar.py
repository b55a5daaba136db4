"""The bridge of one run, in a process of its own, and the few questions the run asks it.

The provider's credentials are in this process's environment and in no other's.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from osmosis_bridge.bearers import rollout_bearer
from osmosis_bridge.upstream import Endpoint, TransportError
from osmosis_runner.child import Child, Command, Heard, Nursery, until
from osmosis_runner.faults import LedgerUnavailable, SidecarError
from osmosis_runner.journal import KEPT
from osmosis_runner.totals import Totals
from osmosis_runner.web import Answer, Site, bearer, read_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from osmosis_bridge.upstream import Transport

START_WITHIN_S = 60.0
"""A local model is loaded meanwhile."""
STOP_GRACE_S = 5.0
CLOSE_WITHIN_S = 30.0
SPOKEN_WITHIN_S = 10.0


class Spoken(msgspec.Struct, frozen=True):
    """What a rollout said last, as the bridge saw it."""

    messages: msgspec.Raw
    """A list of chat messages, as JSON."""
    complete: bool = False
    """Whether its last call was answered and nothing was left out."""


class Ready(msgspec.Struct, frozen=True):
    """The ready file."""

    url: str
    pid: int
    model: str


@dataclass(frozen=True, slots=True)
class SidecarSpec:
    """How the bridge is started."""

    model_path: str
    ledger: Path
    ready_file: Path
    environ: Mapping[str, str] = field(repr=False)
    """The whole environment, provider keys included."""
    token: str = field(repr=False)
    """The run's bearer."""
    api_base: str | None = None
    api_key_env: str | None = None
    client_retries: bool = True
    """Whether clients may send a call again that failed."""
    calls: int | None = None
    """Calls to the provider at a time; None for as many as a bridge lets through by itself."""


Begin = Callable[[SidecarSpec], Awaitable[tuple[Child, str]]]
"""Starts a bridge; returns it and where it answers."""

_totals = msgspec.json.Decoder(Totals, strict=False)
_spoken = msgspec.json.Decoder(Spoken)


class Sidecar:
    """A bridge that answers."""

    def __init__(
        self, child: Child, url: str, spec: SidecarSpec, transport: Transport, begin: Begin | None = None
    ) -> None:
        self._begin = begin
        self.child = child
        self.url = url
        self.ledger = spec.ledger
        """Where the ledger is now: it may be renamed while the bridge writes it."""
        self._spec = spec
        self._transport = transport
        self._site = Site(transport, Endpoint.parse(url), bearer(spec.token))

    @classmethod
    async def start(cls, spec: SidecarSpec, transport: Transport, nursery: Nursery, heard: Heard) -> Sidecar:
        """Start a bridge and wait until it answers; raises `SidecarError`."""
        begin = partial(_started, nursery=nursery, heard=heard)
        child, url = await begin(spec)
        return cls(child, url, spec, transport, begin)

    async def restart(self) -> None:
        """Start another in the place of a dead one, which goes on with its ledger; raises `SidecarError`.

        It answers at another URL and knows nothing of the rollouts before.
        """
        if self._begin is None:
            raise SidecarError(self.child.describe_exit())
        spec = replace(self._spec, ledger=self.ledger)
        self.child, self.url = await self._begin(spec)
        self._site = Site(self._transport, Endpoint.parse(self.url), bearer(spec.token))

    def bearer_of(self, rollout_id: str) -> str:
        """The bearer that is good for this rollout only."""
        return rollout_bearer(self._spec.token, rollout_id)

    def base_url(self, rollout_id: str) -> str:
        """Where this rollout finds the model."""
        return f"{self.url}/v1/rollouts/{rollout_id}"

    async def complete(self, rollout_id: str, body: bytes, within_s: float) -> Answer:
        """One chat completion in the name of a rollout; raises `TransportError`."""
        path = f"/v1/rollouts/{rollout_id}/chat/completions"
        return await self._site.ask(b"POST", path, body, within_s=within_s)

    async def totals(self, rollout_id: str) -> Totals | None:
        """What a rollout has spent as the bridge knows it, on disk or not; None when the bridge does not tell."""
        path = f"/v1/rollouts/{rollout_id}/usage"
        try:
            answer = await self._site.ask(b"GET", path, within_s=SPOKEN_WITHIN_S)
            return _totals.decode(answer.body) if answer.status == 200 else None
        except (TransportError, msgspec.DecodeError, ValueError):
            return None

    async def close(self, rollout_id: str) -> Totals:
        """End a rollout: its totals, every record of it on disk, no later call. Once more does no harm.

        Raises `LedgerUnavailable` where its records cannot be put on disk, else `SidecarError`.
        """
        try:
            answer = await self._site.ask(
                b"POST", f"/v1/rollouts/{rollout_id}/close", within_s=CLOSE_WITHIN_S
            )
            if answer.status == 200:
                return _totals.decode(answer.body)
        except (TransportError, msgspec.DecodeError, ValueError) as error:
            raise SidecarError(self._trouble(str(error))) from None
        error = read_error(answer.body)
        if error.code == "ledger_unavailable":
            raise LedgerUnavailable(f"{error.message}; {KEPT}")
        raise SidecarError(
            self._trouble(f"closing a rollout answered {answer.status} {error.message}".rstrip())
        )

    async def spoken(self, rollout_id: str) -> Spoken | None:
        """What an open rollout said last; None when the bridge does not tell."""
        path = f"/v1/rollouts/{rollout_id}/transcript"
        try:
            answer = await self._site.ask(b"GET", path, within_s=SPOKEN_WITHIN_S)
            return _spoken.decode(answer.body) if answer.status == 200 else None
        except (TransportError, msgspec.DecodeError, ValueError):
            return None

    async def stop(self) -> None:
        """Let calls in progress end for a moment, then end the process."""
        await self.child.stop(STOP_GRACE_S)

    def _trouble(self, text: str) -> str:
        return self.child.describe_exit() if self.child.exited.is_set() else f"the bridge failed: {text}"


async def _started(spec: SidecarSpec, nursery: Nursery, heard: Heard) -> tuple[Child, str]:
    """A bridge that answers, and where."""
    environ = {**spec.environ, "OSMOSIS_BRIDGE_TOKEN": spec.token}
    command = Command(_arguments(spec), spec.ledger.parent, environ, "the bridge")
    try:
        spec.ready_file.unlink(missing_ok=True)
        child = nursery.start(command, heard)
    except OSError as error:
        message = f"the bridge could not be started: {error.strerror}"
        raise SidecarError(message) from None
    try:
        ready = await _ready(child, spec.ready_file)
    except BaseException:
        await child.kill()
        raise
    return child, ready.url


def _arguments(spec: SidecarSpec) -> list[str]:
    arguments = [sys.executable, "-m", "osmosis_bridge", "serve", "--model", spec.model_path]
    arguments += ["--host", "127.0.0.1", "--port", "0", "--log-format", "json"]
    arguments += ["--ready-file", str(spec.ready_file), "--ledger", str(spec.ledger), "--keep-transcripts"]
    if spec.calls is not None:
        arguments += ["--max-upstream-connections", str(spec.calls)]
    if not spec.client_retries:
        arguments.append("--no-client-retries")
    if spec.api_base is not None:
        arguments += ["--api-base", spec.api_base]
    if spec.api_key_env is not None:
        arguments += ["--api-key-env", spec.api_key_env]
    return arguments


async def _ready(child: Child, ready_file: Path) -> Ready:
    try:
        alive = await until(child, ready_file.exists, START_WITHIN_S)
    except TimeoutError:
        message = f"the bridge was not ready within {START_WITHIN_S:g} s"
        raise SidecarError(message) from None
    if not alive:
        await child.kill()
        last = child.last_lines[-1] if child.last_lines else child.describe_exit()
        message = f"the bridge did not start: {last.removeprefix('Error: ')}"
        raise SidecarError(message)
    return _read_ready(ready_file)


def _read_ready(ready_file: Path) -> Ready:
    return msgspec.json.decode(ready_file.read_bytes(), type=Ready)
