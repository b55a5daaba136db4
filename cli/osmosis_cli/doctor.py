"""`osmosis doctor`: one look at all that a run needs of this machine, each failure with the command that mends it.

It knows the order of the checks and how they are shown; what is looked at is in `checks.py`.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, Unpack

import click

from osmosis_bridge.upstream import Endpoint, TransportError
from osmosis_bridge.upstream.http import HttpTransport
from osmosis_cli import checks, tables
from osmosis_cli.checks import Check, Subject
from osmosis_cli.errors import CLIError, Exit
from osmosis_cli.flags import FILE, checked_api_base
from osmosis_cli.invocation import Invocation
from osmosis_cli.option_lists import with_options
from osmosis_cli.output import Json, NextStep, OperationResult
from osmosis_cli.refusals import refusals
from osmosis_cli.workspace import CONFIGS, RUNS, find_config, find_workspace
from osmosis_runner.child import Nursery
from osmosis_runner.config import EvalConfig, load_config
from osmosis_runner.errors import RunnerError
from osmosis_runner.faults import SidecarError
from osmosis_runner.launch import ALLOWED_VARIABLES
from osmosis_runner.sidecar import Sidecar, SidecarSpec
from osmosis_runner.web import Answer, Site

HEALTH_WITHIN_S = 5.0
START_BRIDGE = "osmosis bridge serve --model local/smollm2-135m-instruct --port 0"


class DoctorFlags(TypedDict):
    """What was typed after `osmosis doctor`."""

    config: Path | None
    api_base: str | None
    api_key_env: str | None
    max_in_flight: int | None


OPTIONS = (
    click.argument("config", metavar="[CONFIG]", type=FILE, required=False),
    click.option(
        "--api-base",
        callback=checked_api_base,
        metavar="URL",
        help="Endpoint of the model that the run would be given.",
    ),
    click.option(
        "--api-key-env", metavar="NAME", help="Variable of the model's key that the run would be given."
    ),
    click.option(
        "--max-in-flight",
        type=click.IntRange(min=1),
        metavar="N",
        help="Rollouts at a time that the run would be given.",
    ),
)


@click.command("doctor")
@with_options(OPTIONS)
@click.pass_obj
def doctor(invocation: Invocation, **flags: Unpack[DoctorFlags]) -> int:
    """Check that this machine has what runs need; with CONFIG, also what that run needs.

    Looks at Python, uv, the optional parts, keys (names only), a bridge on loopback, the embedded model, the
    workspace, disk space and the limit of open files. Nothing is called that costs anything. Exits 1 when a check
    failed, and tells the command to type for each; a note is something that only some runs need.
    """
    with refusals():
        subject = subject_of(flags, invocation)
    found = [
        *machine(subject, invocation.cwd),
        *run_needs(subject),
        asyncio.run(check_bridge(subject.environ)),
    ]
    return tables.show(invocation.out, doctor_result(found))


def subject_of(flags: DoctorFlags, invocation: Invocation) -> Subject:
    """What is to be checked; raises for a run file that was named and cannot be used."""
    cwd, named, configs = invocation.cwd, None, list[EvalConfig]()
    path = find_config(flags["config"], cwd) if flags["config"] is not None else None
    starts = (cwd,) if path is None else (path.parent, cwd)
    try:
        workspace = find_workspace(*starts)
    except CLIError:
        workspace = None
    if path is not None and workspace is not None:
        named = load_config(path, workspace)
        configs = [named]
    elif workspace is not None:
        configs = _readable(workspace)
    return Subject(
        invocation.environ,
        workspace,
        named,
        configs,
        flags["api_base"],
        flags["api_key_env"],
        flags["max_in_flight"],
    )


def machine(subject: Subject, cwd: Path) -> list[Check]:
    """What any run needs of this machine."""
    return [
        checks.check_python(),
        checks.check_uv(subject),
        *(checks.check_extra(extra, subject) for extra in checks.EXTRAS),
        checks.check_weights(subject),
        checks.check_workspace(subject, cwd),
        checks.check_disk((subject.workspace or cwd) / RUNS),
        checks.check_open_files(subject),
        checks.check_processes(),
    ]


def run_needs(subject: Subject) -> list[Check]:
    """What the run files need, each model once."""
    models = {config.model_path: config for config in subject.configs}
    found = [checks.check_key(config, subject) for config in models.values()]
    of_one = (
        checks.check_rollout(subject),
        checks.check_dataset(subject),
        checks.check_secrets(subject),
    )
    return [*found, *(check for check in of_one if check is not None)]


async def check_bridge(environ: Mapping[str, str]) -> Check:
    """Whether a bridge starts on loopback and answers; it is ended again."""
    seen = {name: value for name, value in environ.items() if name in ALLOWED_VARIABLES}
    with tempfile.TemporaryDirectory(prefix="osmosis-doctor-") as folder:
        spec = SidecarSpec(
            model_path="openai/none",
            ledger=Path(folder) / "calls.jsonl",
            ready_file=Path(folder) / "ready.json",
            environ=seen,
            token=secrets.token_urlsafe(32),
            api_base="http://127.0.0.1:9/v1",
        )
        try:
            answer = await _answer_of(spec)
        except (SidecarError, TransportError) as error:
            return Check("Bridge", "failed", f"does not start on 127.0.0.1: {error}", START_BRIDGE)
    if answer.status != 200:
        return Check("Bridge", "failed", f"/health answers {answer.status}", START_BRIDGE)
    return Check("Bridge", "ok", "starts on 127.0.0.1 and answers")


async def _answer_of(spec: SidecarSpec) -> Answer:
    async with HttpTransport() as transport:
        sidecar = await Sidecar.start(spec, transport, Nursery(), lambda _: None)
        try:
            site = Site(transport, Endpoint.parse(sidecar.url))
            return await site.ask(b"GET", "/health", within_s=HEALTH_WITHIN_S)
        finally:
            await sidecar.stop()


def doctor_result(found: list[Check]) -> OperationResult:
    """The checks as a result: a line each, and a command for each that failed."""
    failed = [check for check in found if check.state == "failed"]
    resource: dict[str, Json] = {
        "ok": not failed,
        "checks": [
            {"name": check.name, "state": check.state, "text": check.text, "fix": check.fix or None}
            for check in found
        ],
    }
    message = (
        f"{len(failed)} of {len(found)} checks failed." if failed else "This machine has what a run needs."
    )
    return OperationResult(
        operation="doctor",
        status="failed" if failed else "success",
        message=message,
        title="Doctor",
        rows=tuple((check.name, line_of(check)) for check in found),
        resource=resource,
        next_steps=tuple(NextStep(f"Mend {check.name}", check.fix) for check in failed),
        exit_code=Exit.ERROR if failed else Exit.OK,
    )


def line_of(check: Check) -> str:
    """One check on one line; what can be typed about it stands at its end."""
    line = f"{check.state}: {check.text}"
    return line if check.state == "ok" or not check.fix else f"{line} -> {check.fix}"


def _readable(workspace: Path) -> list[EvalConfig]:
    found: list[EvalConfig] = []
    for path in sorted((workspace / CONFIGS).glob("*.toml")):
        try:
            found.append(load_config(path, workspace))
        except RunnerError:
            # `eval run` tells what is wrong with it.
            continue
    return found
