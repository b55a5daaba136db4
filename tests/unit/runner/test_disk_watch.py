from __future__ import annotations

import asyncio
import errno
from typing import Any, cast

import pytest

from osmosis_runner.disk_watch import DiskWatch
from osmosis_runner.errors import RunnerError, StorageError
from osmosis_runner.faults import LedgerUnavailable, SidecarError
from osmosis_runner.runlog import RunLog
from rollouts_under_test import Watcher
from virtual_loop import run_in_virtual_time

FULL = StorageError.of("/r/events.jsonl", OSError(errno.ENOSPC, "No space left on device"), "kept")
GONE = StorageError.of("/r/events.jsonl", OSError(errno.ENOENT, "No such file"), "kept")
LEDGER = LedgerUnavailable("the ledger cannot be written")


class Disk:
    """Fails with each of the faults, one after another, then takes what it is given."""

    def __init__(self, *faults: RunnerError) -> None:
        self.faults = list(faults)
        self.tries = 0

    async def keep(self) -> str:
        await asyncio.sleep(0)
        self.tries += 1
        if self.faults:
            raise self.faults.pop(0)
        return "kept"


def watched(disk: Disk, *, stop_after_s: float | None = None) -> tuple[str | RunnerError, float, list[str]]:
    """What came of it, how long it took, and what was said."""
    observer = Watcher()

    async def main() -> tuple[str | RunnerError, float]:
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        watch = DiskWatch((1.0, 2.0, 4.0), stopping, cast("RunLog", Quiet()), observer)
        if stop_after_s is not None:
            loop.call_later(stop_after_s, stopping.set)
        began = loop.time()
        try:
            return await watch.patiently(disk.keep), loop.time() - began
        except RunnerError as error:
            return error, loop.time() - began
        finally:
            assert watch.waiting == 0

    result, took = run_in_virtual_time(main())
    return result, took, observer.stages


class Quiet:
    def warning(self, *_: Any) -> None: ...


def test_what_a_full_disk_does_not_take_is_tried_again_and_said_once() -> None:
    disk = Disk(FULL, LEDGER)
    assert watched(disk) == (
        "kept",
        3.0,
        [f"nothing new starts for up to 7 s, until records can be kept: {FULL}"],
    )
    assert disk.tries == 3


def test_a_disk_that_works_is_not_spoken_of() -> None:
    assert watched(Disk()) == ("kept", 0.0, [])


def test_it_is_not_waited_for_ever() -> None:
    faults = [LedgerUnavailable(f"fault {number}") for number in range(9)]
    result, took, _ = watched(Disk(*faults))
    assert (str(result), took) == ("fault 3", 7.0)


@pytest.mark.parametrize("fault", [GONE, SidecarError("the bridge died")])
def test_what_no_waiting_mends_is_raised_at_once(fault: RunnerError) -> None:
    assert watched(Disk(fault)) == (fault, 0.0, [])
    assert watched(Disk(FULL, fault))[:2] == (fault, 1.0)


def test_a_run_that_is_to_stop_waits_no_longer() -> None:
    result, took, _ = watched(Disk(*[LEDGER] * 9), stop_after_s=1.5)
    assert (result, took) == (LEDGER, 1.5)
