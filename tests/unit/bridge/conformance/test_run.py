"""The runner: which cases, in what order, and what it says of a target that cannot be tried."""

from __future__ import annotations

import asyncio

import pytest

from mini_proxy import BEARER, Faults, MiniProxy, free_port
from osmosis_bridge.conformance import Case, CaseResult, Fault, Report, Target, Unreachable, run_suite, select
from osmosis_bridge.conformance import run as running
from osmosis_bridge.conformance.case import with_bearer
from osmosis_bridge.conformance.run import NO_BEARER
from osmosis_bridge.conformance.stage import Stage


def test_cases_are_chosen_by_pattern_and_kind() -> None:
    assert [case.id for case in select(["F1-user"])] == ["F1-user"]
    assert {case.kind for case in select(kinds="SU")} == {"S", "U"}
    assert select(["F*"], kinds="S") == []
    assert len(select()) > 600


async def _passes(stage: Stage) -> Fault | None:
    return None


async def _fails(stage: Stage) -> Fault | None:
    return Fault("this", "that")


async def _hangs(stage: Stage) -> Fault | None:
    await asyncio.sleep(30)


async def _breaks(stage: Stage) -> Fault | None:
    raise ConnectionResetError("gone")


def run(
    *cases: Case,
    bearer: str = BEARER,
    seen: list[CaseResult] | None = None,
    faults: Faults | None = None,
    upstream_model: str | None = None,
) -> Report:
    async def work() -> Report:
        port = free_port()
        async with MiniProxy(port, faults or Faults()) as proxy:
            target = Target(f"{proxy.url}/v1", bearer=bearer or None, upstream_model=upstream_model)
            tell = seen.append if seen is not None else None
            return await run_suite(target, upstream_port=port, cases=cases, on_result=tell)

    return asyncio.run(work())


def test_results_come_in_the_order_of_the_cases_and_as_they_end() -> None:
    told: list[CaseResult] = []
    cases = (Case("F-a", "a", _passes, alone=True), Case("F-b", "b", _fails), Case("F-c", "c", _passes))
    report = run(*cases, seen=told)
    assert [(case.id, case.result) for case in report.results] == [
        ("F-a", "passed"),
        ("F-b", "failed"),
        ("F-c", "passed"),
    ]
    assert (report.failures()[0].expected, report.failures()[0].seen) == ("this", "that")
    assert told[-1].id == "F-a"


def test_a_case_that_never_ends_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "CASE_DEADLINE", 0.05)
    report = run(Case("F-a", "a", _hangs), Case("F-b", "b", _passes))
    assert [case.result for case in report.results] == ["failed", "passed"]


def test_a_connection_that_breaks_is_a_failure_of_the_case() -> None:
    assert run(Case("F-a", "a", _breaks)).failures()[0].seen == "gone"


def test_a_target_that_does_not_ask_the_upstream_is_told_so() -> None:
    with pytest.raises(Unreachable, match="without asking the upstream"):
        run(Case("F-a", "a", _passes), bearer="wrong")


def test_a_target_that_does_not_listen_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "STARTING", 0.2)
    work = run_suite(Target(f"http://127.0.0.1:{free_port()}"), upstream_port=free_port(), cases=[])
    with pytest.raises(Unreachable, match="nothing answers"):
        asyncio.run(work)


def test_a_target_that_is_still_starting_is_waited_for() -> None:
    async def work() -> Report:
        port, later = free_port(), free_port()
        async with asyncio.TaskGroup() as group:
            suite = group.create_task(
                run_suite(Target(f"http://127.0.0.1:{later}", bearer=BEARER), upstream_port=port, cases=[])
            )
            await asyncio.sleep(0.3)
            assert not suite.done()
            async with MiniProxy(port, Faults(), port=later):
                return await suite

    assert asyncio.run(work()).ok


@pytest.mark.parametrize(("told", "learnt"), [(None, "osmosis-rollout"), ("m-9", "m-9")])
def test_the_model_at_the_upstream_is_what_the_first_call_asked_for_unless_it_was_told(
    told: str | None, learnt: str
) -> None:
    async def remembers(stage: Stage) -> Fault | None:
        return (
            None if stage.target.upstream_model == learnt else Fault(learnt, f"{stage.target.upstream_model}")
        )

    assert run(Case("F-a", "a", remembers), upstream_model=told).ok


def test_a_case_that_wants_a_bearer_is_skipped_without_one_and_says_so() -> None:
    case = with_bearer(Case("C-a", "a", _fails))
    assert run(case).results[0].result == "failed"
    report = run(case, bearer="", faults=Faults(open_to_all=True))
    assert (report.results[0].result, report.results[0].seen) == ("skipped", NO_BEARER)
    assert report.reasons() == {NO_BEARER: 1}


def test_a_port_that_is_taken_is_an_os_error() -> None:
    async def work() -> None:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            await run_suite(Target("http://127.0.0.1:9"), upstream_port=port, cases=[])
        finally:
            server.close()

    with pytest.raises(OSError):
        asyncio.run(work())
