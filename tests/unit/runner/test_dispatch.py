from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from osmosis_runner.attempt import Ended, Rollout
from osmosis_runner.dispatch import Dispatcher, Means, Patience, Stop
from osmosis_runner.errors import StorageError
from osmosis_runner.faults import LaunchError, LedgerUnavailable, SidecarError
from osmosis_runner.plan import WorkItem
from osmosis_runner.redaction import run_redactor
from osmosis_runner.runlog import RunLog
from osmosis_runner.workqueue import WorkQueue
from rollouts_under_test import Watcher
from runner_fakes import GOOD, FakeChild, FakeSidecar, Step, ended, failed, until_true

OK = {"status": "ok"}
DOWN = failed(503)

Behaviour = Callable[["Scene", Rollout], Awaitable[Ended]]


class Scene:
    """Everything dispatch works with, faked: `behave` says how each rollout ends."""

    def __init__(self, rows: int, places: int, behave: Behaviour, *steps: Step, retries: int = 2) -> None:
        self.behave = behave
        self.sidecar = FakeSidecar(*steps)
        self.redactor = run_redactor({}, [])
        self.server = SimpleNamespace(child=FakeChild(), client=self)
        self.started = 0
        self.start_fault: LaunchError | None = None
        self.records: list[Ended] = []
        self.kept_fault: StorageError | None = None
        self.unsynced_for = 0
        """Times that the bridge cannot put a rollout's records on disk."""
        self.in_flight = self.most = 0
        self.tallies = SimpleNamespace(dispatched=0)
        self.cancelled: list[str] = []
        self.watcher = Watcher()
        self.tail = self
        items = iter([WorkItem(number, 0) for number in range(rows)])
        means = Means(
            attempts=cast("Any", self),
            keeper=cast("Any", self),
            recorder=cast("Any", self),
            queue=WorkQueue(items),
            rows=cast("Any", [SimpleNamespace(source_row_index=n) for n in range(rows)]),
            earlier_attempts=lambda item: 0,
            log=RunLog(self.watcher, str),
            observer=self.watcher,
            patience=Patience(provider_delays=(0.0, 0.0), disk_delays=(0.01, 0.01), cancel_grace=0.3),
            retries=retries,
        )
        self.dispatcher = Dispatcher(means, places)
        self._ended: dict[str, Ended] = {}

    # As attempts:
    async def carry_out(self, rollout: Rollout, client: Any) -> None:
        self._ended[rollout.rollout_id] = await self.behave(self, rollout)
        rollout.lost = self._ended[rollout.rollout_id].lost

    async def settle(self, rollout: Rollout, *, unsynced: bool = False) -> Ended:
        if self.unsynced_for > 0 and not unsynced:
            self.unsynced_for -= 1
            raise LedgerUnavailable("the ledger cannot be written")
        return self._ended[rollout.rollout_id]

    # As the server's keeper and client:
    async def is_dead(self, server: Any) -> bool:
        return server.child.exited.is_set()

    async def start(self) -> None:
        self.started += 1
        if self.start_fault:
            raise self.start_fault
        self.server = SimpleNamespace(child=FakeChild(), client=self)

    async def cancel(self, ids: list[str]) -> None:
        self.cancelled += ids

    # As the recorder:
    def moved(self, change: int) -> None:
        self.in_flight += change
        self.most = max(self.most, self.in_flight)

    async def keep(self, attempt: Ended) -> None:
        await asyncio.sleep(0)
        if self.kept_fault:
            raise self.kept_fault
        self.records.append(attempt)

    @property
    def statuses(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for attempt in self.records:
            found.setdefault(attempt.item.row_index, []).append(attempt.record.status)
        return found


def dispatch(
    rows: int,
    behave: Behaviour,
    *steps: Step,
    places: int = 4,
    retries: int = 2,
    beside: Callable[[Scene], Awaitable[None]] | None = None,
) -> Scene:
    async def main() -> Scene:
        scene = Scene(rows, places, behave, *steps, retries=retries)
        async with asyncio.timeout(9), asyncio.TaskGroup() as group:
            group.create_task(scene.dispatcher.run())
            if beside is not None:
                group.create_task(cast("Any", beside(scene)))
        return scene

    return asyncio.run(main())


async def succeed(scene: Scene, rollout: Rollout) -> Ended:
    await asyncio.sleep(0)
    return ended(rollout.item.row_index, calls=(OK,))


def dies(*killers: int) -> Behaviour:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        server = scene.server
        await asyncio.sleep(0.001)
        if rollout.item.row_index in killers:
            server.child.exited.set()
        await asyncio.sleep(0.001)
        if server.child.exited.is_set():
            return ended(rollout.item.row_index, "cancelled", lost=True)
        return ended(rollout.item.row_index, calls=(OK,))

    return behave


def test_every_item_is_recorded_once_and_as_many_run_as_may() -> None:
    scene = dispatch(50, succeed, places=8)
    assert scene.statuses == {row: ["success"] for row in range(50)}
    assert (scene.most, scene.in_flight, scene.tallies.dispatched) == (8, 0, 50)
    assert scene.dispatcher.stopped is None


def test_nothing_to_do_ends_at_once() -> None:
    assert dispatch(0, succeed).records == []


def test_closing_and_recording_do_not_occupy_a_place_in_flight() -> None:
    async def slow_disk(scene: Scene) -> None:
        await until_true(lambda: scene.tallies.dispatched == 6)
        scene.gate.set()  # pyright: ignore[reportAttributeAccessIssue]

    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        if not hasattr(scene, "gate"):
            scene.gate = asyncio.Event()  # pyright: ignore[reportAttributeAccessIssue]
            real = scene.keep

            async def keep(attempt: Ended) -> None:
                await scene.gate.wait()  # pyright: ignore[reportAttributeAccessIssue]
                await real(attempt)

            scene.keep = keep
        return await succeed(scene, rollout)

    scene = dispatch(6, behave, places=2, beside=slow_disk)
    assert len(scene.records) == 6
    assert scene.most == 2


def test_an_item_that_kills_the_server_fails_and_the_others_succeed() -> None:
    scene = dispatch(12, dies(5), places=6)
    finals = {row: statuses[-1] for row, statuses in scene.statuses.items()}
    assert finals == {row: "failed" if row == 5 else "success" for row in range(12)}
    assert all(
        statuses.count("success") + statuses.count("failed") == 1 for statuses in scene.statuses.values()
    )
    guilty = [a.record for a in scene.records if a.record.status == "failed"]
    assert (guilty[0].error_type, guilty[0].error_phase) == ("server_died", "server")
    assert "exited with code 1" in (guilty[0].error_message or "")
    assert scene.started >= 2
    assert scene.dispatcher.stopped is None


def test_a_server_that_cannot_be_started_again_halts_the_run() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        scene.start_fault = LaunchError("no port")
        return await dies(0)(scene, rollout)

    scene = dispatch(3, behave, places=1)
    assert scene.dispatcher.stopped == Stop("halted", "no port")
    assert scene.statuses == {0: ["cancelled"]}


def test_a_rollout_lost_on_a_living_server_is_ended_there_and_runs_again() -> None:
    seen: list[str] = []

    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        seen.append(rollout.rollout_id)
        if len(seen) == 1:
            return ended(0, "cancelled", lost=True)
        return await succeed(scene, rollout)

    async def settle_as_alive(scene: Scene) -> None:
        original = scene.settle

        async def settle(rollout: Rollout, *, unsynced: bool = False) -> Ended:
            from msgspec.structs import replace

            return replace(await original(rollout, unsynced=unsynced), lost=rollout.lost)

        scene.settle = settle

    scene = dispatch(1, behave, beside=settle_as_alive)
    assert scene.statuses == {0: ["cancelled", "success"]}
    assert scene.cancelled == seen[:1]


def test_an_item_that_is_cancelled_again_and_again_fails_in_the_end() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        return ended(0, "cancelled")

    scene = dispatch(1, behave)
    assert scene.statuses == {0: ["cancelled", "cancelled", "failed"]}
    assert scene.records[-1].record.error_type == "cancelled"


def out(row: int) -> Ended:
    return ended(row, "failed", error_type="provider_error", provider_trouble="the provider answered 503")


def test_an_outage_halts_the_run_and_no_item_fails() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        return out(rollout.item.row_index)

    scene = dispatch(100, behave, DOWN, DOWN, DOWN)
    assert scene.dispatcher.stopped == Stop("halted", "the provider is out: 503 no")
    assert {status for statuses in scene.statuses.values() for status in statuses} == {"cancelled"}
    assert scene.tallies.dispatched < 20
    assert scene.watcher.stages == ["waiting for the provider: the provider answered 503"]


def test_items_run_again_once_the_provider_answers() -> None:
    tried: dict[int, int] = {}

    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        row = rollout.item.row_index
        tried[row] = tried.get(row, 0) + 1
        return out(row) if tried[row] == 1 else await succeed(scene, rollout)

    scene = dispatch(12, behave, DOWN, GOOD, GOOD, GOOD, GOOD)
    assert {statuses[-1] for statuses in scene.statuses.values()} == {"success"}
    assert scene.dispatcher.stopped is None


def test_an_item_that_fails_with_a_healthy_provider_fails_in_the_end() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        return out(1) if rollout.item.row_index == 1 else await succeed(scene, rollout)

    scene = dispatch(3, behave, GOOD, GOOD, GOOD, places=1)
    assert scene.statuses[1] == ["cancelled", "cancelled", "failed"]
    assert scene.records[-1].record.error_type == "provider_error"
    assert (scene.statuses[0], scene.statuses[2]) == (["success"], ["success"])


def test_a_dead_bridge_is_replaced_and_what_it_failed_runs_again() -> None:
    tried: dict[int, int] = {}

    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        row = rollout.item.row_index
        tried[row] = tried.get(row, 0) + 1
        if row in (2, 5) and tried[row] == 1:
            scene.sidecar.child.exited.set()
            return ended(row, "cancelled", orphaned=True)
        return await succeed(scene, rollout)

    scene = dispatch(8, behave, places=1)
    assert scene.dispatcher.stopped is None
    assert scene.sidecar.restarts == 2
    assert {statuses[-1] for statuses in scene.statuses.values()} == {"success"}
    assert scene.statuses[2] == ["cancelled", "success"]
    assert scene.watcher.stages == ["restarting the bridge"] * 2


def test_rollouts_without_a_bridge_are_told_to_end_before_the_next_one_begins() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        row = rollout.item.row_index
        if scene.sidecar.restarts:
            return await succeed(scene, rollout)
        if row == 3:
            scene.sidecar.child.exited.set()
        await until_true(lambda: rollout.rollout_id in scene.cancelled)
        return ended(row, "cancelled", orphaned=True)

    scene = dispatch(4, behave)
    assert scene.statuses == {row: ["cancelled", "success"] for row in range(4)}


def test_a_bridge_that_keeps_dying_halts_the_run() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        scene.sidecar.child.exited.set()
        return ended(rollout.item.row_index, "cancelled", orphaned=True)

    scene = dispatch(1, behave, places=1)
    assert scene.dispatcher.stopped is not None
    assert scene.dispatcher.stopped.kind == "halted"
    assert "the bridge keeps dying" in scene.dispatcher.stopped.reason
    assert scene.sidecar.restarts == 4
    assert set(scene.statuses[0]) == {"cancelled"}


def test_a_bridge_that_cannot_start_again_halts_the_run() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        scene.sidecar.fault = SidecarError("no port is free")
        scene.sidecar.child.exited.set()
        return ended(rollout.item.row_index, "cancelled", orphaned=True)

    scene = dispatch(5, behave, places=1)
    assert scene.dispatcher.stopped == Stop("halted", "no port is free")
    assert scene.statuses == {0: ["cancelled"]}


def test_without_retries_an_item_fails_at_its_first_try() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        return out(1) if rollout.item.row_index == 1 else await succeed(scene, rollout)

    scene = dispatch(3, behave, GOOD, places=1, retries=0)
    assert scene.statuses == {0: ["success"], 1: ["failed"], 2: ["success"]}


def test_a_full_disk_halts_the_run() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        if rollout.item.row_index == 2:
            scene.kept_fault = StorageError("disk full")
        return await succeed(scene, rollout)

    scene = dispatch(100, behave, places=1)
    assert scene.dispatcher.stopped == Stop("halted", "disk full")
    assert len(scene.records) == 2


def test_stopping_starts_nothing_more_and_ends_when_what_runs_has_ended() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        await until_true(lambda: scene.cancelled)
        return ended(rollout.item.row_index, "cancelled")

    async def stop(scene: Scene) -> None:
        await until_true(lambda: scene.in_flight == 4)
        scene.dispatcher.stop(Stop("interrupted", "stopped by SIGINT"))
        scene.dispatcher.stop(Stop("halted", "too late to be a reason"))
        assert len(scene.dispatcher.in_flight()) == 4
        await scene.dispatcher.cancel_in_flight()

    scene = dispatch(100, behave, beside=stop)
    assert scene.dispatcher.stopped == Stop("interrupted", "stopped by SIGINT")
    assert scene.tallies.dispatched == 4
    assert scene.statuses == {row: ["cancelled"] for row in range(4)}


def test_a_rollout_that_blocked_the_server_is_named() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        return ended(0, blocked_ms=2500, blocked_at="main.py:8 in run")

    (warning,) = dispatch(1, behave).watcher.warnings
    assert warning.code == "BLOCKING_ROLLOUT"
    assert "row 0 run 0 blocked" in warning.text
    assert "main.py:8 in run" in warning.text


def test_that_nothing_works_is_said_early_and_once() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        return ended(rollout.item.row_index, "failed", error_message="400 temperature is not supported")

    (warning,) = dispatch(20, behave, places=1).watcher.warnings
    assert warning.code == "ALL_FAIL"
    assert warning.text == (
        "the first 5 items all failed, the last one with: 400 temperature is not supported"
    )


def test_one_good_item_at_the_beginning_is_enough_to_say_nothing() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        if rollout.item.row_index == 2:
            return await succeed(scene, rollout)
        return ended(rollout.item.row_index, "failed")

    assert dispatch(20, behave, places=1).watcher.warnings == []


def test_a_rollout_that_does_not_stop_keeps_no_bridge_from_being_replaced() -> None:
    async def behave(scene: Scene, rollout: Rollout) -> Ended:
        row = rollout.item.row_index
        if scene.sidecar.restarts or row == 1:
            return await succeed(scene, rollout)
        if row == 2:
            scene.sidecar.child.exited.set()
            return ended(row, "cancelled", orphaned=True)
        await until_true(lambda: scene.sidecar.restarts)
        return ended(row, "cancelled", orphaned=True)

    scene = dispatch(6, behave, places=3)
    assert scene.sidecar.restarts == 1
    assert {statuses[-1] for statuses in scene.statuses.values()} == {"success"}


def test_a_ledger_that_cannot_be_written_for_a_moment_is_waited_for_and_nothing_starts_meanwhile() -> None:
    seen: list[int] = []

    async def begin(scene: Scene, rollout: Rollout) -> Ended:
        seen.append(scene.unsynced_for)
        if rollout.item.row_index == 0:
            scene.unsynced_for = 2
        return await succeed(scene, rollout)

    scene = dispatch(4, begin, places=1)
    assert scene.dispatcher.stopped is None
    assert scene.statuses == {row: ["success"] for row in range(4)}
    assert seen[:1] == [0]
    assert seen[-1] == 0
    assert any(
        "until records can be kept: the ledger cannot be written" in text for text in scene.watcher.stages
    )


def test_what_was_paid_for_is_recorded_although_the_ledger_stays_unwritable() -> None:
    async def begin(scene: Scene, rollout: Rollout) -> Ended:
        scene.unsynced_for = 99
        return await succeed(scene, rollout)

    scene = dispatch(9, begin, places=2)
    stopped = scene.dispatcher.stopped
    assert stopped is not None
    assert (stopped.kind, stopped.reason) == ("halted", "the ledger cannot be written")
    begun = scene.tallies.dispatched
    assert 0 < begun < 9
    assert list(scene.statuses.values()) == [["success"]] * begun
