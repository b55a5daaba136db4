"""The flags of `osmosis eval run`: what may be typed, checked before anything else happens.

A value outside its grammar is a usage error. The grammars of rows and names are the runner's.
"""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TypedDict

import click

from osmosis_bridge.redact import Redactor
from osmosis_bridge.routing import RouteError, read_base_url
from osmosis_runner.errors import RunnerError
from osmosis_runner.names import check_run_name
from osmosis_runner.selection import parse_rows

RETRIES = 2


class RunFlags(TypedDict):
    """What was typed after `osmosis eval run`."""

    config: Path
    dataset_file: Path | None
    name: str | None
    rows: str | None
    limit: int | None
    max_in_flight: int | None
    output: Path | None
    fresh: bool
    retry_failed: bool
    retry_skipped: bool
    extend: bool
    max_retries: int
    yes: bool
    secrets_file: str | None
    api_base: str | None
    api_key_env: str | None
    python: str | None
    rollout_port: int | None
    rollout_command: tuple[str, ...] | None
    rollout_url: str | None
    skip_preflight: bool
    pass_provider_key: bool
    fail_under: float | None
    fail_on: str | None
    verbose: bool


def checked_rows(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """A `--rows` selector without outer blanks; the runner reads it again when it knows the dataset."""
    if text is None:
        return None
    try:
        parse_rows(text)
    except RunnerError as error:
        raise click.BadParameter(error.message) from None
    return text.strip()


def checked_name(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """A name that a run may have."""
    if text is None:
        return None
    try:
        return check_run_name(text)
    except RunnerError as error:
        raise click.BadParameter(error.message) from None


def checked_command(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """A command as its words; quotes are read as a shell reads them, and nothing else is."""
    if text is None:
        return None
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}.") from None
    if not words:
        raise click.BadParameter("must name a program.")
    return words


def checked_api_base(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """An address that can be one of a model, as it was typed."""
    if text is not None:
        try:
            read_base_url(text, "")
        except RouteError as error:
            raise click.BadParameter(error.message.removeprefix("the base URL of ").strip()) from None
    return text


def checked_rate(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """A share in 0..1, written as such or as a percentage."""
    if text is None:
        return None
    digits, scale = (text[:-1], 100) if text.endswith("%") else (text, 1)
    try:
        rate = float(digits) / scale
    except ValueError:
        rate = math.nan
    if not 0 <= rate <= 1:
        raise click.BadParameter(f"{text!r} is not a rate; write 0.8 or 80%.")
    return rate


def check_together(flags: RunFlags) -> None:
    """Raise a usage error for flags that contradict each other."""
    if flags["rows"] is not None and flags["limit"] is not None:
        raise click.UsageError("--rows and --limit both say which rows; give one.")
    _check_launch(flags)
    uses = {
        "retry_failed": "run again",
        "retry_skipped": "run again",
        "extend": "add to",
    }
    for name, use in uses.items():
        if not flags[name]:
            continue
        if flags["fresh"]:
            raise click.UsageError(f"--fresh starts anew, so there is nothing for {_typed(name)} to {use}.")
        if not flags["name"]:
            raise click.UsageError(f"{_typed(name)} needs --name, the run whose items it is about.")


def _check_launch(flags: RunFlags) -> None:
    pairs = (
        ("rollout_url", ("rollout_command", "rollout_port", "python"), "nothing is started for"),
        ("rollout_command", ("python",), "the command names its own interpreter, not"),
    )
    for one, others, why in pairs:
        for other in others:
            if flags[one] is not None and flags[other] is not None:
                raise click.UsageError(f"With {_typed(one)} {why} {_typed(other)}.")


def _typed(flag: str) -> str:
    return f"--{flag.replace('_', '-')}"


def repeated(flags: RunFlags) -> tuple[str, ...]:
    """The flags that a command to type next repeats: which run it is, how to reach its model, what is demanded of it.

    Not among them: consent to spend, and what is to become of an earlier run.
    """
    given = {
        "--dataset-file": flags["dataset_file"],
        "--rows": flags["rows"],
        "--limit": flags["limit"],
        "--max-in-flight": flags["max_in_flight"],
        "--max-retries": flags["max_retries"] if flags["max_retries"] != RETRIES else None,
        "--output": flags["output"],
        "--secrets-file": flags["secrets_file"],
        # A URL's credentials are not shown again.
        "--api-base": Redactor().message(flags["api_base"]) if flags["api_base"] else None,
        "--api-key-env": flags["api_key_env"],
        "--python": flags["python"],
        "--rollout-port": flags["rollout_port"],
        "--rollout-command": shlex.join(flags["rollout_command"]) if flags["rollout_command"] else None,
        "--rollout-url": flags["rollout_url"],
        "--fail-under": flags["fail_under"],
        "--fail-on": flags["fail_on"],
    }
    words = [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
    switches = {
        "--skip-preflight": flags["skip_preflight"],
        "--pass-provider-key": flags["pass_provider_key"],
    }
    return (*words, *(flag for flag, given in switches.items() if given))


FILE = click.Path(path_type=Path)

WHAT_TO_RUN = (
    click.argument("config", metavar="CONFIG", type=FILE),
    click.option(
        "--dataset-file",
        type=FILE,
        metavar="FILE",
        help="JSONL, CSV or Parquet file to use instead of data/NAME.* of the workspace.",
    ),
    click.option(
        "--name", callback=checked_name, metavar="NAME", help="Resume the run of this name, or create it."
    ),
    click.option(
        "--rows",
        callback=checked_rows,
        metavar="SEL",
        help="Rows of the file, counted from 0, such as 0-9,12; overrides evaluation.limit.",
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        help="The first N rows of the file; overrides evaluation.limit.",
    ),
    click.option(
        "-o",
        "--output",
        type=FILE,
        metavar="DIR",
        help="Folder for run directories, otherwise .osmosis/evals of the workspace.",
    ),
    click.option("--fresh", is_flag=True, help="Set an existing run of that name aside and start anew."),
    click.option("--retry-failed", is_flag=True, help="Run failed items of the named run again."),
    click.option("--retry-skipped", is_flag=True, help="Run skipped items of the named run again."),
    click.option(
        "--extend",
        is_flag=True,
        help="Add to the named run what n, --rows or --limit now ask for beyond what it has.",
    ),
)

HOW_TO_RUN = (
    click.option(
        "--max-in-flight",
        type=click.IntRange(min=1),
        metavar="N",
        help="Rollouts at a time; otherwise evaluation.batch_size, then as many as the rollout server names, else 1. "
        "Never more than it names.",
    ),
    click.option(
        "--max-retries",
        type=click.IntRange(min=0),
        default=RETRIES,
        metavar="N",
        show_default=True,
        help="Times an item runs again when the provider failed it; 0: never, and clients are told not to ask "
        "again either.",
    ),
    click.option("-y", "--yes", is_flag=True, help="Spend without asking; needed where nobody can be asked."),
    click.option(
        "--secrets-file",
        metavar="FILE",
        help="Dotenv file, or - for stdin, with values for [secrets] names. Never stored.",
    ),
    click.option(
        "--api-base",
        callback=checked_api_base,
        metavar="URL",
        help="Endpoint of the model, instead of the one its provider stands for.",
    ),
    click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the model's key."),
    click.option(
        "--pass-provider-key",
        is_flag=True,
        help="Let the rollout see the model's key where [secrets] names it; otherwise the bridge keeps it. What the "
        "rollout calls with it is in no record.",
    ),
    click.option(
        "--python",
        metavar="PYTHON",
        help="Interpreter of the rollout, a path or a version such as 3.12; otherwise one that suits its "
        "pyproject.toml, and without one the interpreter of osmosis.",
    ),
    click.option(
        "--rollout-port",
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Port of the rollout server, otherwise a free one.",
    ),
    click.option(
        "--rollout-command",
        callback=checked_command,
        metavar="COMMAND",
        help="Command that starts the rollout server, in the rollout's folder; otherwise that of its "
        "rollout.toml, and without one the entrypoint.",
    ),
    click.option(
        "--rollout-url",
        metavar="URL",
        help="Use the rollout server that already answers here, and start none.",
    ),
    click.option("--skip-preflight", is_flag=True, help="Do not call the model once before the first row."),
)

WHAT_TO_TELL = (
    click.option(
        "--fail-under",
        callback=checked_rate,
        metavar="RATE",
        help="Exit 1 when the pass rate of a complete run is under RATE, such as 0.8 or 80%.",
    ),
    click.option(
        "--fail-on", type=click.Choice(["failed"]), help="Exit 1 when an item of a complete run failed."
    ),
    click.option("--verbose", is_flag=True, help="Show every line of the run's log instead of its stages."),
)

RUN_OPTIONS = (*WHAT_TO_RUN, *HOW_TO_RUN, *WHAT_TO_TELL)
