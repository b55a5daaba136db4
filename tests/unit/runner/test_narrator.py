from __future__ import annotations

import asyncio

import pytest

from osmosis_runner import waiting
from osmosis_runner.narrator import Narrator
from osmosis_runner.redaction import run_redactor
from osmosis_runner.runlog import RunLog
from rollouts_under_test import Watcher


def made() -> tuple[Narrator, Watcher]:
    watcher, redactor = Watcher(), run_redactor({}, ["hunter22"])
    return Narrator(RunLog(watcher, redactor.line), watcher, redactor), watcher


def test_stages_and_warnings_go_to_the_log_and_to_whoever_watches() -> None:
    narrator, watcher = made()
    narrator.stage("beginning")
    narrator.warn("ODD", "something is odd")
    assert watcher.stages == ["beginning"]
    assert [(warning.code, warning.text) for warning in watcher.warnings] == [("ODD", "something is odd")]
    assert [line.message for line in watcher.lines] == ["beginning", "something is odd"]


def test_what_takes_long_is_told_with_its_last_output_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "SAY_AFTER_S", 0.01)
    narrator, watcher = made()

    async def main() -> None:
        narrator.heard("deps", ["of something before"])
        with narrator.waiting("syncing", 900.0):
            while not watcher.stages:
                await asyncio.sleep(0.01)
            narrator.heard("deps", ["one", "with hunter22"])
            while "with" not in watcher.stages[-1]:
                await asyncio.sleep(0.01)

    asyncio.run(main())
    assert watcher.stages[0] == "still syncing (0 s of at most 900 s)"
    assert watcher.stages[-1].endswith("; its last output: with [REDACTED]")
