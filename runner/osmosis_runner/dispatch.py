"""Gets a run's items through the rollout server, so many at a time, until none is left or something stops it.

Waits and carries; what runs next, and who is to blame for a dead server, is decided by `WorkQueue`. The moments
an attempt spends being closed and recorded do not occupy a place in flight.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from osmosis_runner.attempt import Attempts, Ended, Rollout
from osmosis_runner.disk_watch import DiskWatch
from osmosis_runner.errors import RunnerError
from osmosis_runner.events import Warned
from osmosis_runner.faults import LaunchError, LedgerUnavailable, SidecarError
from osmosis_runner.provider import ProviderWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from osmosis_runner.events import Observer
    from osmosis_runner.keeper import ServerKeeper
    from osmosis_runner.launch import RolloutServer
    from osmosis_runner.plan import WorkItem
    from osmosis_runner.recorder import Recorder
    from osmosis_runner.rows import Row
    from osmosis_runner.runlog import RunLog
    from osmosis_runner.workqueue import WorkQueue

SETTLING_AT_ONCE = 256
"""Attempts that may be on their way to disk beside those in flight."""
DEATHS_IN_A_ROW = 16
"""Server deaths without a single result between them before the run gives up."""
BRIDGE_DEATHS_IN_A_ROW = 4
ALARMING = 5
"""Items that fail at the beginning of a run, none of them well, before it is said."""
CANCEL_EVERY_S = 0.25
"""Between two words to rollouts that they are to end."""


class Patience(msgspec.Struct, frozen=True):
    """Seconds; the defaults suit people, tests shorten them."""

    provider_delays: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
    """Between questions to a provider that seems to be out."""
    disk_delays: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
    """Between tries to record on a disk that is full."""
    cancel_grace: float = 10.0
    """For rollouts to stop once they are told to."""


class Stop(msgspec.Struct, frozen=True):
    """Why dispatch ended early."""

    kind: Literal["interrupted", "halted"]
    reason: str


class Means(msgspec.Struct, frozen=True):
    """What dispatch works with."""

    attempts: Attempts
    keeper: ServerKeeper
    recorder: Recorder
    queue: WorkQueue
    rows: Sequence[Row]
    earlier_attempts: Callable[[tuple[int, int]], int]
    """How many attempts an item has had before this invocation."""
    log: RunLog
    observer: Observer
    patience: Patience = msgspec.field(default_factory=Patience)
    retries: int = 2
    """Times an item runs again after faults that are not its own."""


class Dispatcher:
    """One run's dispatch. `stopped` says why it ended early, None when it did not."""

    def __init__(self, means: Means, places: int) -> None:
        self._means = means
        self._queue = means.queue
        self._provider = ProviderWatch(means.attempts.sidecar, means.patience.provider_delays)
        self._places = asyncio.Semaphore(places)
        self._room = asyncio.Semaphore(places + SETTLING_AT_ONCE)
        self._changed = asyncio.Event()
        self._running: dict[str, Rollout] = {}
        self._settling = 0
        self._attempted: dict[WorkItem, int] = {}
        self._voided: dict[WorkItem, int] = {}
        self._lost: dict[WorkItem, Ended] = {}
        self._deaths = self._bridge_deaths = 0
        self._ended = 0
        self._all_failed = True
        self._asking = self._burying = False
        self.stopped: Stop | None = None
        self.stopping = asyncio.Event()
        self._disk = DiskWatch(means.patience.disk_delays, self.stopping, means.log, means.observer)

    async def run(self) -> None:
        """Dispatch until every item is recorded, or until `stop` is called and what was in flight has ended."""
        async with asyncio.TaskGroup() as group:
            chores = [group.create_task(self._mind_server()), group.create_task(self._mind_bridge())]
            while await self._next_place():
                item = self._queue.take()
                if item is not None:
                    group.create_task(self._one(self._begun(item), self._means.keeper.server))
                    continue
                self._places.release()
                self._room.release()
                if await self._all_done():
                    break
                await self._change()
            while self._queue.in_flight or self._settling:
                await self._change()
            for chore in chores:
                chore.cancel()

    def stop(self, stop: Stop) -> None:
        """Start nothing more; the first reason counts. Rollouts in flight are not touched."""
        if self.stopped is None:
            self.stopped = stop
            self.stopping.set()
            self._changed.set()

    def in_flight(self) -> list[Rollout]:
        """Rollouts on the server now."""
        return list(self._running.values())

    async def cancel_in_flight(self) -> None:
        """Tell the server to end what runs."""
        server = self._means.keeper.server
        if self._running and not server.child.exited.is_set():
            await server.client.cancel(list(self._running))

    async def _next_place(self) -> bool:
        """Wait for a place in flight and a server to use it on; False once stopping."""
        await self._room.acquire()
        await self._places.acquire()
        while not (self._may_start or self.stopping.is_set()):
            await self._change()
        return not self.stopping.is_set()

    @property
    def _may_start(self) -> bool:
        """Whether server, bridge and provider are all thought to be there, and what ends can be recorded."""
        children = self._means.keeper.server.child, self._means.attempts.sidecar.child
        gone = any(child.exited.is_set() for child in children)
        return not (self._asking or self._burying or self._disk.waiting or gone)

    async def _change(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def _all_done(self) -> bool:
        if self._queue.waiting or self._queue.in_flight or self._settling or not self._may_start:
            return False
        if self._provider.holds:
            # Too few failures to suspect the provider while items were left; now there is time to ask.
            await self._guarded(self._ask_provider())
            return False
        return True

    def _begun(self, item: WorkItem) -> Rollout:
        """A new attempt that counts as in flight from now on."""
        means = self._means
        self._attempted[item] = (self._attempted.get(item) or means.earlier_attempts(item)) + 1
        rollout = Rollout.of(item, self._attempted[item], means.rows[item.row_index])
        means.recorder.tallies.dispatched += 1
        self._running[rollout.rollout_id] = rollout
        self._settling += 1
        means.recorder.moved(+1)
        return rollout

    async def _one(self, rollout: Rollout, server: RolloutServer) -> None:
        """One attempt from dispatch to disk."""
        means = self._means
        try:
            await means.attempts.carry_out(rollout, server.client)
            if rollout.lost and not await means.keeper.is_dead(server):
                rollout.lost = False
                await server.client.cancel([rollout.rollout_id])
        finally:
            del self._running[rollout.rollout_id]
            means.recorder.moved(-1)
            self._places.release()
            self._changed.set()
        await self._guarded(self._settle(rollout))
        self._settling -= 1
        self._room.release()
        self._changed.set()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it; a fault of bridge or disk stops the run, and the item it hit stays pending."""
        try:
            await work
        except RunnerError as error:
            self.stop(Stop("halted", error.message))

    async def _settle(self, rollout: Rollout) -> None:
        try:
            await self._file(await self._settled(rollout))
        except RunnerError:
            self._queue.in_flight.discard(rollout.item)
            raise

    async def _settled(self, rollout: Rollout) -> Ended:
        """An attempt that is over, closed; what is paid for counts even where the ledger stays unwritable."""
        settle = self._means.attempts.settle
        try:
            return await self._disk.patiently(lambda: settle(rollout))
        except LedgerUnavailable as error:
            self.stop(Stop("halted", error.message))
            return await settle(rollout, unsynced=True)

    async def _record(self, ended: Ended) -> None:
        await self._disk.patiently(lambda: self._means.recorder.keep(ended))

    async def _file(self, ended: Ended) -> None:
        """Put an attempt where it belongs: on disk, back into the queue, or on hold."""
        if ended.lost:
            # It stays in flight for the queue until the server's death is dealt with.
            self._lost[ended.item] = ended
        elif ended.record.status == "cancelled" and ended.orphaned:
            await self._put_back(ended)
        elif ended.record.status == "cancelled":
            await self._again(ended)
        elif ended.provider_trouble is not None and not self.stopping.is_set():
            self._queue.in_flight.discard(ended.item)
            if self._provider.hold(ended):
                await self._ask_provider()
        else:
            if ended.provider_answered:
                for held in self._provider.release():
                    await self._again(held)
            await self._keep(ended)

    async def _keep(self, ended: Ended) -> None:
        self._say_blocked(ended)
        await self._record(ended)
        self._alarm(ended)
        self._queue.done(ended.item)
        self._attempted.pop(ended.item, None)
        self._voided.pop(ended.item, None)
        self._deaths = self._bridge_deaths = 0

    async def _again(self, ended: Ended) -> None:
        """Record what a void attempt spent; its item runs again, unless that was tried too often."""
        record, item = ended.record, ended.item
        voided = self._voided[item] = self._voided.get(item, 0) + 1
        if self.stopping.is_set() or voided <= self._means.retries:
            await self._put_back(ended)
            return
        if record.status == "cancelled":
            record = msgspec.structs.replace(
                record,
                status="failed",
                error_type=record.error_type or "cancelled",
                error_phase="server",
                error_message=record.error_message or "the rollout server cancelled it again and again",
            )
        await self._keep(replace(ended, record=record))

    async def _put_back(self, ended: Ended) -> None:
        """Record what an attempt spent that does not count; its item runs again."""
        record = msgspec.structs.replace(ended.record, status="cancelled", reward=None)
        await self._record(replace(ended, record=record))
        self._queue.put_back(ended.item)
        self._changed.set()

    async def _ask_provider(self) -> None:
        """Start nothing until the provider answers, or stop the run. One question at a time."""
        if self._asking or self.stopping.is_set():
            return
        self._asking = True
        trouble = self._provider.trouble
        self._means.observer.stage(f"waiting for the provider: {trouble}")
        self._means.log.warning("provider", f"{self._provider.holds} rollouts failed in a row: {trouble}")
        try:
            silence = await self._provider.ask(self.stopping)
            if silence is not None:
                self.stop(Stop("halted", f"the provider is out: {silence}"))
            for ended in self._provider.release():
                await self._again(ended)
        finally:
            self._asking = False
            self._changed.set()

    async def _mind_server(self) -> None:
        """Deal with every death of the rollout server, until the run stops."""
        while True:
            server = self._means.keeper.server
            await server.child.exited.wait()
            self._burying = True
            await server.child.kill()
            how = server.child.describe_exit()
            self._means.log.error("rollout-server", how)
            while self._running or self._queue.in_flight != set(self._lost):
                await self._change()
            await self._guarded(self._bury(how))
            if self.stopping.is_set():
                return
            await self._restart(how)
            if self.stopping.is_set():
                return
            self._burying = False
            self._changed.set()

    async def _bury(self, how: str) -> None:
        """Record what died with the server: what it spent, and, for the item that is guilty, that it failed."""
        self._deaths += 1
        guilty = self._queue.server_died()
        lost, self._lost = self._lost, {}
        for item, ended in lost.items():
            if item != guilty:
                await self._record(ended)
                continue
            message = self._means.attempts.redactor.message(f"{how} (each time this item ran)")
            record = msgspec.structs.replace(
                ended.record,
                status="failed",
                error_type="server_died",
                error_phase="server",
                error_message=message,
            )
            await self._keep(replace(ended, record=record))
        self._changed.set()

    async def _restart(self, how: str) -> None:
        if self._deaths > DEATHS_IN_A_ROW:
            reason = self._means.attempts.redactor.message(f"the rollout server keeps dying: {how}")
            self.stop(Stop("halted", reason))
            return
        self._means.observer.stage("restarting the rollout server")
        try:
            await self._means.keeper.start()
        except LaunchError as error:
            self.stop(Stop("halted", error.message))

    async def _empty(self) -> None:
        """Cancel what is in flight until nothing is; what does not stop in time is left to its own end."""
        until = time.monotonic() + self._means.patience.cancel_grace
        while self._running and time.monotonic() < until:
            await self.cancel_in_flight()
            with suppress(TimeoutError):
                async with asyncio.timeout(CANCEL_EVERY_S):
                    await self._change()

    async def _mind_bridge(self) -> None:
        """Start another bridge in the place of every dead one, until the run stops."""
        sidecar = self._means.attempts.sidecar
        while True:
            await sidecar.child.exited.wait()
            await sidecar.child.kill()
            how = sidecar.child.describe_exit()
            self._means.log.error("bridge", how)
            self._bridge_deaths += 1
            if self._bridge_deaths > BRIDGE_DEATHS_IN_A_ROW:
                reason = self._means.attempts.redactor.message(f"the bridge keeps dying: {how}")
                self.stop(Stop("halted", reason))
            # What runs has nobody left to ask, and the next bridge would not know it.
            await self._empty()
            if self.stopping.is_set():
                return
            self._means.observer.stage("restarting the bridge")
            try:
                await sidecar.restart()
            except SidecarError as error:
                self.stop(Stop("halted", error.message))
                return
            self._changed.set()

    def _alarm(self, ended: Ended) -> None:
        """Say once, early, that nothing works: whoever watches need not wait for the end to see why."""
        self._ended += 1
        self._all_failed = self._all_failed and ended.record.status == "failed"
        if self._all_failed and self._ended == ALARMING:
            why = ended.record.error_message or ended.record.error_type
            text = f"the first {ALARMING} items all failed, the last one with: {why}"
            self._means.observer.warned(Warned("ALL_FAIL", text))
            self._means.log.warning("run", text)

    def _say_blocked(self, ended: Ended) -> None:
        if ended.blocked_ms is None:
            return
        row, run = ended.item
        text = (
            f"row {row} run {run} blocked the rollout server's event loop for "
            f"{ended.blocked_ms / 1000:.1f} s at {ended.blocked_at}; await instead, or write a plain `def run`"
        )
        self._means.observer.warned(Warned("BLOCKING_ROLLOUT", text))
        self._means.log.warning("rollout", text)
