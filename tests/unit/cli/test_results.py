"""Outcomes in words, for programs, and as exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fake_runs import FAILED, METRICS, SKIPPED, outcome, plan
from osmosis_cli.output import document, encode
from osmosis_cli.results import LISTED_ROWS, Demands, Typed, outcome_result, plan_rows, row_line

TYPED = Typed("configs/eval/quick.toml", ("--rows", "0-19"))
NOTHING = Demands()


def steps(**changes: Any) -> dict[str, str]:
    """The commands to type next, by label."""
    result = outcome_result(outcome(**changes), TYPED, NOTHING)
    return {step.label: step.command for step in result.next_steps}


@pytest.mark.parametrize(
    ("changes", "demands", "code", "status"),
    [
        ({}, NOTHING, 0, "success"),
        ({"failed": 3, "succeeded": 17}, NOTHING, 0, "success"),
        ({"ended": "already_complete"}, NOTHING, 0, "success"),
        ({"ended": "halted", "pending": 4}, NOTHING, 3, "partial"),
        ({"ended": "halted", "pending": 4}, Demands(0.99), 3, "partial"),
        ({"ended": "interrupted", "signal": 2}, NOTHING, 130, "partial"),
        ({"ended": "interrupted", "signal": 15}, NOTHING, 143, "partial"),
        ({"ended": "interrupted", "signal": 1}, NOTHING, 129, "partial"),
        ({"ended": "interrupted"}, NOTHING, 130, "partial"),
        ({}, Demands(0.75), 0, "success"),
        ({}, Demands(0.76), 1, "failed"),
        ({"metrics": {}}, Demands(0.0), 1, "failed"),
        ({"failed": 1}, Demands(none_failed=True), 1, "failed"),
        ({"skipped": 1}, Demands(none_failed=True), 0, "success"),
    ],
)
def test_the_exit_code_says_how_the_run_ended(
    changes: dict[str, Any], demands: Demands, code: int, status: str
) -> None:
    result = outcome_result(outcome(**changes), TYPED, demands)
    assert (result.exit_code, result.status) == (code, status)


def test_the_message_says_why_a_run_is_partial_and_what_was_demanded() -> None:
    stopped = outcome("halted", pending=1, reason="The provider answered 503 ten times.")
    result = outcome_result(stopped, TYPED, NOTHING)
    assert result.message.startswith("Evaluation run stopped, 1 item pending: /ws/")
    assert result.message.endswith("The provider answered 503 ten times.")
    assert result.title == "Results (incomplete)"
    unmet = outcome_result(outcome(), TYPED, Demands(0.8))
    assert "The pass rate, 75.0%, is under 80.0% (--fail-under)." in unmet.message
    assert unmet.resource["unmet_demands"] == ["The pass rate, 75.0%, is under 80.0% (--fail-under)."]


def every_item_failed(*messages: str, **changes: Any) -> str:
    """The message of a complete run whose items all failed with these messages."""
    rows = tuple(replace(FAILED, error_message=text) for text in messages)
    ends = outcome(succeeded=0, failed=len(rows), failed_rows=rows, **changes)
    return outcome_result(ends, TYPED, NOTHING).message


def test_a_run_in_which_every_item_failed_says_so_first_and_why() -> None:
    told = every_item_failed("no openai", "no openai", "timeout.")
    assert told.startswith("Every item failed, 2 of 3 with: no openai. Evaluation run finished:")
    assert every_item_failed("no openai.").startswith("Every item failed: no openai. Evaluation")
    assert every_item_failed("no", skipped=2).startswith("Every item that was not skipped failed: no.")
    assert "Every item" not in outcome_result(outcome(failed=19, succeeded=1), TYPED, NOTHING).message
    assert "Every item" not in every_item_failed("no", ended="halted", pending=3)


def test_a_run_in_which_every_item_failed_keeps_its_exit_code_unless_a_demand_says_otherwise() -> None:
    ends = outcome(succeeded=0, failed=1, failed_rows=(FAILED,))
    assert outcome_result(ends, TYPED, NOTHING).exit_code == 0
    demanded = outcome_result(ends, TYPED, Demands(none_failed=True))
    assert demanded.exit_code == 1
    label = "Exit with 1 when items fail (or --fail-under RATE)"
    [step] = [step for step in outcome_result(ends, TYPED, NOTHING).next_steps if step.label == label]
    assert step.command.endswith("--name quick-otter-07 --fail-on failed")
    assert label not in {step.label for step in demanded.next_steps}
    assert label not in steps(failed=1, failed_rows=(FAILED,))


def test_the_commands_to_type_next_fit_the_outcome() -> None:
    run = "osmosis eval run configs/eval/quick.toml --rows 0-19"
    view = {"View": "osmosis eval show quick-otter-07"}
    named = f"{run} --name quick-otter-07"
    assert steps() == view
    assert steps(ended="halted", pending=2) == {"Resume": named} | view
    assert steps(failed=1) == {"Retry failures": f"{named} --retry-failed"} | view
    provider = replace(FAILED, error_phase="provider")
    again = {"Run again what the provider failed": named}
    assert steps(failed=1, failed_rows=(provider,)).items() >= again.items()
    assert steps(skipped=1) == {"Retry skipped": f"{named} --retry-skipped"} | view
    assert (
        steps(ended="already_complete")
        == {
            "Start a new run": run,
            "Start over under this name": f"{named} --fresh",
        }
        | view
    )


def test_what_needs_quotes_is_quoted() -> None:
    assert Typed("my config.toml").again() == "osmosis eval run 'my config.toml'"


def test_a_run_outside_the_workspace_is_viewed_by_its_path() -> None:
    result = outcome_result(outcome(), Typed("c.toml", ("--output", "out")), NOTHING)
    assert result.next_steps[-1].command == "osmosis eval show /ws/.osmosis/evals/quick-otter-07"


def test_failed_and_skipped_rows_are_told_apart() -> None:
    result = outcome_result(outcome(failed_rows=(FAILED,), skipped_rows=(SKIPPED,)), TYPED, NOTHING)
    assert [section.title for section in result.sections] == ["Failed rows", "Skipped rows"]
    assert result.sections[0].lines == (
        "row 3 (source 7) run 0: agent failed: ValueError: no such tool -> /runs/quick/rollout_trials/fff",
    )
    assert result.sections[1].lines == ("row 1 run 0: skipped -> /runs/quick/rollout_trials/eee",)
    assert [row["row_index"] for row in result.resource["failed_rows"]] == [3]  # type: ignore[index, union-attr]
    assert [row["row_index"] for row in result.resource["skipped_rows"]] == [1]  # type: ignore[index, union-attr]


def test_a_folder_without_anything_in_it_is_not_pointed_to() -> None:
    line = row_line(FAILED, replace(TYPED, holds_files=lambda path: path != FAILED.rollout_dir))
    assert line == "row 3 (source 7) run 0: agent failed: ValueError: no such tool"


def test_the_first_failure_can_be_looked_at() -> None:
    seen = steps(failed=2, failed_rows=(replace(FAILED, run_index=1), SKIPPED))
    assert seen["View a failure"] == "osmosis eval show quick-otter-07 --row 3 --run 1"


def test_a_failure_without_a_kind_is_told_as_failed() -> None:
    bare = replace(FAILED, error_type=None, error_phase=None)
    assert row_line(bare, TYPED).startswith("row 3 (source 7) run 0: failed:")


def test_a_long_message_is_cut_for_people() -> None:
    assert len(row_line(replace(FAILED, error_message="x" * 5000), TYPED)) < 400


def test_paths_below_are_shown_relative_to_where_the_user_is() -> None:
    there = Typed("c.toml", cwd=Path("/ws"))
    result = outcome_result(outcome(), there, NOTHING)
    assert dict(result.rows)["Output"] == ".osmosis/evals/quick-otter-07"
    assert result.message == "Evaluation run finished: .osmosis/evals/quick-otter-07"
    assert result.resource["output_path"] == "/ws/.osmosis/evals/quick-otter-07"
    assert there.shown("/elsewhere/x") == "/elsewhere/x"


def test_a_run_that_never_began_has_nothing_to_resume() -> None:
    early = outcome("interrupted", signal=15, pending=20, local_run_id=None, reason="SIGTERM")
    result = outcome_result(early, TYPED, NOTHING)
    assert result.message == "Evaluation run interrupted before it had begun; nothing was kept. SIGTERM"
    assert [step.label for step in result.next_steps] == ["Start again"]
    assert result.exit_code == 143


def test_a_long_block_of_failed_rows_is_cut_for_people_and_whole_for_programs() -> None:
    rows = tuple(replace(FAILED, row_index=index) for index in range(LISTED_ROWS + 5))
    result = outcome_result(outcome(failed_rows=rows), TYPED, NOTHING)
    assert len(result.sections[0].lines) == LISTED_ROWS + 1
    assert result.sections[0].lines[-1] == "and 5 more"
    assert len(result.resource["failed_rows"]) == LISTED_ROWS + 5  # type: ignore[arg-type]


def test_the_table_shows_items_measures_and_where_they_are() -> None:
    rows = dict(outcome_result(outcome(failed=2, succeeded=15, skipped=1, pending=2), TYPED, NOTHING).rows)
    assert rows["Work Items"] == "18/20 complete · 15 ok · 2 failed · 1 skipped · 2 pending"
    assert rows["Pass Rate"] == "75.0% (15/20 scored, threshold 1)"
    assert rows["Duration"] == "1m 01s"
    assert rows["Output"] == "/ws/.osmosis/evals/quick-otter-07"


def test_the_resource_holds_what_programs_ask_for() -> None:
    result = outcome_result(outcome("interrupted", signal=2, pending=2, reason="SIGINT"), TYPED, NOTHING)
    for key in (
        "run_name",
        "local_run_id",
        "output_path",
        "dataset_source",
        "total_work_items",
        "dispatched",
    ):
        assert key in result.resource
    assert result.resource["metrics"] == METRICS
    assert (result.resource["ended"], result.resource["reason"]) == ("interrupted", "SIGINT")
    encode(document(result))


def test_the_plan_leaves_out_what_was_not_given() -> None:
    labels = [label for label, _ in plan_rows(plan(), TYPED)]
    assert labels == [
        "Run",
        "Rollout",
        "Entrypoint",
        "Model",
        "Dataset",
        "Rows",
        "Work Items",
        "In Flight",
        "Output",
    ]


def test_the_plan_says_who_decides_how_many_run_at_once() -> None:
    assert dict(plan_rows(plan(), TYPED))["In Flight"] == "up to 4"
    told = dict(plan_rows(plan(max_in_flight=1, in_flight_open=True), TYPED))
    assert told["In Flight"] == "as many as the rollout names, else 1"


def test_the_plan_says_what_is_pending_and_what_is_kept() -> None:
    recorded = plan(runs_per_row=2, total_items=40, pending_items=30, recorded_items=10, branch="main")
    rows = dict(plan_rows(recorded, TYPED))
    assert rows["Work Items"] == "40 (30 pending, 10 already recorded)"
    assert (rows["Runs Per Row"], rows["Branch"]) == ("2", "main")
