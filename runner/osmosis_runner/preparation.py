"""Everything that is checked before a run may begin: config, rollout, dataset, name, lock, earlier results.

Reads and creates nothing but the run's lock file. Blocking; called before anything else is running.
"""

from __future__ import annotations

import os
import platform
import random
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.config import EvalConfig, load_config, rollout_directory
from osmosis_runner.digest import SourceDigest, digest_source
from osmosis_runner.elsewhere import ServerAddress
from osmosis_runner.endpoint import endpoint_of, planned
from osmosis_runner.errors import DatasetError, DatasetIssue, DatasetNotFound, RunNotFound
from osmosis_runner.events import RunPlan
from osmosis_runner.inputs import build_inputs, check_resumable
from osmosis_runner.interpreters import Asker, find_interpreter
from osmosis_runner.lock import Owner, RunLock
from osmosis_runner.names import check_run_name, generate_run_name, nearest_first
from osmosis_runner.plan import PlanCounts, count_items
from osmosis_runner.recorded import Recorded, read_recorded
from osmosis_runner.rollout_file import RolloutFile, read_rollout_file
from osmosis_runner.rows import RowSet, read_rows
from osmosis_runner.rundir import Manifest, RunDir, find_run, read_manifest, run_names
from osmosis_runner.selection import parse_rows
from osmosis_runner.standing import Standing, runs_again
from osmosis_runner.uv_project import find_uv

if TYPE_CHECKING:
    from osmosis_runner.extension import Extension
    from osmosis_runner.jsontext import JsonObject
    from osmosis_runner.options import RunOptions

LISTED_RUNS = 10
"""Runs that a message names."""
DATASET_SUFFIXES = (".jsonl", ".csv", ".parquet", ".ndjson", ".jsonl.gz", ".csv.gz")


class Checked(msgspec.Struct, frozen=True):
    """A config and what it points at, all readable and in order."""

    config: EvalConfig
    rollout_dir: Path
    """Not looked into when somebody else runs the rollout server."""
    dataset_source: str
    rows: RowSet
    inputs: JsonObject
    output: Path
    rollout_file: RolloutFile = msgspec.field(default_factory=RolloutFile)
    python: str | None = None
    """Interpreter of the rollout: of a project, for uv, as it was asked for; of another one its path."""


class Prepared(msgspec.Struct, frozen=True):
    """A run that may begin. Holds the run's lock."""

    checked: Checked
    lock: RunLock
    name: str
    earlier: RunDir | None
    """The directory to go on with; None for a run that begins."""
    archived: RunDir | None
    """The directory that has to make room first (`--fresh`)."""
    manifest: Manifest | None
    """Of the earlier directory."""
    recorded: Recorded
    again: frozenset[Standing]
    """Which items run."""
    extension: Extension | None
    """What is added to the earlier directory."""
    counts: PlanCounts
    plan: RunPlan


def check(options: RunOptions) -> Checked:
    """Read and check everything the config names; raises `RunnerError`."""
    workspace, output = options.workspace.absolute(), output_root(options)
    config = load_config(options.config_path, workspace)
    if not _goes_on(options, output):
        _check_endpoint(options, config)
    rollout_dir, rollout_file, digest = _rollout(options, config, workspace, output)
    dataset, source = find_dataset(config.dataset, options.dataset_file, workspace)
    select = parse_rows(options.rows) if options.rows is not None else None
    rows = read_rows(dataset, select, options.limit or config.limit)
    endpoint = endpoint_of(config.model_path, options.api_base, options.api_key_env, options.environ)
    inputs = build_inputs(config, rows, digest, endpoint)
    python = options.python if rollout_file.command else _python(options, rollout_dir)
    return Checked(config, rollout_dir, source, rows, inputs, output, rollout_file, python)


def prepare(options: RunOptions) -> Prepared:
    """Check everything, choose the name and take its lock; raises `RunnerError`. The caller releases the lock."""
    _check_there(options)
    checked = check(options)
    name = _name(options.name, checked.output)
    owner = Owner(os.getpid(), platform.node(), _now())
    lock = RunLock.acquire(checked.output, name, owner)
    try:
        return _under_lock(options, checked, name, lock)
    except BaseException:
        lock.release()
        raise


def output_root(options: RunOptions) -> Path:
    """The folder that holds run directories."""
    return (options.output_root or options.workspace / ".osmosis" / "evals").absolute()


def _check_there(options: RunOptions) -> None:
    """Raise `RunNotFound` where an earlier run is to go on and there is none of that name."""
    asked = {
        "--retry-failed": options.retry_failed,
        "--retry-skipped": options.retry_skipped,
        "--extend": options.extend,
    }
    flags = [flag for flag, given in asked.items() if given]
    output, name = output_root(options), options.name
    if not flags or name is None or find_run(output, check_run_name(name)) is not None:
        return
    known = nearest_first(name, run_names(output))
    shown = ", ".join(known[:LISTED_RUNS]) + (
        f" and {len(known) - LISTED_RUNS} more" if len(known) > LISTED_RUNS else ""
    )
    there = f"the runs there are: {shown}" if known else "there is none yet"
    raise RunNotFound(
        f"There is no run {name!r} for {' and '.join(flags)} in {output}; {there}.",
        {
            "error": "run_not_found",
            "name": name,
            "output_root": str(output),
            "runs": list(known[:LISTED_RUNS]),
        },
    )


