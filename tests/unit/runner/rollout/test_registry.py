from __future__ import annotations

import pytest

from osmosis_runner.rollout.admission import RolloutRequest
from osmosis_runner.rollout.registry import LEASE_S, Entry, Registry, Status, Taken


def request(rollout_id: str = "a") -> RolloutRequest:
    return RolloutRequest(rollout_id, [], "http://x")


def admitted(registry: Registry, rollout_id: str = "a", now: float = 0.0) -> Entry:
    return registry.admit(request(rollout_id), "token", now)


def test_an_id_is_taken_while_active_and_while_its_result_is_kept() -> None:
    registry = Registry(retention_s=900)
    entry = admitted(registry)
    with pytest.raises(Taken):
        admitted(registry)
    registry.conclude(entry, Status.SUCCESS, b"{}", now=10)
    registry.ended(entry)
    registry.forget(now=909)
    with pytest.raises(Taken):
        admitted(registry)
    registry.forget(now=910)
    assert admitted(registry) is not entry


def test_an_id_stays_taken_while_its_code_still_runs() -> None:
    registry = Registry(retention_s=10)
    entry = admitted(registry)
    registry.conclude(entry, Status.FAILURE, b"{}", now=0)
    registry.forget(now=11)
    assert registry.find("a") is entry
    assert registry.active == 1
    registry.ended(entry)
    assert registry.active == 0
    registry.forget(now=21)
    assert registry.find("a") is None


def test_only_the_first_result_counts() -> None:
    registry = Registry()
    entry = admitted(registry)
    assert registry.conclude(entry, Status.FAILURE, b"first", now=0)
    assert not registry.conclude(entry, Status.SUCCESS, b"second", now=1)
    assert (entry.status, entry.result) == (Status.FAILURE, b"first")


def test_a_finished_rollout_does_not_go_back() -> None:
    registry = Registry()
    entry = admitted(registry)
    registry.conclude(entry, Status.CANCELLED, b"{}", now=0)
    registry.advance(entry, Status.GRADING)
    assert entry.status is Status.CANCELLED


def test_who_waits_is_woken_once_by_a_change_and_not_by_a_repetition() -> None:
    registry = Registry()
    entry = admitted(registry)
    woken: list[int] = []
    entry.waiters.append(lambda: woken.append(1))
    registry.advance(entry, Status.QUEUED)
    assert woken == []
    registry.advance(entry, Status.RUNNING)
    registry.advance(entry, Status.GRADING)
    assert woken == [1]


def test_a_lease_lapses_without_a_poll_and_a_poll_renews_it() -> None:
    registry = Registry()
    entry = admitted(registry, now=0.0)
    registry.renew(entry, now=50.0)
    assert registry.lapsed(LEASE_S + 49) == []
    assert registry.lapsed(LEASE_S + 50) == [entry]
    registry.conclude(entry, Status.SUCCESS, b"{}", now=60)
    assert registry.lapsed(10_000) == []


def test_selection_is_by_id_prefix_or_all_and_passes_over_finished_ones() -> None:
    registry = Registry()
    a1, a2, b1 = (admitted(registry, name) for name in ("a1", "a2", "b1"))
    done = admitted(registry, "a3")
    registry.conclude(done, Status.SUCCESS, b"{}", now=0)
    assert registry.select(["a2", "zz"], None) == [a2]
    assert registry.select(None, "a") == [a1, a2]
    assert registry.select(None, None) == [a1, a2, b1]


def test_delivered_results_are_dropped_when_too_many_bytes_are_held() -> None:
    registry = Registry(retained_bytes=250)
    entries = [admitted(registry, f"r{number}") for number in range(4)]
    for entry in entries:
        registry.conclude(entry, Status.SUCCESS, b"x" * 100, now=0)
        registry.ended(entry)
    assert all(entry.result for entry in entries)
    registry.delivered(entries[0])
    registry.delivered(entries[0])
    registry.delivered(entries[1])
    assert [entry.result is None for entry in entries] == [True, True, False, False]
    assert registry.find("r0") is entries[0]


def test_counts_tell_waiting_from_running() -> None:
    registry = Registry()
    admitted(registry, "a")
    registry.advance(admitted(registry, "b"), Status.RUNNING)
    registry.advance(admitted(registry, "c"), Status.GRADING)
    assert registry.counts() == (1, 2)


def test_of_many_finished_rollouts_the_oldest_that_were_handed_out_are_forgotten_early() -> None:
    registry = Registry(most_finished=2)
    entries = [admitted(registry, name) for name in "abcd"]
    for entry in entries:
        registry.conclude(entry, Status.SUCCESS, b"{}", now=0)
        registry.ended(entry)
    registry.forget(now=1)
    assert registry.find("a") is entries[0]
    for entry in entries[:3]:
        registry.delivered(entry)
    registry.forget(now=1)
    assert [registry.find(name) is not None for name in "abcd"] == [False, False, True, True]
