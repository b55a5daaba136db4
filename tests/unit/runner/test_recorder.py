from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from osmosis_runner import recorder as recorder_module
from osmosis_runner.errors import StorageError
from osmosis_runner.journal import JournalRecord
from osmosis_runner.ledger_tail import Waits
from osmosis_runner.recorder import Books, Recorder
from osmosis_runner.report import Report
from rollouts_under_test import Watcher
from runner_fakes import ended, until_true


class FakeDisk:
    """Journal, index and projector in one; notes what was done and on which thread."""

    def __init__(self) -> None:
        self.batches: list[list[JournalRecord]] = []
        self.indexed: list[JournalRecord] = []
        self.flushed = 0
        self.threads: set[str] = set()
        self.fault: StorageError | None = None
        self.hold = threading.Event()
        self.hold.set()

    def append(self, records: Sequence[JournalRecord]) -> None:
        self.threads.add(threading.current_thread().name)
        assert self.hold.wait(9)
        if self.fault:
            raise self.fault
        self.batches.append(list(records))

    def add(self, record: JournalRecord, *, resumed: bool = False) -> None:
        self.indexed.append(record)

    def flush(self) -> None:
        self.flushed += 1

    def project(self, record: JournalRecord, calls: object, transcript: object) -> bool:
        return record.row_index == 0

    def keep_void(self, record: JournalRecord, calls: object, transcript: object) -> bool:
        return record.row_index == 0


def recording(
    check: Callable[[Recorder, FakeDisk, Watcher, list[Any]], Awaitable[None]], rows: int = 10
) -> FakeDisk:
    disk, watcher, snapshots = FakeDisk(), Watcher(), []

    async def main() -> None:
        fake = cast("Any", disk)
        books = Books(fake, fake, Report(rows, 1, 1.0), fake, 1.0)
        recorder = Recorder(books, watcher, snapshots.append)
        recorder.tallies.planned = rows
        try:
            async with asyncio.timeout(9), asyncio.TaskGroup() as group:
                running = group.create_task(recorder.run())
                await check(recorder, disk, watcher, snapshots)
                running.cancel()
        finally:
            recorder.close()

    asyncio.run(main())
    return disk


def test_an_item_is_told_after_its_record_is_kept() -> None:
    async def check(recorder: Recorder, disk: FakeDisk, watcher: Watcher, _: list[Any]) -> None:
        disk.hold.clear()
        keeping = asyncio.create_task(recorder.keep(ended(0, reward=1.0, tokens=13)))
        await asyncio.sleep(0.03)
        assert not keeping.done()
        assert watcher.items == []
        disk.hold.set()
        await keeping
        assert [record.trajectory_filename for record in disk.batches[0]] == ["trajectory.json"]
        assert (watcher.items[0].passed, watcher.items[0].tokens) == (True, 13)
        progress = recorder.progress()
        assert (progress.done, progress.passed, progress.finished_here, progress.tokens) == (1, 1, 1, 13)

    assert recording(check).threads == {"disk_0"}


def test_what_ends_while_the_disk_is_busy_is_recorded_together() -> None:
    async def check(recorder: Recorder, disk: FakeDisk, watcher: Watcher, _: list[Any]) -> None:
        disk.hold.clear()
        first = asyncio.create_task(recorder.keep(ended(0)))
        await asyncio.sleep(0.02)
        others = [asyncio.create_task(recorder.keep(ended(row))) for row in range(1, 6)]
        await asyncio.sleep(0.02)
        disk.hold.set()
        await asyncio.gather(first, *others)
        assert [len(batch) for batch in disk.batches] == [1, 5]
        assert [item.row_index for item in watcher.items] == list(range(6))

    recording(check)


def test_a_fault_of_the_disk_reaches_everyone_who_waits_and_nobody_is_told() -> None:
    async def check(recorder: Recorder, disk: FakeDisk, watcher: Watcher, _: list[Any]) -> None:
        disk.fault = StorageError("disk full")
        results = await asyncio.gather(
            *(recorder.keep(ended(row)) for row in range(3)), return_exceptions=True
        )
        assert [type(result) for result in results] == [StorageError] * 3
        assert watcher.items == []
        assert recorder.progress().done == 0
        disk.fault = None
        await recorder.keep(ended(4))
        assert recorder.progress().done == 1

    recording(check)


def test_a_cancelled_attempt_is_kept_and_finishes_nothing() -> None:
    async def check(recorder: Recorder, disk: FakeDisk, watcher: Watcher, _: list[Any]) -> None:
        await recorder.keep(ended(0, "cancelled", tokens=5))
        assert [record.trajectory_filename for record in disk.batches[0]] == ["trajectory.json"]
        assert watcher.items == []
        assert (recorder.tallies.cancelled, recorder.tallies.finished, recorder.progress().done) == (1, 0, 0)

    recording(check)


def test_an_item_that_is_to_be_retried_is_not_done_and_its_old_record_counts_meanwhile() -> None:
    async def check(recorder: Recorder, disk: FakeDisk, _: Watcher, __: list[Any]) -> None:
        for row, status in enumerate(["success", "failed", "failed"]):
            recorder.take_in(ended(row, status).record)
        assert disk.batches == []
        recorder.tallies.planned = 9
        progress = recorder.progress()
        assert (progress.done, progress.failed, progress.scored) == (1, 2, 3)
        await recorder.keep(ended(1, "success"))
        progress = recorder.progress()
        assert (progress.done, progress.failed, recorder.pending) == (2, 1, 8)

    recording(check)


def test_snapshots_follow_what_was_recorded_and_stop_when_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "SNAPSHOT_EVERY_S", 0.01)

    async def check(recorder: Recorder, disk: FakeDisk, _: Watcher, snapshots: list[Any]) -> None:
        await asyncio.sleep(0.05)
        assert snapshots == []
        await recorder.keep(ended(0, reward=1.0))
        await until_true(lambda: snapshots)
        await asyncio.sleep(0.05)
        assert (len(snapshots), disk.flushed) == (1, 1)
        assert snapshots[0]["passed"] == 1

    recording(check)


def test_waits_for_the_provider_are_told_when_they_change() -> None:
    async def check(recorder: Recorder, _: FakeDisk, watcher: Watcher, __: list[Any]) -> None:
        for waits in (Waits(), Waits(3, 2, 429), Waits(3, 2, 429), Waits(4, 0, 503)):
            recorder.waited(waits)
        assert watcher.waits == [(3, 2), (4, 0)]

    recording(check)


def test_moves_are_told_with_the_number_in_flight() -> None:
    async def check(recorder: Recorder, _: FakeDisk, watcher: Watcher, __: list[Any]) -> None:
        recorder.moved(+1)
        recorder.moved(+1)
        recorder.moved(-1)
        assert watcher.most_in_flight == 2
        assert recorder.progress().in_flight == 1

    recording(check)
