"""A run's plan and outcome as results to show: rows for people, resources for programs, commands to type next.

Pure: it knows the runner's values and the shapes of `output.py`, and neither files nor terminals.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec
from msgspec.structs import asdict

from osmosis_cli.errors import Exit
from osmosis_cli.figures import counted, cut, duration, percent
from osmosis_cli.measures import measure_rows, number
from osmosis_cli.output import Json, NextStep, OperationResult, Section
from osmosis_runner.events import RunPlan
from osmosis_runner.failure_words import failure_words
from osmosis_runner.outcome import RunOutcome, UnscoredRow

LISTED_ROWS = 20
"""Failed or skipped rows told to people; programs get all of them."""


class Typed(msgspec.Struct, frozen=True):
    """The command as the user typed it, for commands to type next: the config and the flags worth repeating."""

    config: str
    repeated: tuple[str, ...] = ()
    cwd: Path | None = None
    """Where it was typed: paths below are shown to people relative to it."""
    holds_files: Callable[[str], bool] = bool
    """Whether there is anything to see in a folder."""

    def shown(self, path: Path | str) -> str:
        """A path as people like it: relative to where they are, when it lies below."""
        place = Path(path)
        if self.cwd is None or not place.is_relative_to(self.cwd):
            return str(place)
        return str(place.relative_to(self.cwd))

    def again(self, *flags: str, name: str | None = None) -> str:
        """The same command with the name of the run and other flags."""
        named = ("--name", name) if name else ()
        return shlex.join(("osmosis", "eval", "run", self.config, *self.repeated, *named, *flags))


class Demands(msgspec.Struct, frozen=True):
    """What a pipeline demands of a run: a lowest pass rate in 0..1, and that no item failed."""

    fail_under: float | None = None
    none_failed: bool = False


def plan_rows(plan: RunPlan, typed: Typed) -> tuple[tuple[str, str], ...]:
    """The table "Local Evaluation" that is shown before anything is spent."""
    rows = [
        ("Run", plan.run_name),
        ("Rollout", plan.rollout),
        ("Entrypoint", plan.entrypoint),
        ("Model", plan.model_path),
        ("Dataset", f"{plan.dataset_name} ({typed.shown(plan.dataset_path)})"),
        ("Branch", plan.branch or ""),
        ("Commit", plan.commit_sha or ""),
        ("Rows", f"{plan.selected_rows:,} of {plan.total_rows:,}"),
        ("Runs Per Row", str(plan.runs_per_row) if plan.runs_per_row > 1 else ""),
        ("Work Items", _work_items(plan)),
        ("In Flight", _in_flight(plan)),
        ("Secrets", ", ".join(plan.secret_names)),
        ("Output", typed.shown(plan.output_path)),
    ]
    return tuple((label, text) for label, text in rows if text)


def outcome_result(outcome: RunOutcome, typed: Typed, demands: Demands) -> OperationResult:
    """Everything there is to say at the end of a run; its exit code follows CONTRACT.md 4."""
    unmet = () if not outcome.complete else unmet_demands(outcome, demands)
    return OperationResult(
        operation="eval.run",
        status=_status(outcome, unmet),
        message=_message(outcome, typed.shown(outcome.plan.output_path), unmet),
        title="Results" if outcome.complete else "Results (incomplete)",
        rows=tuple(_rows(outcome, typed)),
        sections=_sections(outcome, typed),
        resource=_resource(outcome, unmet),
        next_steps=(*_next_steps(outcome, typed), *_demand(outcome, typed, demands)),
        exit_code=exit_code(outcome, unmet),
    )


def exit_code(outcome: RunOutcome, unmet: Sequence[str]) -> int:
    """0 complete; 1 a demand was not met; 3 partial; 128 and the signal's number when interrupted."""
    if outcome.ended == "interrupted":
        return 128 + outcome.signal if outcome.signal else Exit.INTERRUPTED
    if not outcome.complete:
        return Exit.PARTIAL
    return Exit.ERROR if unmet else Exit.OK


