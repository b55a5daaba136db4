from __future__ import annotations

from pathlib import Path

import pytest

from mock_provider import MockProvider
from osmosis_runner.events import RunPlan
from osmosis_runner.faults import SecretsMissing
from osmosis_runner.lock import lock_holder
from rollouts_under_test import Workspace, make_workspace, row


def with_secrets(workspace: Workspace) -> Workspace:
    config = workspace.config.read_text().replace("required = []", 'required = ["MY_SECRET"]')
    workspace.config.write_text(config)
    return workspace


def test_a_run_is_asked_for_with_its_plan_before_anything_happens(tmp_path: Path) -> None:
    asked: list[RunPlan] = []

    def decline(plan: RunPlan) -> None:
        asked.append(plan)

    workspace = make_workspace(tmp_path, "http://127.0.0.1:9/v1", [row()] * 3, n=2)
    outcome = workspace.run(approve=decline)
    assert (outcome.ended, outcome.complete, outcome.pending) == ("declined", False, 6)
    assert (asked[0].pending_items, asked[0].model_path) == (6, "openai/mock")
    assert lock_holder(workspace.run_dir().parent, "r") is None


def test_a_secret_without_a_value_is_named(tmp_path: Path) -> None:
    workspace = with_secrets(make_workspace(tmp_path, "http://127.0.0.1:9/v1", [row()]))
    with pytest.raises(SecretsMissing, match="MY_SECRET"):
        workspace.run()
    with pytest.raises(SecretsMissing):
        workspace.run(approve=lambda plan: {"MY_SECRET": ""})


def test_a_secret_reaches_the_rollout_and_no_file(tmp_path: Path) -> None:
    value = "the-canary-of-secrets"
    with MockProvider() as provider:
        workspace = with_secrets(make_workspace(tmp_path, provider.url, [row(mode="environ"), row(value)]))
        outcome = workspace.run(approve=lambda plan: {"MY_SECRET": value})
    assert outcome.ended == "complete"
    log = (workspace.run_dir() / "logs.txt").read_text()
    assert '"MY_SECRET": "[REDACTED]"' in log
    # The row's own text is the user's data and stays; everything written about the run is clean.
    for path in workspace.run_dir().rglob("*"):
        if path.is_file() and path.name != "rows.jsonl":
            assert value not in path.read_text(), path


def test_a_complete_run_is_reported_from_its_files(tmp_path: Path) -> None:
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row(), row(mode="raise"), row(mode="remove")])
        first = workspace.run()
        again = workspace.run()
    assert again.ended == "already_complete"
    assert again.metrics == first.metrics
    assert again.failed_rows == first.failed_rows
    assert again.skipped_rows == first.skipped_rows
    assert (again.succeeded, again.failed, again.skipped, again.resumed) == (1, 1, 1, 3)
