"""One bridge process: puts the parts together, serves until a signal, and lets go of everything in order.

Of uvicorn it uses the server, `door/` is its protocol. Assembly and no behaviour: who may call is `app.py`'s to say,
what is sent is `serve.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import signal
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import uvicorn
import uvloop

from osmosis_bridge.accounts import Accounts
from osmosis_bridge.app import BridgeApp, Gate, local_hosts
from osmosis_bridge.asgi import App, Receive, Scope, Send
from osmosis_bridge.collector import Collector
from osmosis_bridge.config import BridgeConfig, ConfigError
from osmosis_bridge.door.connection import Door
from osmosis_bridge.ledger import FileLedger, NoLedger
from osmosis_bridge.local_model import start_local_model
from osmosis_bridge.log import open_log
from osmosis_bridge.metrics import Metrics
from osmosis_bridge.native_process import start_native
from osmosis_bridge.open_files import OpenFiles, for_connections, raise_open_files
from osmosis_bridge.policy import Policy
from osmosis_bridge.redact import Redactor, credentials_in
from osmosis_bridge.routing import Route, plan_route
from osmosis_bridge.serve import Bridge
from osmosis_bridge.target import make_target
from osmosis_bridge.transcripts import Transcripts
from osmosis_bridge.upstream import Endpoint, Timeouts
from osmosis_bridge.upstream.http import HttpTransport
from osmosis_bridge.upstream.proxy import proxies_from

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_SECRET_NAME = re.compile(r"(?i)(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)")
_URL_NAMES = ("_proxy", "_api_base", "_base_url")
_BACKLOG = 4096
_KEPT_BLOCK = 16 * 1024 * 1024
_ROUTES = "osmosis_bridge.routes"
_ROUTES_AFTER_S = 0.5
_LAST_RECORDS_S = 5.0


async def run(config: BridgeConfig) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises `ConfigError`, `RouteError`, `LocalModelError`, `NativeLaneError` or `LedgerFailed` before it serves.
    """
    route = plan_route(
        config.model,
        api_base=config.api_base,
        api_key_env=config.api_key_env,
        lane=config.lane,
        environ=config.environ,
    )
    if config.ready_file is not None and not Path(config.ready_file).parent.is_dir():
        raise ConfigError(f"--ready-file {config.ready_file!r}: there is no such folder")
    # Before any process is started that inherits it.
    files = raise_open_files(for_connections(config.max_upstream_connections))
    listener = _bind(config)
    with contextlib.closing(listener):
        async with _reachable(route, config.environ) as (base_url, api_key):
            await _serve(config, route, _Address(base_url, api_key, files), listener)


class _Address:
    """Where the provider is, the key for it, and how many connections to it can be open."""

    def __init__(self, base_url: str, api_key: str | None, files: OpenFiles) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.files = files


async def _serve(config: BridgeConfig, route: Route, address: _Address, listener: socket.socket) -> None:
    redactor = Redactor(
        _secrets(config, [address.api_key, route.api_key]), _private_hosts(route, address.base_url)
    )
    log = open_log(config.log_format, redactor)
    if address.files.short:
        log.warning(
            "too few open files for --max-upstream-connections",
            connections=config.max_upstream_connections,
            trouble=address.files.shortage,
            remedy=address.files.remedy,
        )
    ledger = NoLedger() if config.ledger is None else FileLedger(Path(config.ledger), log)
    transport = HttpTransport(
        max_connections=config.max_upstream_connections,
        timeouts=Timeouts(
            connect=config.connect_timeout_s,
            idle=config.idle_timeout_s or None,
            total=config.total_timeout_s or None,
            slot=config.slot_timeout_s,
        ),
        proxies=proxies_from(config.environ),
    )
    bridge = Bridge(
        target=make_target(route, address.base_url, address.api_key),
        transport=transport,
        policy=Policy(upstream_model=route.upstream_model, controls=config.controls),
        ledger=ledger,
        accounts=Accounts(),
        redactor=redactor,
        log=log,
        keepalive_s=config.keepalive_s,
        plain_keepalive_s=config.plain_keepalive_s,
    )
    bridge.recorder = replace(
        bridge.recorder,
        transcripts=Transcripts() if config.keep_transcripts else None,
        client_retries=config.client_retries,
    )
    gate = Gate(config.token, local_hosts(config.allowed_hosts) if config.on_loopback else None)
    metrics = Metrics(bridge, transport)
    rest = _Later(lambda: _routes(bridge, gate, metrics))
    app = BridgeApp(bridge, gate, rest, config.max_body_mb * 1024 * 1024)
    server = _Server(_server_config(app, config), transport, lambda: _announce(config, listener, log))
    metrics.watch_loop()
    try:
        await server.serve(sockets=[listener])
        await _last_records(bridge)
    finally:
        metrics.stop()
        await transport.close()
        await ledger.close()
    log.info("stopped", calls=bridge.accounts.whole.calls)