def unmet_demands(outcome: RunOutcome, demands: Demands) -> tuple[str, ...]:
    """The demands that the run does not meet, one sentence each."""
    unmet: list[str] = []
    if demands.fail_under is not None:
        rate = number(outcome.metrics, "pass_rate") if number(outcome.metrics, "completed_samples") else None
        if rate is None or rate < demands.fail_under:
            wanted = percent(demands.fail_under)
            unmet.append(f"The pass rate, {percent(rate)}, is under {wanted} (--fail-under).")
    if demands.none_failed and outcome.failed:
        unmet.append(f"{counted(outcome.failed, 'item')} failed (--fail-on failed).")
    return tuple(unmet)


def _in_flight(plan: RunPlan) -> str:
    return "as many as the rollout names, else 1" if plan.in_flight_open else f"up to {plan.max_in_flight}"


def _work_items(plan: RunPlan) -> str:
    if not plan.recorded_items:
        return f"{plan.total_items:,}"
    return f"{plan.total_items:,} ({plan.pending_items:,} pending, {plan.recorded_items:,} already recorded)"


def _status(outcome: RunOutcome, unmet: Sequence[str]) -> str:
    if not outcome.complete:
        return "partial"
    return "failed" if unmet else "success"


def every_item_failed(outcome: RunOutcome) -> str:
    """That not one item of a complete run succeeded, with what most of them died of; empty when one did."""
    if not outcome.complete or not outcome.failed or outcome.succeeded:
        return ""
    causes = Counter(row.error_message or row.error_type or "" for row in outcome.failed_rows)
    (text, times), *others = causes.most_common(2) or [("", 0)]
    share = f", {times:,} of {outcome.failed:,} with" if others else ""
    cause = f"{share}: {cut(text).rstrip('.')}" if text else ""
    who = "Every item that was not skipped" if outcome.skipped else "Every item"
    return f"{who} failed{cause}."


def _demand(outcome: RunOutcome, typed: Typed, demands: Demands) -> tuple[NextStep, ...]:
    """How to be told by the exit code that every item failed, where nothing was demanded of the run."""
    if demands != Demands() or not every_item_failed(outcome):
        return ()
    command = typed.again("--fail-on", "failed", name=outcome.plan.run_name)
    return (NextStep("Exit with 1 when items fail (or --fail-under RATE)", command),)


def _message(outcome: RunOutcome, path: str, unmet: Sequence[str]) -> str:
    name, pending = outcome.plan.run_name, counted(outcome.pending, "item")
    if outcome.ended == "already_complete":
        text = f"Run {name!r} was already complete; nothing ran: {path}"
    elif outcome.ended == "complete":
        text = f"Evaluation run finished: {path}"
    else:
        word = "interrupted" if outcome.ended == "interrupted" else "stopped"
        begun = (
            f"{pending} pending: {path}" if outcome.local_run_id else "before it had begun; nothing was kept."
        )
        text = f"Evaluation run {word}, {begun}" if outcome.local_run_id else f"Evaluation run {word} {begun}"
    parts = (every_item_failed(outcome), text, outcome.reason, *unmet)
    return " ".join(part for part in parts if part)


def _rows(outcome: RunOutcome, typed: Typed) -> list[tuple[str, str]]:
    plan, done = outcome.plan, outcome.succeeded + outcome.failed + outcome.skipped
    items = [
        f"{done:,}/{plan.total_items:,} complete",
        f"{outcome.succeeded:,} ok",
        f"{outcome.failed:,} failed",
    ]
    if outcome.skipped:
        items.append(f"{outcome.skipped:,} skipped")
    if outcome.pending:
        items.append(f"{outcome.pending:,} pending")
    return [
        ("Run", plan.run_name),
        ("Work Items", " · ".join(items)),
        *measure_rows(outcome.metrics),
        ("Duration", duration(outcome.duration_ms / 1000)),
        ("Output", typed.shown(plan.output_path)),
    ]


