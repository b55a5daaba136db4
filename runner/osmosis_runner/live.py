"""The live half of a run: bridge, preflight, run directory, rollout server, dispatch, and the end of all of them.

Whatever happens, no process outlives it. Everything it starts carries the run's mark.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from osmosis_bridge.upstream import Timeouts
from osmosis_bridge.upstream.http import HttpTransport
from osmosis_runner import concurrency
from osmosis_runner.attempt import Attempts
from osmosis_runner.bookkeeping import Bookkeeping
from osmosis_runner.child import Nursery
from osmosis_runner.dispatch import CANCEL_EVERY_S, Dispatcher, Means, Patience, Stop
from osmosis_runner.elsewhere import API_KEY_VARIABLE, ServerAddress
from osmosis_runner.errors import RunnerError, StorageError
from osmosis_runner.faults import LaunchError
from osmosis_runner.handover import Handover, bridge_credentials, hand_over
from osmosis_runner.keeper import ServerKeeper
from osmosis_runner.launch import HEALTHY_WITHIN_S, STOP_GRACE_S, LaunchSpec
from osmosis_runner.ledger_tail import LedgerTail
from osmosis_runner.narrator import Narrator
from osmosis_runner.orphans import MARK_VARIABLE, adopting, kill_marked
from osmosis_runner.plan import pending_items
from osmosis_runner.preflight import WITHIN_S, check_model
from osmosis_runner.processes import can_find
from osmosis_runner.projection import Projector
from osmosis_runner.quiet import QUIET_S, Quiet, longest_running
from osmosis_runner.room import Room
from osmosis_runner.runlog import RunLog
from osmosis_runner.sidecar import START_WITHIN_S, Sidecar, SidecarSpec
from osmosis_runner.signals import Interrupted
from osmosis_runner.uv_project import SYNC_WITHIN_S, sync_project
from osmosis_runner.workqueue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from osmosis_bridge.upstream import Transport
    from osmosis_runner.events import Observer
    from osmosis_runner.options import RunOptions
    from osmosis_runner.preparation import Prepared
    from osmosis_runner.redaction import RunRedactor
    from osmosis_runner.rundir import Manifest, RunDir
    from osmosis_runner.signals import Interrupts

_ORDINARY_CALL = re.compile(r'"event":"call".*"level":"info"')

SKIP = "--skip-preflight"
WATCH_EVERY_S = 1.0
STUBBORN_GRACE_S = 1.0
"""For the server to end once its rollouts were told to and did not."""
ENDING_TOLD_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Setup:
    """What a live half is started with."""

    options: RunOptions
    prepared: Prepared
    manifest: Manifest
    secrets: Mapping[str, str] = field(repr=False)
    token: str = field(repr=False)
    """The run's bearer on the bridge."""
    redactor: RunRedactor
    observer: Observer
    signals: Interrupts
    patience: Patience

    @property
    def staging(self) -> Path:
        """A folder of this run alone, outside its directory, for what is needed before that exists."""
        return self.prepared.checked.output / ".locks" / f"{self.prepared.name}.starting"

    @property
    def mark(self) -> dict[str, str]:
        """The variable that every process of this run carries."""
        return {MARK_VARIABLE: self.manifest.local_run_id}


