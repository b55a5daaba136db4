"""`serve`: one process that runs an author's workflow and grader behind the rollout protocol.

Two threads. The main one belongs to the author's code (`author`), the other to the protocol (`desk`, `app`), so
that signals reach the author's code and a rollout that blocks cannot make the server look dead. The process is
configured by its supervisor through environment variables and listens on loopback only.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from osmosis_runner import __version__
from osmosis_runner.rollout.app import RolloutApp
from osmosis_runner.rollout.author import AuthorLoop
from osmosis_runner.rollout.clients import Clients
from osmosis_runner.rollout.desk import CLEANUP_S, MOST_ACTIVE, Desk, HostSettings
from osmosis_runner.rollout.execution import Agent
from osmosis_runner.rollout.keep import Keeper
from osmosis_runner.rollout.output import Labelled, label_of, label_output
from osmosis_runner.rollout.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from osmosis_runner.rollout.execution import Conclusion, GraderSource, Job, WorkflowSource

DEFAULT_PORT = 8000
KEEP_ALIVE_S = 2160
FILES_AT_REST, FILES_EACH = 128, 4
"""Open files that are counted with: in all, and for each rollout at a time."""
DRAIN_S = 10.0
FORCE_AFTER_S = 45.0
"""Shutting down takes no longer than this, whatever the author's code does."""
THREAD_GRACE_S = 1.0
"""How long threads of plain functions may go on behind the last rollout."""
LEFT_NAMED = 5
STUCK_S = CLEANUP_S + 10.0
STUCK_EXIT = 86


def serve(
    workflow: WorkflowSource,
    grader: GraderSource = None,
    *,
    max_concurrent: int | None = None,
    grade_timed_out: bool = False,
) -> None:
    """Serve rollouts until SIGTERM or SIGINT. Call it at the end of a rollout's entrypoint.

    `max_concurrent` bounds how many run at once, and is how many do where the run asks for no number (None: as many
    as the supervisor sends, which is one at a time where it is not told otherwise). With
    `grade_timed_out` a workflow that runs out of time is graded by what it has left: `ctx.messages`, or else the
    prompt, and its artifacts. Exits the process with a message when the port cannot be had.
    """
    if max_concurrent is not None and max_concurrent < 1:
        message = f"max_concurrent must be at least 1, got {max_concurrent!r}"
        raise ValueError(message)
    settings = read_settings(os.environ, max_concurrent)
    raise_open_files(FILES_AT_REST + FILES_EACH * (max_concurrent or MOST_ACTIVE))
    Host(Agent(workflow, grader, Clients(), grade_timed_out), settings).run()


def read_settings(environ: Mapping[str, str], max_concurrent: int | None) -> HostSettings:
    """What the supervisor's variables say; raises SystemExit naming the variable that is wrong."""
    raw = environ.get("_OSMOSIS_ROLLOUT_PORT") or str(DEFAULT_PORT)
    if not raw.isascii() or not raw.isdigit() or int(raw) > 65535:
        message = f"_OSMOSIS_ROLLOUT_PORT must be a port number, got {raw!r}"
        raise SystemExit(message)
    root = environ.get("_OSMOSIS_ROLLOUT_ARTIFACT_ROOT")
    return HostSettings(
        port=int(raw),
        artifact_root=Path(root) if root else Path.cwd() / "rollout_trials",
        instance_id=environ.get("_OSMOSIS_ROLLOUT_INSTANCE_ID") or None,
        api_key=environ.get("_OSMOSIS_ROLLOUT_API_KEY") or None,
        max_concurrent=max_concurrent,
    )


def raise_open_files(wanted: int) -> None:
    """Let this process have so many open files, or as many as it may: a shell's own limit is often 1,024."""
    with suppress(ImportError, OSError, ValueError):
        resource: Any = import_module("resource")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if resource.RLIM_INFINITY != soft < wanted:
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


