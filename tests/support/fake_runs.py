"""A run that runs nothing: the runner's values as the command line gets them, without a model or a rollout."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from msgspec.structs import replace

from osmosis_cli import eval_run
from osmosis_cli import main as osmosis_main
from osmosis_runner.events import FinishedItem, Observer, Progress, RunPlan, Warned
from osmosis_runner.options import RunOptions
from osmosis_runner.outcome import Ending, RunOutcome, UnscoredRow

FAILED = UnscoredRow(
    row_index=3,
    run_index=0,
    rollout_id="f" * 32,
    status="failed",
    rollout_dir="/runs/quick/rollout_trials/fff",
    source_row_index=7,
    error_type="agent_error",
    error_phase="agent",
    error_message="ValueError: no such tool",
)
SKIPPED = UnscoredRow(
    row_index=1,
    run_index=0,
    rollout_id="e" * 32,
    status="skipped",
    rollout_dir="/runs/quick/rollout_trials/eee",
)
METRICS: dict[str, object] = {
    "total_samples": 20,
    "completed_samples": 20,
    "graded": 20,
    "passed": 15,
    "failed": 0,
    "skipped": 0,
    "pass_rate": 0.75,
    "pass_threshold": 1.0,
    "tokens_used": 12345,
}


def plan(**changes: Any) -> RunPlan:
    """A plan of 20 items, as most tests want it."""
    usual = RunPlan(
        run_name="quick-otter-07",
        config_path=Path("/ws/configs/eval/quick.toml"),
        output_path=Path("/ws/.osmosis/evals/quick-otter-07"),
        rollout="quick",
        entrypoint="main.py",
        model_path="local/tiny",
        dataset_name="quick",
        dataset_source="workspace",
        dataset_path=Path("/ws/data/quick.jsonl"),
        selected_rows=20,
        total_rows=20,
        runs_per_row=1,
        total_items=20,
        pending_items=20,
        recorded_items=0,
        max_in_flight=4,
        secret_names=(),
    )
    return replace(usual, **changes)


def outcome(ended: Ending = "complete", **changes: Any) -> RunOutcome:
    """An outcome of 20 items that all succeeded, unless told otherwise."""
    usual = RunOutcome(
        ended=ended,
        reason=None,
        signal=None,
        plan=plan(),
        local_run_id="a" * 32,
        dispatched=20,
        succeeded=20,
        failed=0,
        skipped=0,
        resumed=0,
        cancelled=0,
        pending=0,
        duration_ms=61_000,
        metrics=METRICS,
    )
    return replace(usual, **changes)


def progress(done: int, **changes: Any) -> Progress:
    """Progress of 20 items, all passed."""
    usual = Progress(
        total=20,
        done=done,
        succeeded=done,
        failed=0,
        skipped=0,
        passed=done,
        resumed=0,
        in_flight=min(4, 20 - done),
        tokens=done * 100 or None,
        cost_usd=None,
        elapsed_s=done * 0.5,
        finished_here=done,
    )
    return replace(usual, **changes)


def item(index: int) -> FinishedItem:
    """A finished item that passed."""
    return FinishedItem(
        row_index=index,
        run_index=0,
        rollout_id=f"{index:032x}",
        status="success",
        reward=1.0,
        passed=True,
        tokens=100,
        max_context_tokens=60,
        duration_ms=500,
    )


@dataclass
class FakeRun:
    """Stands for `run_evaluation`: asks for approval, reports 20 items `pause` seconds apart, ends as told."""

    ends: RunOutcome
    pause: float = 0.0
    options: RunOptions | None = None
    secrets: Any = None

    async def __call__(self, options: RunOptions, observer: Observer) -> RunOutcome:
        """Run nothing."""
        self.options = options
        observer.stage("checking model local/tiny")
        if self.ends.ended == "already_complete":
            return self.ends
        if options.approve is not None:
            self.secrets = options.approve(self.ends.plan)
            if self.secrets is None:
                return replace(self.ends, ended="declined")
        observer.started(progress(0))
        for done in range(1, 21):
            await asyncio.sleep(self.pause)
            observer.item_finished(item(done - 1), progress(done))
        observer.warned(Warned("NO_USAGE", "the provider sends no usage"))
        return self.ends


def one_after_another(*runs: FakeRun) -> Callable[[RunOptions, Observer], Awaitable[RunOutcome]]:
    """A run that is the first of `runs` the first time, the next one the next time."""
    waiting = list(runs)

    async def run(options: RunOptions, observer: Observer) -> RunOutcome:
        return await waiting.pop(0)(options, observer)

    return run


def main() -> None:
    """Run the command line with a run that runs nothing: FAKE_RUN holds how it ends, the pause and the model."""
    ended, pause, model = os.environ.get("FAKE_RUN", "complete:0:local/tiny").split(":", 2)
    ends = outcome(cast("Ending", ended), plan=plan(model_path=model), failed=1, failed_rows=(FAILED,))
    with patch.object(eval_run, "run_evaluation", FakeRun(ends, float(pause))):
        osmosis_main.main()


if __name__ == "__main__":
    main()
