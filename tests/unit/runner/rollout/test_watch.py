from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from osmosis_runner.rollout.admission import RolloutRequest
from osmosis_runner.rollout.execution import Job, current_job
from osmosis_runner.rollout.registry import Status
from osmosis_runner.rollout.watch import PROBE_SIGNAL, Blockage, Watch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")


class Nobody:
    def entered(self, job: Job, status: Status) -> None: ...

    def concluded(self, job: Job, status: Status, reply: bytes) -> None: ...


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    assert PROBE_SIGNAL is not None
    before = signal.getsignal(PROBE_SIGNAL)
    yield
    signal.signal(PROBE_SIGNAL, before)


class Side:
    """The watching thread, beside a main thread that blocks."""

    def __init__(self, watch: Watch, answer_after: Callable[[], bool]) -> None:
        self.noticed: list[Blockage] = []
        self.over: list[tuple[Blockage, float]] = []
        self._watch = watch
        self._answers: list[Callable[[], None]] = []
        self._answer_after = answer_after
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(9)

    async def _run(self) -> None:
        task = asyncio.create_task(
            self._watch.run(
                self._answers.append,
                lambda: True,
                lambda blockage, length: self.over.append((blockage, length)),
                self.noticed.append,
            )
        )
        async with asyncio.timeout(8):
            while not self._answer_after():
                await asyncio.sleep(0.02)
            for answer in self._answers:
                answer()
            while not self.over:
                await asyncio.sleep(0.02)
        task.cancel()


def job() -> Job:
    return Job(RolloutRequest("r1", [], "http://x"), Path(), Nobody())


def test_a_blocking_rollout_is_named_with_its_place_and_its_time_is_counted() -> None:
    watch = Watch(time.monotonic)
    watch.install()
    free = threading.Event()
    token = current_job.set(job())
    try:
        with Side(watch, free.is_set) as side:
            time.sleep(1.6)
            assert watch.stuck_for(time.monotonic()) > 1
            free.set()
    finally:
        current_job.reset(token)
    (noticed,) = side.noticed
    assert noticed.job is not None
    assert noticed.job.request.rollout_id == "r1"
    assert noticed.where is not None
    assert noticed.where.startswith("test_watch.py:")
    ((_, length),) = side.over
    assert length > 1.0
    assert watch.lost(time.monotonic()) == length
    assert watch.stuck_for(time.monotonic()) == 0


def test_a_condemned_rollout_is_broken_into_wherever_it_blocks() -> None:
    watch = Watch(time.monotonic)
    watch.install()
    free = threading.Event()
    condemned = job()
    condemned.condemned = True
    token = current_job.set(condemned)
    began = time.monotonic()
    try:
        with Side(watch, free.is_set):
            with pytest.raises(asyncio.CancelledError):
                time.sleep(30)
            free.set()
    finally:
        current_job.reset(token)
    assert time.monotonic() - began < 9


def test_a_probe_that_meets_no_rollout_does_nothing() -> None:
    watch = Watch(time.monotonic)
    watch.install()
    watch.poke()
    assert watch.culprit() is None


def test_the_first_import_of_a_library_is_nobodys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_heavy_library.py").write_text("import time\ntime.sleep(1.6)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    watch = Watch(time.monotonic)
    watch.install()
    free = threading.Event()
    token = current_job.set(job())
    try:
        with Side(watch, free.is_set) as side:
            __import__("a_heavy_library")
            free.set()
    finally:
        current_job.reset(token)
    assert side.noticed == []
    ((blockage, length),) = side.over
    assert (blockage.job, length > 1.0) == (None, True)
