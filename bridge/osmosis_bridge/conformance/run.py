"""Runs the cases against a target: a scripted upstream behind it, a raw client before it, bounded in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from osmosis_bridge.conformance.case import Ask, Case, Fault
from osmosis_bridge.conformance.cases import ALL
from osmosis_bridge.conformance.checks import brief
from osmosis_bridge.conformance.exact import at
from osmosis_bridge.conformance.reply import Reply
from osmosis_bridge.conformance.report import CaseResult, Report
from osmosis_bridge.conformance.samples import completion
from osmosis_bridge.conformance.script import plain
from osmosis_bridge.conformance.stage import Stage, Target
from osmosis_bridge.conformance.upstream import ScriptedUpstream

CASE_DEADLINE = 60.0
"""Seconds after which a case has failed."""
FIRST_ANSWER = 90.0
"""Seconds that the first call may take: some proxies load themselves only then."""
STARTING = 10.0
"""Seconds that a target which was just started is given until it listens."""
RECOVERY = 90.0
"""Seconds that a target is given to answer again after a case that it failed alone."""
NO_BEARER = "needs the proxy's bearer"
"""Why a case is skipped that looks for refusals."""
OUR_HEADER = "x-osmosis-error-origin"
"""Every failure of this bridge carries it, and no other proxy's does."""


class Unreachable(Exception):
    """The target does not answer, or does not forward to the scripted upstream; the message says what to do."""


def select(patterns: Sequence[str] = (), kinds: str = "") -> list[Case]:
    """Cases whose id fits one of the shell patterns, of these kinds; all where nothing is given."""
    fits = [case for case in ALL if not patterns or any(fnmatchcase(case.id, one) for one in patterns)]
    return [case for case in fits if not kinds or case.kind in kinds]


async def run_suite(
    target: Target,
    *,
    upstream_port: int,
    cases: Sequence[Case] | None = None,
    parallel: int = 8,
    on_result: Callable[[CaseResult], None] | None = None,
) -> Report:
    """Hold a target to the cases; its model must be served at `http://127.0.0.1:{upstream_port}/v1`.

    `on_result` is called as each case ends. Raises `Unreachable` before any case, OSError when the port is taken.
    """
    started = time.monotonic()
    upstream = ScriptedUpstream(upstream_port)
    await upstream.start()
    try:
        target = await probed(target, upstream)
        chosen = list(ALL if cases is None else cases)
        results = await _run_all(chosen, target, upstream, parallel, on_result or _ignore)
    finally:
        await upstream.stop()
    order = {case.id: number for number, case in enumerate(chosen)}
    results.sort(key=lambda result: order[result.id])
    return Report(target.url, tuple(results), time.monotonic() - started)


def _ignore(result: CaseResult) -> None:
    del result


async def _run_all(
    cases: Sequence[Case],
    target: Target,
    upstream: ScriptedUpstream,
    parallel: int,
    on_result: Callable[[CaseResult], None],
) -> list[CaseResult]:
    results: list[CaseResult] = []
    gate = asyncio.Semaphore(parallel)

    async def one(case: Case) -> None:
        async with gate:
            result = await run_case(case, target, upstream)
        results.append(result)
        on_result(result)
        if case.alone and result.result == "failed":
            await _recovered(target, upstream)

    async with asyncio.TaskGroup() as group:
        for case in cases:
            if not case.alone:
                group.create_task(one(case))
    for case in cases:
        if case.alone:
            await one(case)
    return results


async def _recovered(target: Target, upstream: ScriptedUpstream) -> None:
    """Wait until the target answers a plain call again, so that one case's failure is not the next one's."""
    until = time.monotonic() + RECOVERY
    while time.monotonic() < until:
        stage = Stage("probe", target, upstream)
        stage.play(plain(completion()))
        try:
            reply = await stage.ask(Ask())
        except OSError:
            reply = None
        stage.forget()
        if reply is not None and reply.status == 200:
            return
        await asyncio.sleep(0.2)


async def probed(target: Target, upstream: ScriptedUpstream) -> Target:
    """Make sure that a plain call goes through; the target with what the call told of it.

    That is whether it is one of ours, and the model that it asks its provider for, unless those were given.
    """
    stage = Stage("probe", target, upstream)
    stage.play(plain(completion()))
    reply = await _first_answer(stage)
    calls = stage.received()
    if not calls:
        raise Unreachable(
            f"{target.url} answered {brief(reply)} without asking the upstream; point the proxy's model at "
            f"http://127.0.0.1:{upstream.port}/v1 and give its bearer and model name"
        )
    missing = await stage.get("/v1/no-such-path")
    stage.forget()
    asked_for = at(calls[0].json(), "model")
    return replace(
        target,
        ours=target.ours or missing.header(OUR_HEADER) is not None,
        upstream_model=target.upstream_model or (asked_for if isinstance(asked_for, str) else None),
    )


async def _first_answer(stage: Stage) -> Reply:
    """The reply to the first call, to a target that may still be starting."""
    until = time.monotonic() + STARTING
    while True:
        try:
            return await stage.ask(Ask(), deadline=FIRST_ANSWER)
        except OSError as error:
            if time.monotonic() > until:
                raise Unreachable(
                    f"nothing answers at {stage.target.url}: {error}; start the proxy first"
                ) from None
        await asyncio.sleep(0.1)


async def run_case(case: Case, target: Target, upstream: ScriptedUpstream) -> CaseResult:
    """Run one case; a case that cannot end in time has failed."""
    if why := _skipped(case, target):
        return CaseResult(case.id, case.kind, case.title, "skipped", seen=why)
    stage = Stage(case.id, target, upstream)
    started = time.monotonic()
    try:
        async with asyncio.timeout(CASE_DEADLINE):
            fault = await case.play(stage)
    except TimeoutError:
        fault = Fault(f"an end within {CASE_DEADLINE:.0f} s", "none")
    except OSError as error:
        fault = Fault("a connection to the target", str(error))
    finally:
        stage.forget()
    took = round(time.monotonic() - started, 3)
    if fault is None:
        return CaseResult(case.id, case.kind, case.title, "passed", seconds=took)
    return CaseResult(case.id, case.kind, case.title, "failed", fault.expected, fault.seen, took)


def _skipped(case: Case, target: Target) -> str:
    """Why a case is not tried, empty where it is."""
    if case.scope == "ours" and not target.ours:
        return "needs the surface of osmosis bridge"
    if case.wants_bearer and not target.bearer:
        return NO_BEARER
    if case.needs and getattr(target.knobs, case.needs) is None:
        return unknown_knob(case.needs)
    return ""


def unknown_knob(knob: str) -> str:
    """Why a case is skipped that needs a knob which was not told."""
    return f"needs to know the target's {knob.replace('_', ' ')}"