@contextlib.asynccontextmanager
async def _reachable(route: Route, environ: Mapping[str, str]) -> AsyncGenerator[tuple[str, str | None]]:
    """The base URL and key of whoever answers; a process that we start for it runs as long as the bridge does."""
    started = None
    if route.local_model is not None:
        started = await start_local_model(route.local_model, environ)
    elif route.lane == "native":
        path = f"{route.provider}/{route.upstream_model}"
        started = await start_native(path, api_base=route.base_url, api_key=route.api_key, environ=environ)
    if started is None:
        if route.base_url is None:
            raise ConfigError(f"no endpoint is known for {route.provider!r}; give --api-base URL")
        yield route.base_url, route.api_key
        return
    try:
        yield started.base_url, started.api_key
    finally:
        await started.stop()


def _secrets(config: BridgeConfig, keys: list[str | None]) -> list[str]:
    """Every value that must not be seen: the bearer, the key, and what the environment calls a secret."""
    named = [
        value for name, value in config.environ.items() if _SECRET_NAME.search(name) and _may_be_secret(value)
    ]
    urls = [config.api_base or "", *(v for n, v in config.environ.items() if n.lower().endswith(_URL_NAMES))]
    in_urls = [secret for url in urls for secret in credentials_in(url)]
    return [secret for secret in (config.token, *keys, *named, *in_urls) if secret]


def _may_be_secret(value: str) -> bool:
    """Whether a value is one that no ordinary text holds: not a number, not a path, not a word."""
    return len(value) >= 8 and not value.isdigit() and not value.startswith(("/", "~", "."))


def _private_hosts(route: Route, base_url: str) -> list[str]:
    urls = {base_url, route.base_url or base_url}
    return [Endpoint.parse(url).host for url in urls] if route.private_endpoint else []


def _bind(config: BridgeConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # Named as TCP: asyncio sets TCP_NODELAY only on such sockets, and without it a reply may wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        hint = "; --port 0 picks a free port" if taken else "; --host names an address of this machine"
        raise ConfigError(
            f"cannot serve on {config.host}:{config.port}: {error.strerror or error}{hint}"
        ) from None
    listener.setblocking(False)
    return listener


def _server_config(app: BridgeApp, config: BridgeConfig) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Door,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(config.grace_s)),
        backlog=_BACKLOG,
    )


def _announce(config: BridgeConfig, listener: socket.socket, log: FilteringBoundLogger) -> None:
    """Say where the bridge answers: in the log, and in the ready file, which appears whole or not at all."""
    port = listener.getsockname()[1]
    host = f"[{config.host}]" if ":" in config.host else config.host
    url = f"http://{host}:{port}"
    log.info("serving", url=url, model=config.model, ledger=config.ledger)
    if config.ready_file is None:
        return
    target = Path(config.ready_file)
    content = orjson.dumps({"url": url, "pid": os.getpid(), "model": config.model})
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        file.write(content + b"\n")
    Path(file.name).replace(target)


async def _last_records(bridge: Bridge) -> None:
    """Calls cancelled by the end of the grace time still record themselves."""
    deadline = asyncio.get_running_loop().time() + _LAST_RECORDS_S
    while bridge.in_flight and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - once a process, at its end
        await asyncio.sleep(0.01)


def _routes(bridge: Bridge, gate: Gate, metrics: Metrics) -> App:
    """Every route that is not a call; not loaded before: Starlette takes a sixth of a start, and no call needs it."""
    app: App = import_module(_ROUTES).Routes(bridge, gate, metrics).app()
    return app


class _Later:
    """An application that is made when it is first asked for."""

    def __init__(self, make: Callable[[], App]) -> None:
        self._make = make
        self._made: App | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._made is None:
            self._made = self._make()
        await self._made(scope, receive, send)


class _Server(uvicorn.Server):
    """Ends with exit code 0 on the first SIGTERM or SIGINT; the second does not wait for calls."""

    def __init__(self, config: uvicorn.Config, transport: HttpTransport, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._collector = Collector(lambda: len(self.server_state.connections) + transport.open_connections)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._collector.start()
        # glibc hands the end of its heap back with every large body that goes, to have it faulted in again by the next,
        # until it has seen a block as large as this one come and go.
        bytearray(_KEPT_BLOCK)
        self._ready()
        # A while later, beside the first calls and not before them; in a thread, so that none waits for all of it.
        loop = asyncio.get_running_loop()
        loop.call_later(_ROUTES_AFTER_S, loop.run_in_executor, None, import_module, _ROUTES)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self._collector.stop()
        if self.force_exit:
            # uvicorn stops waiting and leaves the tasks; cancelled, each call records itself as such.
            for task in tuple(self.server_state.tasks):
                task.cancel("told twice to stop")

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        caught = (signal.SIGTERM, signal.SIGINT)
        for number in caught:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def run_blocking(config: BridgeConfig) -> None:
    """`run` on the fastest event loop there is."""
    uvloop.run(run(config))