def _sections(outcome: RunOutcome, typed: Typed) -> tuple[Section, ...]:
    told = (("Failed rows", outcome.failed_rows), ("Skipped rows", outcome.skipped_rows))
    return tuple(Section(title, _row_lines(rows, typed)) for title, rows in told if rows)


def _row_lines(rows: Sequence[UnscoredRow], typed: Typed) -> tuple[str, ...]:
    lines = [row_line(row, typed) for row in rows[:LISTED_ROWS]]
    if len(rows) > LISTED_ROWS:
        lines.append(f"and {len(rows) - LISTED_ROWS:,} more")
    return tuple(lines)


def row_line(row: UnscoredRow, typed: Typed) -> str:
    """One failed or skipped row for people: where it stands in the dataset, what went wrong, where to look."""
    source = f" (source {row.source_row_index})" if row.source_row_index not in (None, row.row_index) else ""
    error = row.status if row.status == "skipped" else failure_words(row.error_type, row.error_phase)
    message = f": {cut(row.error_message)}" if row.error_message else ""
    place = f" -> {typed.shown(row.rollout_dir)}" if typed.holds_files(row.rollout_dir) else ""
    return f"row {row.row_index}{source} run {row.run_index}: {error}{message}{place}"


def _resource(outcome: RunOutcome, unmet: Sequence[str]) -> Mapping[str, Json]:
    plan = outcome.plan
    return {
        "run_name": plan.run_name,
        "local_run_id": outcome.local_run_id,
        "output_path": str(plan.output_path),
        "dataset_source": plan.dataset_source,
        "dataset_path": str(plan.dataset_path),
        "total_work_items": plan.total_items,
        "dispatched": outcome.dispatched,
        "succeeded": outcome.succeeded,
        "failed": outcome.failed,
        "skipped": outcome.skipped,
        "resumed": outcome.resumed,
        "cancelled": outcome.cancelled,
        "pending": outcome.pending,
        "duration_ms": outcome.duration_ms,
        "ended": outcome.ended,
        "reason": outcome.reason,
        "unmet_demands": list(unmet),
        "metrics": cast("Mapping[str, Json]", outcome.metrics),
        "failed_rows": [_row_resource(row) for row in outcome.failed_rows],
        "skipped_rows": [_row_resource(row) for row in outcome.skipped_rows],
    }


def _row_resource(row: UnscoredRow) -> dict[str, Json]:
    return {name: cast("Json", found) for name, found in asdict(row).items()}


def _next_steps(outcome: RunOutcome, typed: Typed) -> list[NextStep]:
    name, steps = outcome.plan.run_name, list[NextStep]()
    if outcome.local_run_id is None:
        return [NextStep("Start again", typed.again(name=name))]
    if not outcome.complete:
        steps.append(NextStep("Resume", typed.again(name=name)))
    if outcome.ended == "complete" and any(row.error_phase == "provider" for row in outcome.failed_rows):
        steps.append(NextStep("Run again what the provider failed", typed.again(name=name)))
    if outcome.failed:
        steps.append(NextStep("Retry failures", typed.again("--retry-failed", name=name)))
    if outcome.skipped:
        steps.append(NextStep("Retry skipped", typed.again("--retry-skipped", name=name)))
    if outcome.ended == "already_complete":
        steps.append(NextStep("Start a new run", typed.again()))
        steps.append(NextStep("Start over under this name", typed.again("--fresh", name=name)))
    show = ("osmosis", "eval", "show", _shown(outcome, typed))
    for row in outcome.failed_rows[:1]:
        attempt = ("--run", str(row.run_index)) if row.run_index else ()
        steps.append(NextStep("View a failure", shlex.join((*show, "--row", str(row.row_index), *attempt))))
    return [*steps, NextStep("View", shlex.join(show))]


def _shown(outcome: RunOutcome, typed: Typed) -> str:
    return str(outcome.plan.output_path) if "--output" in typed.repeated else outcome.plan.run_name