def _goes_on(options: RunOptions, output: Path) -> bool:
    """Whether an earlier run goes on: of that one everything may be done already, and then no model is needed."""
    name = options.name
    return not options.fresh and name is not None and find_run(output, check_run_name(name)) is not None


def _check_endpoint(options: RunOptions, config: EvalConfig) -> None:
    """Raise `EndpointError` where the calls of the run would go nowhere."""
    planned(config.model_path, options.api_base, options.api_key_env, options.environ)


def _check_uv(options: RunOptions, checked: Checked) -> None:
    """Raise `LaunchError` where a project is to be started and there is no uv."""
    started_otherwise = options.rollout_url or options.rollout_command or checked.rollout_file.command
    if not started_otherwise and (checked.rollout_dir / "pyproject.toml").is_file():
        find_uv()


def find_dataset(name: str, given: Path | None, workspace: Path) -> tuple[Path, str]:
    """The dataset file and where it comes from (`explicit` or `workspace`).

    Raises `DatasetNotFound`, and `DatasetError` where several files of the workspace have that name.
    """
    if given is not None:
        return given.absolute(), "explicit"
    folder = workspace / "data"
    found = [path for suffix in DATASET_SUFFIXES if (path := folder / f"{name}{suffix}").is_file()]
    if len(found) == 1:
        return found[0], "workspace"
    if found:
        names = " and ".join(path.name for path in found)
        flag = f"--dataset-file {shlex.quote(str(found[0]))}"
        issue = DatasetIssue(f"{names} are there, and only one can be meant", f"say which, as in {flag}")
        raise DatasetError(str(folder / name), [issue])
    there = sorted(p.name for p in folder.glob("*") if p.is_file())[:10] if folder.is_dir() else []
    known = f"; data/ holds {', '.join(there)}" if there else ""
    issue = DatasetIssue(
        f"there is no {name}.jsonl, .csv or .parquet in {folder}{known}",
        "put it there, or name a file with --dataset-file",
    )
    raise DatasetNotFound(str(folder / name), [issue])


def _rollout(
    options: RunOptions, config: EvalConfig, workspace: Path, output: Path
) -> tuple[Path, RolloutFile, SourceDigest | None]:
    """The rollout's folder, its `rollout.toml` and its digest; of a server that runs already only the name counts."""
    if options.rollout_url is not None:
        ServerAddress.of(options.rollout_url)
        return workspace / "rollouts" / config.rollout, RolloutFile(), None
    folder = rollout_directory(config, workspace)
    return folder, read_rollout_file(folder), digest_source(folder, exclude=[output])


def _python(options: RunOptions, folder: Path) -> str | None:
    """The interpreter that was asked for; uv finds that of a project by anything but its path. Raises `LaunchError`."""
    asked = options.python
    if asked is None:
        return None
    if (folder / "pyproject.toml").is_file() and not (os.sep in asked and Path(asked).is_file()):
        return asked
    return find_interpreter(asked, Asker(options.environ, folder))


def _under_lock(options: RunOptions, checked: Checked, name: str, lock: RunLock) -> Prepared:
    found = find_run(checked.output, name)
    earlier = None if options.fresh else found
    rows, runs = len(checked.rows.rows), checked.config.n
    manifest, extension, recorded = None, None, Recorded(rows, runs)
    if earlier is not None:
        manifest = read_manifest(earlier)
        extension = check_resumable(
            name, _command(options), manifest.inputs, checked.inputs, extend=options.extend
        )
        recorded = read_recorded(earlier.events, rows, runs)
    again = runs_again(failed=options.retry_failed, skipped=options.retry_skipped)
    counts = count_items(recorded.standings, again)
    if counts.pending:
        _check_endpoint(options, checked.config)
        _check_uv(options, checked)
    return Prepared(
        checked=checked,
        lock=lock,
        name=name,
        earlier=earlier,
        archived=found if options.fresh else None,
        manifest=manifest,
        recorded=recorded,
        again=again,
        extension=extension,
        counts=counts,
        plan=_plan(options, checked, name, counts),
    )


def _command(options: RunOptions) -> str:
    return options.command or shlex.join(("osmosis", "eval", "run", str(options.config_path)))


def _plan(options: RunOptions, checked: Checked, name: str, counts: PlanCounts) -> RunPlan:
    config, rows = checked.config, checked.rows
    return RunPlan(
        run_name=name,
        config_path=config.path,
        output_path=checked.output / name,
        rollout=config.rollout,
        entrypoint=config.entrypoint,
        model_path=config.model_path,
        dataset_name=config.dataset,
        dataset_source=checked.dataset_source,
        dataset_path=rows.file,
        selected_rows=len(rows.rows),
        total_rows=rows.total_rows,
        runs_per_row=config.n,
        total_items=counts.total,
        pending_items=counts.pending,
        recorded_items=counts.recorded,
        max_in_flight=options.max_in_flight or config.batch_size or 1,
        in_flight_open=not (options.max_in_flight or config.batch_size),
        secret_names=config.required_secrets,
        branch=config.branch,
        commit_sha=config.commit_sha,
    )


def _name(given: str | None, output: Path) -> str:
    if given is not None:
        return check_run_name(given)
    return generate_run_name(random.Random(), lambda name: (output / name).exists())  # noqa: S311 - no secret


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
