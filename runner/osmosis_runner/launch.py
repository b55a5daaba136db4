"""The rollout as a process: how it is started, what it may see of this machine, when it is ready.

Two kinds. A folder without `pyproject.toml` runs in the interpreter that runs us; one with it runs in that
project's own environment through uv. Neither is ever imported here.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from osmosis_bridge.upstream import Endpoint
from osmosis_runner.child import Child, Command, Heard, Nursery
from osmosis_runner.faults import LaunchError
from osmosis_runner.protocol import Health, RolloutClient, ServerLost
from osmosis_runner.web import Site, bearer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from osmosis_bridge.upstream import Transport

HEALTHY_WITHIN_S = 90.0
HEALTH_EVERY_S = 0.02
STOP_GRACE_S = 5.0
SYNC_WITHIN_S = 900.0
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
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
)
"""What uv may see besides while it installs: settings and proxies, which may hold credentials."""


NO_DOWNLOAD = {"UV_PYTHON_DOWNLOADS": "never"}
"""An interpreter that is there is used; the user may say otherwise in the environment."""


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

    @property
    def is_project(self) -> bool:
        """Whether it has an environment of its own."""
        return (self.folder / "pyproject.toml").is_file()


@dataclass(slots=True)
class RolloutServer:
    """A rollout server that answers."""

    child: Child
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
        **(NO_DOWNLOAD if spec.is_project else {}),
        **allowed,
        **spec.extra,
        "_OSMOSIS_ROLLOUT_PORT": str(port),
        "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": str(spec.artifact_root),
        "_OSMOSIS_ROLLOUT_INSTANCE_ID": instance_id,
        "_OSMOSIS_ROLLOUT_API_KEY": api_key,
        "PYTHONUNBUFFERED": "1",
    }


def server_command(spec: LaunchSpec) -> list[str]:
    """The command that starts the entrypoint. Raises `LaunchError` when uv is needed and missing."""
    if not spec.is_project:
        return [spec.python or sys.executable, spec.entrypoint]
    chosen = ["--python", spec.python] if spec.python else []
    return [find_uv(), "run", "--no-sync", *chosen, "--project", ".", "python", spec.entrypoint]


def find_uv() -> str:
    """Path of uv: beside our interpreter, else on PATH. Raises `LaunchError`."""
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        message = (
            "this rollout has a pyproject.toml and runs through uv, which is not installed: pip install uv"
        )
        raise LaunchError(message)
    return found


async def sync_project(spec: LaunchSpec, nursery: Nursery, heard: Heard) -> None:
    """Bring the rollout project's own environment up to date; raises `LaunchError`."""
    kept = NO_DOWNLOAD | {
        name: value
        for name, value in spec.environ.items()
        if name in ALLOWED_VARIABLES or name.startswith((*ALLOWED_PREFIXES, *SYNC_ONLY_PREFIXES))
    }
    chosen = ["--python", spec.python] if spec.python else []
    arguments = [find_uv(), "sync", *chosen, "--project", "."]
    child = _started(Command(arguments, spec.folder, kept, "uv sync"), nursery, heard)
    try:
        async with asyncio.timeout(SYNC_WITHIN_S):
            await child.exited.wait()
    except TimeoutError:
        message = f"uv sync of {spec.folder} did not end within {SYNC_WITHIN_S:g} s"
        raise LaunchError(message) from None
    finally:
        await child.kill()
    if child.returncode != 0:
        message = f"the environment of {spec.folder} could not be made: {child.describe_exit()}"
        raise LaunchError(message)


async def start_server(
    spec: LaunchSpec, transport: Transport, nursery: Nursery, heard: Heard
) -> RolloutServer:
    """Start the rollout server and wait until it answers as itself; raises `LaunchError`."""
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
            health = await _healthy(child, client, instance_id, port)
        except BaseException as error:
            await child.kill()
            # Somebody may have taken the port between our look and the server's bind.
            if left and isinstance(error, LaunchError) and "in use" in _last_line(child):
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


async def _healthy(child: Child, client: RolloutClient, instance_id: str, port: int) -> Health:
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    why = "it never answered"
    while time.monotonic() < deadline:
        try:
            health = await client.health()
        except ServerLost as lost:
            why = str(lost)
        else:
            if health.instance_id == instance_id:
                return _usable(health)
            why = f"another process already listens on port {port}"
            if health.instance_id is not None:
                break
        if child.exited.is_set():
            await child.kill()
            message = f"the rollout server did not start: {child.describe_exit()}"
            raise LaunchError(message)
        await asyncio.sleep(HEALTH_EVERY_S)
    message = f"the rollout server is not usable: {why}"
    raise LaunchError(message)


def _usable(health: Health) -> Health:
    if health.needs_public_url:
        message = "this rollout's sandbox cannot reach this machine: it needs a public URL, which eval run cannot give"
        raise LaunchError(message)
    return health


def _last_line(child: Child) -> str:
    return child.last_lines[-1] if child.last_lines else ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
