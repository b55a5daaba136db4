from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from osmosis_runner.errors import (
    ConfigError,
    DatasetError,
    DatasetNotFound,
    EndpointError,
    ResumeMismatch,
    RunDirError,
    RunLocked,
    RunNotFound,
)
from osmosis_runner.faults import LaunchError
from osmosis_runner.journal import Journal
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.lock import lock_holder
from osmosis_runner.preparation import Prepared, find_dataset, prepare
from osmosis_runner.rundir import Manifest, create_run
from rollouts_under_test import Workspace, make_workspace, row


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path, "http://127.0.0.1:9/v1", [row(str(number)) for number in range(5)], n=2)


def prepared(workspace: Workspace, **changes: object) -> Prepared:
    ready = prepare(workspace.options(**changes))
    ready.lock.release()
    return ready


def begin(workspace: Workspace, *records: JournalRecord) -> None:
    """Make the run's directory as an earlier invocation would have left it."""
    ready = prepared(workspace)
    manifest = Manifest("1" * 32, "r", "2026-01-01T00:00:00Z", ready.checked.inputs)
    run = create_run(ready.checked.output, manifest, ready.checked.rows.rows, {})
    with Journal.open(run.events) as journal:
        journal.append(records)


def record(row_index: int, run_index: int, status: str = "success") -> JournalRecord:
    return JournalRecord(
        row_index=row_index,
        run_index=run_index,
        rollout_id=f"r{row_index}{run_index}",
        status=status,  # pyright: ignore[reportArgumentType]
        duration_ms=1,
    )


def test_the_plan_says_what_will_run(workspace: Workspace) -> None:
    plan = prepared(workspace, rows="1-3", max_in_flight=7).plan
    assert (plan.selected_rows, plan.total_rows, plan.runs_per_row) == (3, 5, 2)
    assert (plan.total_items, plan.pending_items, plan.recorded_items) == (6, 6, 0)
    assert (plan.run_name, plan.max_in_flight, plan.dataset_source) == ("r", 7, "workspace")
    assert plan.output_path == workspace.run_dir()


def test_the_first_rows_may_be_asked_for(workspace: Workspace) -> None:
    assert prepared(workspace, limit=2).plan.selected_rows == 2
    assert prepared(workspace, limit=99).plan.selected_rows == 5