class Host:
    """One host process."""

    def __init__(self, agent: Agent, settings: HostSettings) -> None:
        self._settings = settings
        self._keeper = Keeper(__version__)
        self._streams: tuple[Labelled, ...] = ()
        self._author = AuthorLoop(agent, settings.max_concurrent, self._keep)
        self._watch = Watch(time.monotonic)
        self._server_loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._signals = 0
        self._broken = False

    def run(self) -> None:
        """Serve until told to stop; the main thread must call it."""
        listener = _listen(self._settings.port)
        self._streams = label_output()
        self._watch.install()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told_to_stop)
        thread = threading.Thread(target=self._server_thread, args=(listener,), name="protocol", daemon=True)
        asyncio.run(self._until_stopped(thread))
        if self._broken:
            sys.exit(1)

    async def _until_stopped(self, protocol: threading.Thread) -> None:
        await self._author.serve(protocol.start)
        protocol.join(timeout=5)
        self._leave_threads_behind()

    def _leave_threads_behind(self) -> None:
        """End the process where it would wait for threads that do not end; every result is known by now."""
        left = self._author.threads.still_busy(THREAD_GRACE_S)
        for busy in left[:LEFT_NAMED]:
            whose = label_of(busy.job.request) if busy.job else "a thread"
            log(
                f"{whose} does not stop at {busy.where}: a plain function cannot be interrupted, so it is cut off"
            )
        if len(left) > LEFT_NAMED:
            log(f"and {len(left) - LEFT_NAMED} more like it")
        if left:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(int(self._broken))

    def _keep(self, job: Job, conclusion: Conclusion) -> None:
        self._keeper.keep(job, conclusion)
        for stream in self._streams:
            stream.finish(job.request)

    def _told_to_stop(self, number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)
        last_resort = threading.Timer(FORCE_AFTER_S, os._exit, args=(128 + number,))
        last_resort.daemon = True
        last_resort.start()
        loop, closing = self._server_loop, self._closing
        if loop is None or closing is None or loop.is_closed():
            raise SystemExit(128 + number)
        loop.call_soon_threadsafe(closing.set)

    def _server_thread(self, listener: socket.socket) -> None:
        try:
            with asyncio.Runner(loop_factory=_fast_loop()) as runner:
                runner.run(self._serve(listener))
        except BaseException as error:  # noqa: BLE001 - whatever ends this thread must end the process
            self._broken = True
            log(f"the rollout server failed: {type(error).__name__}: {error}")
        finally:
            self._author.stop()

    async def _serve(self, listener: socket.socket) -> None:
        self._server_loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        desk = Desk(self._settings, self._author, self._watch, log)
        server = uvicorn.Server(_uvicorn_config(RolloutApp(desk, self._settings.api_key)))
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[listener]))
            chores = [
                group.create_task(desk.sweep()),
                group.create_task(self._last_resort()),
                group.create_task(
                    self._watch.run(self._ping, lambda: desk.active > 0, desk.unblocked, desk.noticed)
                ),
            ]
            await self._closing.wait()
            await _drain(desk)
            server.should_exit = True
            await serving
            for chore in chores:
                chore.cancel()

    def _ping(self, answer: Callable[[], None]) -> None:
        if self._author.loop is not None:
            self._author.loop.call_soon_threadsafe(answer)

    async def _last_resort(self) -> None:
        """End the process when condemned code cannot be broken into: the supervisor starts another."""
        while True:
            await asyncio.sleep(1.0)
            culprit = self._watch.culprit()
            if culprit is None or culprit.job is None or not culprit.job.condemned:
                continue
            if self._watch.stuck_for(time.monotonic()) > STUCK_S:
                log(
                    f"rollout {culprit.job.request.rollout_id} cannot be stopped at {culprit.where}; giving up"
                )
                os._exit(STUCK_EXIT)


def log(text: str) -> None:
    """One line to standard error, where the supervisor picks it up."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


async def _drain(desk: Desk) -> None:
    """Let rollouts finish for a while, then cancel them and let them clean up."""
    desk.fence()
    await _idle(desk, DRAIN_S)
    desk.cancel_all()
    await _idle(desk, CLEANUP_S)


async def _idle(desk: Desk, limit: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit
    while desk.active and loop.time() < deadline:  # noqa: ASYNC110 - once a process, and the count has no event
        await asyncio.sleep(0.05)


def _listen(port: int) -> socket.socket:
    # The protocol number is what makes asyncio switch Nagle's delay off on accepted connections.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(2048)
    except OSError as error:
        message = f"cannot listen on 127.0.0.1:{port}: {error.strerror}"
        raise SystemExit(message) from None
    return listener


def _uvicorn_config(app: RolloutApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=2,
    )


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        return import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