class Live:
    """One live half. `books` is there once the run directory is."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._observer = setup.observer
        self._nursery = Nursery()
        self.log = RunLog(setup.observer, setup.redactor.line)
        self._tell = Narrator(self.log, setup.observer, setup.redactor)
        self.books: Bookkeeping | None = None
        self._tail: LedgerTail | None = None
        self._handover = _handover(setup)
        self._room = Room(
            setup.options.max_in_flight or setup.prepared.checked.config.batch_size,
            setup.prepared.counts.pending,
        )
        self._out_of_patience = False

    async def run(self) -> Stop | None:
        """Start everything, dispatch, end everything; why it ended early, or None.

        Raises `RunnerError` when it could not begin; then the run directory is as it was.
        """
        setup = self._setup
        if not can_find():
            text = "processes that rollouts leave behind cannot be found on this system: pip install psutil"
            self._tell.warn("NO_PROCESS_TABLE", text)
        with adopting():
            if setup.prepared.earlier is not None:
                # Of a run that begins, nobody carries the mark yet.
                kill_marked(setup.manifest.local_run_id)
            _emptied(setup.staging)
            try:
                async with AsyncExitStack() as stack:
                    return await self._staged(stack)
            except Interrupted:
                self._undo()
                return Stop("interrupted", f"stopped by {setup.signals.name} before any rollout began")
            except RunnerError:
                self._undo()
                raise
            finally:
                self._count_strays()
                left = kill_marked(setup.manifest.local_run_id) + self._nursery.end_strangers()
                if left:
                    self.log.warning("cleanup", f"{left} processes that rollouts had left behind were ended")
                shutil.rmtree(setup.staging, ignore_errors=True)

    def close(self) -> None:
        """Let go of every file."""
        if self._tail is not None:
            self._tail.close()
        if self.books is not None:
            self.books.close()
        self.log.close()

    def _count_strays(self) -> None:
        """Count what calls spent that ended after their rollout, up to the end of the bridge."""
        if self._tail is not None and self.books is not None:
            self.books.books.report.add_spend(self._tail.strays())

    def _undo(self) -> None:
        if self.books is not None:
            self.books.undo()
            self.books = None

    async def _staged(self, stack: AsyncExitStack) -> Stop | None:
        setup = self._setup
        self._room.make()
        self._check_room(self._room.asked)
        with setup.signals.ending_at_once():
            transport = await stack.enter_async_context(self._transport())
            sidecar = await self._start_bridge(stack, transport)
            await self._check_model(sidecar)
            books = self._open_books(sidecar)
            tail = self._tail = LedgerTail(books.run.calls)
            keeper = await self._start_server(stack, transport, books)
        dispatcher = self._dispatcher(sidecar, tail, keeper, books)
        return await self._dispatch(dispatcher, books, tail)

    def _transport(self) -> HttpTransport:
        return HttpTransport(max_connections=self._room.connections, timeouts=Timeouts(idle=None, slot=300.0))

    def _check_room(self, places: int | None) -> None:
        """Warn where this machine allows fewer open files than so many rollouts in flight want."""
        short = self._room.shortage(places) if places is not None else None
        if short is not None:
            self._tell.warn("OPEN_FILES", short)

    async def _start_bridge(self, stack: AsyncExitStack, transport: Transport) -> Sidecar:
        setup = self._setup
        self._tell.stage(f"starting the bridge for {setup.prepared.plan.model_path}")
        earlier = setup.prepared.earlier
        spec = SidecarSpec(
            model_path=setup.prepared.plan.model_path,
            ledger=earlier.calls if earlier else setup.staging / "calls.jsonl",
            ready_file=setup.staging / "ready.json",
            environ={**setup.options.environ, **setup.mark},
            token=setup.token,
            api_base=setup.options.api_base,
            api_key_env=setup.options.api_key_env,
            client_retries=setup.options.max_retries > 0,
            calls=self._room.calls,
        )
        with self._tell.waiting("starting the bridge", START_WITHIN_S):
            sidecar = await Sidecar.start(spec, transport, self._nursery, self._heard_bridge)
        stack.push_async_callback(sidecar.stop)
        return sidecar

    async def _check_model(self, sidecar: Sidecar) -> None:
        if self._setup.options.skip_preflight:
            return
        model = self._setup.prepared.plan.model_path
        self._tell.stage(
            f"checking model {model} with one small question (at most {WITHIN_S:g} s; {SKIP} asks none)"
        )
        with self._tell.waiting(f"waiting for {model} to answer", WITHIN_S):
            warning = await check_model(sidecar, model, self._setup.options.api_base)
        if warning is not None:
            self._tell.warn("MODEL_BUSY", warning)

    def _open_books(self, sidecar: Sidecar) -> Bookkeeping:
        setup = self._setup
        books = Bookkeeping(setup.prepared, setup.manifest, self._observer, self._projector)
        self.books = books
        if setup.prepared.earlier is None:
            try:
                # The bridge goes on writing to the same open file under its new name.
                (setup.staging / "calls.jsonl").rename(books.run.calls)
            except OSError as error:
                raise StorageError.of(str(books.run.calls), error, "nothing was started") from None
            sidecar.ledger = books.run.calls
        self.log.open(books.run.logs)
        return books

    def _projector(self, run: RunDir) -> Projector:
        return Projector(
            run,
            self._setup.prepared.plan.model_path,
            self._setup.redactor,
            lambda text: self.log.warning("results", text),
        )

    async def _start_server(
        self, stack: AsyncExitStack, transport: Transport, books: Bookkeeping
    ) -> ServerKeeper:
        spec = self._found() if self._setup.options.rollout_url else await self._to_launch(books)
        keeper = ServerKeeper(
            spec, transport, self._nursery, lambda lines: self._tell.heard("rollout-server", lines)
        )
        stack.push_async_callback(self._stop_server, keeper)
        try:
            with self._tell.waiting("waiting for the rollout server to answer", HEALTHY_WITHIN_S):
                server = await keeper.start()
        except LaunchError as error:
            first, line_end, quoted = error.message.partition("\n")
            raise LaunchError(first + self._handover.hint(error.message) + line_end + quoted) from None
        self._tell.stage(f"rollout server healthy on port {server.port}")
        return keeper

    async def _to_launch(self, books: Bookkeeping) -> LaunchSpec:
        """The rollout server to be started, its environment made."""
        setup, checked = self._setup, self._setup.prepared.checked
        note = self._handover.note(setup.prepared.plan.model_path)
        if note is not None:
            self._tell.warn("PROVIDER_KEY", note)
        spec = LaunchSpec(
            folder=checked.rollout_dir,
            entrypoint=checked.config.entrypoint,
            artifact_root=books.run.trials,
            environ=setup.options.environ,
            extra={**checked.rollout_file.env, **checked.config.env, **self._handover.given, **setup.mark},
            python=setup.options.python,
            port=setup.options.rollout_port,
            command=setup.options.rollout_command or checked.rollout_file.command,
            scrub=setup.redactor.line,
        )
        if spec.is_project:
            self._tell.stage(f"syncing rollout dependencies ({checked.config.rollout}) with uv")
            with self._tell.waiting("syncing rollout dependencies", SYNC_WITHIN_S):
                await sync_project(spec.project, self._nursery, lambda lines: self._tell.heard("deps", lines))
        started = shlex.join(spec.command) if spec.command else checked.config.entrypoint
        self._tell.stage(f"starting rollout server ({started})")
        return spec

    def _found(self) -> ServerAddress:
        """The rollout server that somebody else runs."""
        setup, config = self._setup, self._setup.prepared.checked.config
        address = ServerAddress.of(
            setup.options.rollout_url or "", setup.options.environ.get(API_KEY_VARIABLE)
        )
        if config.env or config.required_secrets:
            text = "a rollout server that runs already does not see [env] and [secrets] of the run file"
            self._tell.warn("NOT_HANDED_OVER", text)
        self._tell.stage(f"looking for the rollout server at {address.url}")
        return address

    async def _stop_server(self, keeper: ServerKeeper) -> None:
        """End the server with a grace time, which a second signal cuts short."""
        signals = self._setup.signals
        impatient = self._out_of_patience and signals.number is not None
        grace_s = STUBBORN_GRACE_S if impatient else STOP_GRACE_S
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(keeper.stop(grace_s))
            hurrying = group.create_task(signals.second.wait())
            with self._tell.waiting("waiting for the rollout server to end", grace_s, ENDING_TOLD_AFTER_S):
                await asyncio.wait({stopping, hurrying}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                await keeper.stop(0.0)
            hurrying.cancel()

    def _heard_bridge(self, lines: list[str]) -> None:
        # What it says of each call is in the ledger.
        self._tell.heard("bridge", [line for line in lines if not _ORDINARY_CALL.search(line)])

    def _dispatcher(
        self, sidecar: Sidecar, tail: LedgerTail, keeper: ServerKeeper, books: Bookkeeping
    ) -> Dispatcher:
        setup, checked, recorded = self._setup, self._setup.prepared.checked, self._setup.prepared.recorded
        pending = pending_items(recorded.standings, recorded.runs, setup.prepared.again)
        means = Means(
            attempts=Attempts(checked.config, sidecar, tail, setup.redactor),
            keeper=keeper,
            recorder=books.recorder,
            queue=WorkQueue(pending),
            rows=checked.rows.rows,
            earlier_attempts=recorded.attempts_at,
            log=self.log,
            observer=self._observer,
            patience=setup.patience,
            retries=setup.options.max_retries,
        )
        capacity = keeper.server.health.capacity
        places = concurrency.places(self._room.asked, capacity)
        self._check_room(places if self._room.asked is None else None)
        self._tell.stage(concurrency.told(setup.prepared.counts.pending, self._room.asked, capacity))
        return Dispatcher(means, places)

    async def _dispatch(self, dispatcher: Dispatcher, books: Bookkeeping, tail: LedgerTail) -> Stop | None:
        signals = self._setup.signals
        signals.on_first = lambda: dispatcher.stop(Stop("interrupted", f"stopped by {signals.name}"))
        if signals.number is not None:
            signals.on_first()
        self._observer.started(books.recorder.progress())
        async with asyncio.TaskGroup() as group:
            chores = [
                group.create_task(books.recorder.run()),
                group.create_task(self._nursery.reap_strangers()),
                group.create_task(self._watch_provider(books, tail)),
                group.create_task(self._watch_items(books, dispatcher)),
            ]
            running = group.create_task(dispatcher.run())
            chores.append(group.create_task(self._end_when_told(dispatcher, running)))
            await asyncio.wait({running})
            for chore in chores:
                chore.cancel()
        return dispatcher.stopped

    async def _watch_provider(self, books: Bookkeeping, tail: LedgerTail) -> None:
        """Tell while the provider keeps rollouts waiting, for ever."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            waits = tail.waits()
            if waits.refusals and not books.recorder.tallies.waits.refusals:
                text = f"the provider answers {waits.status}; the agents' clients wait and ask again"
                self._tell.warn("PROVIDER_RETRIES", text)
            books.recorder.waited(waits)

    async def _watch_items(self, books: Bookkeeping, dispatcher: Dispatcher) -> None:
        """Name what is waited for when nothing ends for a while, for ever."""
        quiet = Quiet(QUIET_S)
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            now, running = time.monotonic(), dispatcher.in_flight()
            if quiet.due(books.recorder.tallies.finished, now) and running:
                self._tell.stage(f"nothing has ended for a while; in flight: {longest_running(running, now)}")

    async def _end_when_told(self, dispatcher: Dispatcher, running: asyncio.Task[None]) -> None:
        """Once dispatch stops: tell rollouts to end, wait a while or until a second signal, then end it."""
        await dispatcher.stopping.wait()
        waiting = dispatcher.in_flight()
        if waiting:
            rows = ", ".join(str(rollout.item.row_index) for rollout in waiting[:5])
            more = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
            again = "; again to stop now" if self._setup.signals.number is not None else ""
            self._tell.stage(f"waiting for {len(waiting)} rollouts to stop (row {rows}{more}){again}")
        try:
            async with asyncio.timeout(self._setup.patience.cancel_grace):
                while not self._setup.signals.second.is_set():
                    # Again and again: a rollout may have been on its way to the server the last time.
                    await dispatcher.cancel_in_flight()
                    await asyncio.sleep(CANCEL_EVERY_S)
        except TimeoutError:
            self._out_of_patience = True
        running.cancel()


def _handover(setup: Setup) -> Handover:
    options = setup.options
    used = bridge_credentials(setup.prepared.plan.model_path, options.api_key_env, options.environ)
    return hand_over(setup.secrets, used, share=options.pass_provider_key)


def _emptied(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise StorageError.of(str(folder), error, "nothing was started") from None