def test_the_plan_says_whether_anyone_asked_for_a_concurrency(workspace: Workspace) -> None:
    assert prepared(workspace).plan.in_flight_open
    assert not prepared(workspace, max_in_flight=1).plan.in_flight_open


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"api_base": "htp://x"}, "--api-base has the scheme 'htp'"),
        ({"api_base": None, "api_key_env": None, "environ": {}}, "set OPENAI_API_KEY"),
        ({"api_key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_before_the_dataset_is_read(
    workspace: Workspace, changes: dict[str, object], told: str
) -> None:
    (workspace.root / "data" / "t.jsonl").write_text("no JSON")
    with pytest.raises(EndpointError, match=told):
        prepare(workspace.options(**changes))
    assert not (workspace.root / ".osmosis").exists()


def test_a_run_that_is_complete_needs_no_model(workspace: Workspace) -> None:
    begin(workspace, *(record(row_index, run) for row_index in range(5) for run in range(2)))
    manifest = workspace.run_dir() / "manifest.json"
    kept = json.loads(manifest.read_text("utf-8"))
    kept["inputs"].pop("endpoint", None)
    manifest.write_text(json.dumps(kept))
    assert prepared(workspace, api_base="htp://x").counts.pending == 0
    (workspace.run_dir() / "events.jsonl").write_bytes(b"")
    with pytest.raises(EndpointError):
        prepare(workspace.options(api_base="htp://x"))
    assert lock_holder(workspace.run_dir().parent, "r") is None


def test_uv_that_a_project_needs_is_asked_for_before_anything_starts(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("osmosis_runner.uv_project.sysconfig.get_path", lambda _: "/nonexistent")
    (workspace.root / "rollouts/t/pyproject.toml").write_text("[project]\n")
    with pytest.raises(LaunchError, match="pip install uv"):
        prepare(workspace.options())
    prepared(workspace, rollout_command=("node", "main.js"))
    prepared(workspace, rollout_url="http://127.0.0.1:9")


def test_nothing_but_a_lock_file_is_created_and_that_only_while_it_is_held(workspace: Workspace) -> None:
    output = workspace.run_dir().parent
    ready = prepare(workspace.options())
    assert [str(path.relative_to(output)) for path in output.rglob("*")] == [".locks", ".locks/r.lock"]
    ready.lock.release()
    assert not output.parent.exists()


def test_the_lock_is_held_and_refuses_another(workspace: Workspace) -> None:
    ready = prepare(workspace.options())
    try:
        with pytest.raises(RunLocked):
            prepare(workspace.options())
        prepare(workspace.options(name="other")).lock.release()
    finally:
        ready.lock.release()
    assert lock_holder(workspace.run_dir().parent, "r") is None


def test_what_is_recorded_is_not_pending(workspace: Workspace) -> None:
    begin(workspace, record(0, 0), record(0, 1, "failed"), record(1, 0, "skipped"))
    ready = prepared(workspace)
    assert (ready.counts.pending, ready.counts.recorded) == (7, 3)
    assert ready.earlier is not None
    assert prepared(workspace, retry_failed=True).counts.pending == 8
    assert prepared(workspace, retry_failed=True, retry_skipped=True).counts.pending == 9


def test_other_inputs_are_refused_and_the_lock_let_go(workspace: Workspace) -> None:
    begin(workspace)
    (workspace.root / "rollouts/t/main.py").write_text("changed = True\n")
    with pytest.raises(ResumeMismatch, match=r"main\.py"):
        prepare(workspace.options())
    assert lock_holder(workspace.run_dir().parent, "r") is None
    fresh = prepared(workspace, fresh=True)
    assert fresh.earlier is None
    assert fresh.archived is not None
    assert fresh.counts.pending == 10


@pytest.mark.parametrize("flag", ["retry_failed", "retry_skipped", "extend"])
def test_a_run_that_is_to_go_on_must_be_there_and_nothing_is_created(workspace: Workspace, flag: str) -> None:
    with pytest.raises(RunNotFound, match="there is none yet"):
        prepare(workspace.options(name="my-run", **{flag: True}))
    assert not (workspace.root / ".osmosis").exists()
    for name in ("zebra", "my-runs"):
        (workspace.run_dir(name)).mkdir(parents=True)
        (workspace.run_dir(name) / "manifest.json").touch()
    with pytest.raises(RunNotFound, match=f"no run 'my-run' for --{flag.replace('_', '-')}") as caught:
        prepare(workspace.options(name="my-run", **{flag: True}))
    assert caught.value.code == "NOT_FOUND"
    assert str(caught.value).endswith("the runs there are: my-runs, zebra.")
    assert {path.name for path in workspace.run_dir().parent.iterdir()} == {"zebra", "my-runs"}


def test_another_endpoint_is_refused_and_advice_repeats_what_was_typed(workspace: Workspace) -> None:
    begin(workspace)
    typed = "osmosis eval run configs/eval/t.toml --api-base http://127.0.0.1:10/v1 --limit 5"
    with pytest.raises(ResumeMismatch) as caught:
        prepare(workspace.options(api_base="http://127.0.0.1:10/v1", command=typed))
    assert "endpoint: http://127.0.0.1:9 -> http://127.0.0.1:10" in str(caught.value)
    assert f"{typed} --name NEW" in str(caught.value)
    assert f"{typed} --name r --fresh" in str(caught.value)
    assert prepared(workspace, api_base="http://127.0.0.1:9/another/path").earlier is not None


def test_a_run_recorded_before_endpoints_were_goes_on(workspace: Workspace) -> None:
    begin(workspace)
    path = workspace.run_dir() / "manifest.json"
    manifest = json.loads(path.read_text())
    assert manifest["inputs"].pop("endpoint") == {"lane": "wire", "origin": "http://127.0.0.1:9"}
    path.write_text(json.dumps(manifest))
    assert prepared(workspace, api_base="http://127.0.0.1:10/v1").earlier is not None


def test_an_interpreter_is_found_before_anything_is_started_unless_uv_finds_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.root / "uv").touch(0o755)
    monkeypatch.setenv("PATH", str(workspace.root), prepend=os.pathsep)
    assert prepared(workspace).checked.python is None
    assert prepared(workspace, python=sys.executable).checked.python == sys.executable
    with pytest.raises(LaunchError, match=r"no Python 3\.99 is installed"):
        prepare(workspace.options(python="3.99"))
    (workspace.root / "rollouts/t/pyproject.toml").touch()
    assert prepared(workspace, python="3.99").checked.python == "3.99"
    assert prepared(workspace, python=sys.executable).checked.python == sys.executable
    with pytest.raises(LaunchError, match="does not answer as a Python does"):
        prepare(workspace.options(python="/bin/false"))
    # uv takes the folder of an environment too.
    assert prepared(workspace, python=str(workspace.root)).checked.python == str(workspace.root)


def test_without_a_name_one_is_made_up(workspace: Workspace) -> None:
    assert prepared(workspace, name=None).name.count("-") == 2
    with pytest.raises(RunDirError):
        prepare(workspace.options(name="../x"))


def test_two_datasets_of_one_name_are_told_with_the_flag_that_says_which(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for ending in ("jsonl", "csv"):
        (tmp_path / "data" / f"d.{ending}").touch()
    with pytest.raises(DatasetError) as caught:
        find_dataset("d", None, tmp_path)
    assert "d.jsonl and d.csv are there" in str(caught.value)
    assert f"--dataset-file {tmp_path / 'data' / 'd.jsonl'}" in str(caught.value)
    assert caught.value.code == "VALIDATION"
    given = tmp_path / "data" / "d.csv"
    assert find_dataset("d", given, tmp_path) == (given, "explicit")


def test_a_dataset_is_found_by_its_name_or_taken_as_given(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "d.csv").touch()
    assert find_dataset("d", None, tmp_path) == (tmp_path / "data" / "d.csv", "workspace")
    assert find_dataset("d", tmp_path / "x.jsonl", tmp_path) == (tmp_path / "x.jsonl", "explicit")


def test_a_missing_dataset_is_told_with_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "other.jsonl").touch()
    with pytest.raises(DatasetNotFound, match=r"data/ holds other\.jsonl"):
        find_dataset("d", None, tmp_path)


def test_a_missing_entrypoint_is_a_config_error(workspace: Workspace) -> None:
    (workspace.root / "rollouts/t/main.py").unlink()
    with pytest.raises(ConfigError, match=r"main\.py"):
        prepare(workspace.options())
