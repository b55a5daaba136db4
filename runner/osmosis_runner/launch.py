"""The rollout as a process: how it is started, what it may see of this machine, when it is ready.

Three kinds. A command of the user's own runs as it is; else a folder without `pyproject.toml` runs in the interpreter
that runs us, and one with it in that project's own environment through uv. None is ever imported here.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from osmosis_bridge.upstream import Endpoint
from osmosis_runner.absent_module import Setting, absent_module, where_and_remedy
from osmosis_runner.child import Child, Command, Heard, Nursery
from osmosis_runner.faults import LaunchError
from osmosis_runner.last_words import place_within, quoted, telling
from osmosis_runner.protocol import Health, RolloutClient, ServerLost
from osmosis_runner.uv_project import Project, run_command, run_environ
from osmosis_runner.web import Site, bearer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from osmosis_bridge.upstream import Transport

HEALTHY_WITHIN_S = 90.0
HEALTH_AFTER_S = (0.005, 0.1)
"""Between two questions whether it answers: a twentieth of the time waited so far, at least and at most this."""
STOP_GRACE_S = 5.0
PORT_TRIES = 3

ALLOWED_VARIABLES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "XDG_CACHE_HOME",
        "LD_LIBRARY_PATH", "PYTHONPATH", "NO_PROXY", "no_proxy",
    }
)  # fmt: skip
"""What a rollout's process may inherit. Everything else, provider keys above all, stays here."""
ALLOWED_PREFIXES = ("LC_",)
SYNC_ONLY_PREFIXES = (
    "UV_",
    "PYENV_",
    "ASDF_",
    "MISE_",
    "XDG_DATA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
)
"""What uv may see besides while it installs: settings, its own and those of version managers, and proxies. They may
hold credentials."""

QUIET_LIBRARIES = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""LiteLLM fetches a price list over the network while it is imported, and waits for it where there is none. A rollout's
model is the bridge, which has no price; `[env]` may say otherwise."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One rollout server to be started, as often as it takes."""

    folder: Path
    """The rollout's folder."""
    entrypoint: str
    artifact_root: Path
    environ: Mapping[str, str] = field(repr=False)
    """Our own environment, from which little is passed on."""
    extra: Mapping[str, str] = field(repr=False)
    """`[env]`, secrets and the run's mark."""
    python: str | None = None
    port: int | None = None
    command: tuple[str, ...] | None = None
    """The user's own way to start it, in its folder."""
    scrub: Callable[[str], str] = str
    """Takes secrets out of what a message quotes of its output."""

    @property
    def is_project(self) -> bool:
        """Whether it is to run in an environment of its own, made by uv."""
        return self.command is None and (self.folder / "pyproject.toml").is_file()

    @property
    def setting(self) -> Setting:
        """What it runs in, in the author's words."""
        if self.command is not None:
            return Setting(command=shlex.join(self.command))
        if self.is_project:
            made = self.folder / (self.environ.get("UV_PROJECT_ENVIRONMENT") or ".venv")
            return Setting(environment=str(made), project_file=str(self.folder / "pyproject.toml"))
        return Setting(python=self.python or sys.executable, asked=self.python is not None)

    @property
    def project(self) -> Project:
        """What uv is told of it."""
        kept = {
            name: value
            for name, value in self.environ.items()
            if name in ALLOWED_VARIABLES or name.startswith((*ALLOWED_PREFIXES, *SYNC_ONLY_PREFIXES))
        }
        return Project(self.folder, kept, self.python)


class Life(Protocol):
    """What a rollout server lives by: a child of ours, or a stand-in for a process that is somebody else's."""

    @property
    def exited(self) -> asyncio.Event:
        """Set once it is dead, or given up."""
        ...

    def describe_exit(self) -> str:
        """How it ended, for a message."""
        ...

    async def kill(self) -> None:
        """End it at once, or give it up. Idempotent."""
        ...

    async def stop(self, grace_s: float) -> None:
        """End it with a grace time."""
        ...


class RolloutServer(msgspec.Struct):
    """A rollout server that answers."""

    child: Life
    client: RolloutClient
    health: Health
    port: int


def server_environ(spec: LaunchSpec, port: int, instance_id: str, api_key: str) -> dict[str, str]:
    """The whole environment of the rollout's process."""
    allowed = {
        name: value
        for name, value in spec.environ.items()
        if name in ALLOWED_VARIABLES or name.startswith(ALLOWED_PREFIXES)
    }
    return {
        **QUIET_LIBRARIES,
        **(run_environ(spec.environ) if spec.is_project else {}),
        **allowed,
        **spec.extra,
        "_OSMOSIS_ROLLOUT_PORT": str(port),
        "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": str(spec.artifact_root),
        "_OSMOSIS_ROLLOUT_INSTANCE_ID": instance_id,
        "_OSMOSIS_ROLLOUT_API_KEY": api_key,
        "PYTHONUNBUFFERED": "1",
    }


