"""Makes results count: journal first, then figures, snapshots and whoever watches.

All disk work of a run happens on one thread, in order. Attempts that end while the disk is busy are recorded
together with one fsync. An item is told to nobody before its record is on disk.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from osmosis_runner.errors import StorageError
from osmosis_runner.events import FinishedItem, Observer, Progress
from osmosis_runner.journal import KEPT
from osmosis_runner.ledger_tail import Waits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from osmosis_runner.attempt import Ended
    from osmosis_runner.journal import Journal, JournalRecord
    from osmosis_runner.jsontext import JsonObject
    from osmosis_runner.projection import Projector
    from osmosis_runner.report import Report
    from osmosis_runner.snapshots import IndexWriter

SNAPSHOT_EVERY_S = 1.0

Result = TypeVar("Result")


class Books(msgspec.Struct, frozen=True):
    """Where a run's results are written."""

    journal: Journal
    index: IndexWriter
    report: Report
    projector: Projector
    pass_threshold: float


class Tallies(msgspec.Struct):
    """Counts of this invocation."""

    dispatched: int = 0
    finished: int = 0
    cancelled: int = 0
    resumed: int = 0
    in_flight: int = 0
    planned: int = 0
    """Items that this invocation is to record."""
    waits: Waits = msgspec.field(default_factory=Waits)
    began: float = msgspec.field(default_factory=time.monotonic)


class Recorder:
    """Records what ends. `snapshot` makes metrics.json's and progress.json's content and writes them."""

    def __init__(self, books: Books, observer: Observer, snapshot: Callable[[JsonObject], None]) -> None:
        self._books = books
        self._observer = observer
        self._snapshot = snapshot
        self._disk = ThreadPoolExecutor(1, "disk")
        self._batch: list[tuple[Ended, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()
        self._dirty = False
        self.tallies = Tallies()

    async def run(self) -> None:
        """Record batch after batch, for ever; snapshots in between."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._snapshots())
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                batch, self._batch = self._batch, []
                await self._record(batch)

    async def keep(self, ended: Ended) -> None:
        """Return once the attempt is on disk; raises `StorageError` when it could not be written."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._batch.append((ended, kept))
        self._arrived.set()
        await kept

    async def on_disk_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:  # noqa: ANN401
        """Run blocking file work after everything that was asked for before."""
        return await asyncio.get_running_loop().run_in_executor(self._disk, function, *arguments)

    def take_in(self, record: JournalRecord) -> None:
        """A record that an earlier invocation wrote: counted, not written again."""
        self._books.report.add(record)

    def moved(self, change: int) -> None:
        """So many more rollouts are in flight."""
        self.tallies.in_flight += change
        self._observer.moved(self.progress())

    @property
    def pending(self) -> int:
        """Items that this invocation is still to record."""
        return self.tallies.planned - self.tallies.finished

    def waited(self, waits: Waits) -> None:
        """The provider keeps rollouts waiting so."""
        if waits != self.tallies.waits:
            self.tallies.waits = waits
            self._observer.moved(self.progress())

    def progress(self) -> Progress:
        """Where the run stands."""
        live, tallies = self._books.report.live(), self.tallies
        return Progress(
            total=live.total,
            done=live.total - self.pending,
            succeeded=live.succeeded,
            failed=live.failed,
            skipped=live.skipped,
            passed=live.passed,
            resumed=tallies.resumed,
            in_flight=tallies.in_flight,
            tokens=live.tokens_used,
            cost_usd=live.cost_usd,
            elapsed_s=time.monotonic() - tallies.began,
            finished_here=tallies.finished,
            retries=tallies.waits.refusals,
            waiting=tallies.waits.waiting,
        )

    def close(self) -> None:
        """End the disk thread once it is idle."""
        self._disk.shutdown(wait=True)

    async def _record(self, batch: list[tuple[Ended, asyncio.Future[None]]]) -> None:
        try:
            records = await self.on_disk_thread(self._commit, [ended for ended, _ in batch])
        except StorageError as error:
            for _, kept in batch:
                if not kept.done():
                    kept.set_exception(error)
            return
        for record, (_, kept) in zip(records, batch, strict=True):
            self._tell(record)
            if not kept.done():
                kept.set_result(None)

    def _commit(self, batch: Sequence[Ended]) -> list[JournalRecord]:
        """On the disk thread: trajectories and artifacts, then the journal, then the index."""
        books = self._books
        records = [self._projected(ended) for ended in batch]
        books.journal.append(records)
        for record in records:
            books.index.add(record)
        return records

    def _projected(self, ended: Ended) -> JournalRecord:
        record = ended.record
        projector = self._books.projector
        keep = projector.keep_void if record.status == "cancelled" else projector.project
        try:
            kept = keep(record, ended.calls, ended.transcript)
        except OSError as error:
            raise StorageError.of(str(error.filename or projector.run.path), error, KEPT) from None
        return msgspec.structs.replace(record, trajectory_filename="trajectory.json") if kept else record

    def _tell(self, record: JournalRecord) -> None:
        self._books.report.add(record)
        self._dirty = True
        if record.status == "cancelled":
            self.tallies.cancelled += 1
            return
        self.tallies.finished += 1
        self._observer.item_finished(_finished(record, self._books.pass_threshold), self.progress())

    async def _snapshots(self) -> None:
        while True:
            await asyncio.sleep(SNAPSHOT_EVERY_S)
            if not self._dirty:
                continue
            self._dirty = False
            summary = self._books.report.summary(full=False)
            try:
                await self.on_disk_thread(self._write_snapshot, summary)
            except StorageError:
                # The journal meets the same fault, with a result at stake, and says so.
                self._dirty = True

    def _write_snapshot(self, summary: JsonObject) -> None:
        self._books.index.flush()
        self._snapshot(summary)


def _finished(record: JournalRecord, threshold: float) -> FinishedItem:
    status = record.status
    passed = status == "success" and record.reward is not None and record.reward >= threshold
    return FinishedItem(
        row_index=record.row_index,
        run_index=record.run_index,
        rollout_id=record.rollout_id,
        status="failed" if status == "cancelled" else status,
        reward=record.reward,
        passed=passed,
        tokens=record.tokens,
        max_context_tokens=record.max_context_tokens,
        duration_ms=record.duration_ms,
        source_row_index=record.source_row_index,
        error_type=record.error_type,
        error_message=record.error_message,
    )