def server_command(spec: LaunchSpec) -> list[str]:
    """The command that starts the server. Raises `LaunchError` when uv is needed and missing."""
    if spec.command is not None:
        return list(spec.command)
    if spec.is_project:
        return run_command(spec.project, spec.entrypoint)
    return [spec.python or sys.executable, spec.entrypoint]


async def start_server(
    spec: LaunchSpec, transport: Transport, nursery: Nursery, heard: Heard
) -> RolloutServer:
    """Start the rollout server and wait until it answers as itself; raises `LaunchError`."""
    if spec.port is not None and await _is_served(spec.port):
        message = (
            f"another process already listens on port {spec.port}; name another with --rollout-port, or leave that out "
            "for a free one"
        )
        raise LaunchError(message)
    tries = 1 if spec.port is not None else PORT_TRIES
    for left in reversed(range(tries)):
        port = spec.port or _free_port()
        instance_id, api_key = secrets.token_hex(16), secrets.token_urlsafe(24)
        command = Command(
            server_command(spec),
            spec.folder,
            server_environ(spec, port, instance_id, api_key),
            "the rollout server",
        )
        child = _started(command, nursery, heard)
        site = Site(transport, Endpoint.parse(f"http://127.0.0.1:{port}"), bearer(api_key))
        client = RolloutClient(site)
        try:
            health = await _healthy(spec, child, client, instance_id)
        except BaseException as error:
            await child.kill()
            # Somebody may have taken the port between our look and the server's bind.
            if left and isinstance(error, LaunchError) and "in use" in telling(child.last_lines):
                continue
            raise
        return RolloutServer(child, client, health, port)
    raise AssertionError


def _started(command: Command, nursery: Nursery, heard: Heard) -> Child:
    try:
        return nursery.start(command, heard)
    except OSError as error:
        message = f"{command.name} could not be started: {command.arguments[0]}: {error.strerror}"
        raise LaunchError(message) from None


async def _healthy(spec: LaunchSpec, child: Child, client: RolloutClient, instance_id: str) -> Health:
    began = time.monotonic()
    why = "it never answered"
    while time.monotonic() < began + HEALTHY_WITHIN_S:
        try:
            health = await client.health()
        except ServerLost as lost:
            why = str(lost)
        else:
            # A host may leave the id out: nobody served this port before it was started.
            if health.instance_id in (instance_id, None):
                return usable(health)
            port = client.site.endpoint.port
            message = f"the rollout server is not usable: another process already listens on port {port}"
            raise LaunchError(message)
        if child.exited.is_set():
            await child.kill()
            raise LaunchError(_not_started(spec, child))
        await asyncio.sleep(_pause(time.monotonic() - began))
    message = f"the rollout server is not usable: it did not answer within {HEALTHY_WITHIN_S:g} s: {why}"
    raise LaunchError(spec.scrub(message + quoted(list(child.last_lines))))


def _pause(waited_s: float) -> float:
    least, most = HEALTH_AFTER_S
    return max(least, min(most, waited_s / 20))


def usable(health: Health) -> Health:
    """The health of a server that can reach the bridge; raises `LaunchError` for one that cannot."""
    if health.needs_public_url:
        message = "this rollout's sandbox cannot reach this machine: it needs a public URL, which eval run cannot give"
        raise LaunchError(message)
    return health


async def _is_served(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _not_started(spec: LaunchSpec, child: Child) -> str:
    """Why a server that is dead did not start, with the line of the rollout's own code and its last output."""
    lines = list(child.last_lines)
    place = place_within(lines, spec.folder)
    module = absent_module(lines)
    why, remedy = child.describe_exit(), ""
    if module is not None:
        where, what = where_and_remedy(module, spec.setting)
        why, remedy = f"{where} has no module {module!r}", f"; {what}"
    text = f"the rollout server did not start: {why}" + (f" ({place})" if place else "") + remedy
    if child.returncode == 0 and spec.command is None:
        text += (
            f"; {spec.entrypoint} came to its end, but it must serve until it is stopped: "
            "end it with serve(YourWorkflow, YourGrader)"
        )
    return spec.scrub(text + quoted(lines) if len(lines) > 1 else text)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
