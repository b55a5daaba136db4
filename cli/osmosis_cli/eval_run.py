"""`osmosis eval run`: flags to options, a plan shown and agreed to, a run watched, an outcome told.

It knows the order of things. How a run is carried out is the runner's; what is said of it is in `results.py`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Unpack, cast

import click
import msgspec
import uvloop

from osmosis_cli import secrets
from osmosis_cli.errors import CLIError, Code, Declined, Interrupted
from osmosis_cli.flags import RUN_OPTIONS, RunFlags, check_together, repeated
from osmosis_cli.invocation import Invocation
from osmosis_cli.lazy import load
from osmosis_cli.live import watching
from osmosis_cli.option_lists import with_options
from osmosis_cli.output import Format, Result
from osmosis_cli.refusals import refusals
from osmosis_cli.render import Output
from osmosis_cli.results import Demands, Typed, outcome_result, plan_rows
from osmosis_cli.stored import holds_files
from osmosis_cli.workspace import find_config, find_workspace, output_root
from osmosis_runner.events import Observer, RunPlan
from osmosis_runner.options import RunOptions
from osmosis_runner.outcome import RunOutcome
from osmosis_runner.run import run_evaluation

FREE_MODELS = "local/"
"""Prefix of models that this machine serves itself: they cost nothing, so nobody is asked."""

Evaluate = Callable[[RunOptions, Observer], Awaitable[RunOutcome]]


@click.command("run")
@with_options(RUN_OPTIONS)
@click.pass_obj
def run_command(invocation: Invocation, **flags: Unpack[RunFlags]) -> int:
    """Run the agent that CONFIG names over its dataset, n times a row, and score every attempt.

    CONFIG is a TOML file under configs/eval/. The dataset is --dataset-file, otherwise data/NAME.jsonl, .csv or
    .parquet of the workspace. Results are kept in .osmosis/evals/NAME as they come: a run that was stopped goes
    on when the same command is given with its --name.

    Exit codes: 0 complete, 1 error or unmet --fail-under/--fail-on, 2 usage, 3 stopped with items pending,
    129, 130 or 143 after SIGHUP, SIGINT or SIGTERM.
    """
    return evaluate(invocation, flags, run_evaluation)


def evaluate(invocation: Invocation, flags: RunFlags, run: Evaluate) -> int:
    """Carry out `osmosis eval run`; `run` is what runs an evaluation. Returns the exit code."""
    check_together(flags)
    out = invocation.out
    config = find_config(flags["config"], invocation.cwd)
    workspace = find_workspace(config.parent, invocation.cwd)
    given = secrets.read_secrets_file(flags["secrets_file"], out, invocation.cwd)
    typed = Typed(str(flags["config"]), repeated(flags), invocation.cwd, holds_files)
    approval = Approval(out, invocation.environ, given, typed, ask=not flags["yes"])
    options = replace(options_of(flags, config, workspace, invocation), command=typed.again())
    demands = Demands(flags["fail_under"], none_failed=flags["fail_on"] == "failed")
    options = replace(options, approve=approval)
    outcome = watched(options, out, run, verbose=flags["verbose"])
    if outcome.ended == "already_complete" and out.interactive and not flags["yes"]:
        out.say(f"Run {outcome.plan.run_name!r} is complete: {outcome.plan.output_path}")
        if out.ask("Start a new run?", default=True):
            outcome = watched(replace(options, name=None), out, run, verbose=flags["verbose"])
    if outcome.ended == "declined":
        raise Declined
    return _shown(out, outcome_result(outcome, typed, demands))


def _shown(out: Output, result: Result) -> int:
    """The result in the format of `out`; only people wait until what draws for them is loaded."""
    if out.format is not Format.RICH:
        return out.show(result)
    return cast("Callable[[Output, Result], int]", load("osmosis_cli.tables:show"))(out, result)


def options_of(flags: RunFlags, config: Path, workspace: Path, invocation: Invocation) -> RunOptions:
    """What the runner is asked for."""
    cwd = invocation.cwd
    return RunOptions(
        config_path=config,
        workspace=workspace,
        environ=invocation.environ,
        output_root=output_root(workspace, flags["output"], cwd),
        name=flags["name"],
        dataset_file=(cwd / flags["dataset_file"].expanduser()) if flags["dataset_file"] else None,
        rows=flags["rows"],
        limit=flags["limit"],
        max_in_flight=flags["max_in_flight"],
        fresh=flags["fresh"],
        retry_failed=flags["retry_failed"],
        retry_skipped=flags["retry_skipped"],
        extend=flags["extend"],
        max_retries=flags["max_retries"],
        api_base=flags["api_base"],
        api_key_env=flags["api_key_env"],
        python=flags["python"],
        rollout_port=flags["rollout_port"],
        rollout_command=flags["rollout_command"],
        rollout_url=flags["rollout_url"],
        skip_preflight=flags["skip_preflight"],
        pass_provider_key=flags["pass_provider_key"],
    )


def watched(options: RunOptions, out: Output, run: Evaluate, *, verbose: bool) -> RunOutcome:
    """Run an evaluation with what is shown meanwhile; raises CLIError when it could not begin."""
    with (
        watching(out, verbose=verbose) as observer,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop,
        refusals(),
    ):
        return loop.run(_awaited(run, options, observer))


async def _awaited(run: Evaluate, options: RunOptions, observer: Observer) -> RunOutcome:
    return await run(options, observer)


class Approval(msgspec.Struct, frozen=True):
    """Shows the plan, asks whether to spend, and finds the secrets; what `RunOptions.approve` is given."""

    out: Output
    environ: Mapping[str, str]
    given_secrets: Mapping[str, str]
    typed: Typed
    ask: bool

    def __call__(self, plan: RunPlan) -> Mapping[str, str] | None:
        """Values of the plan's secrets, or None when the user declines."""
        rows = plan_rows(plan, self.typed)
        if self.out.format is Format.RICH:
            show_facts = cast(
                "Callable[[Output, str, Iterable[tuple[str, str]]], None]",
                load("osmosis_cli.tables:show_facts"),
            )
            show_facts(self.out, "Local Evaluation", rows)
        with interruptible():
            if self.ask and not plan.model_path.startswith(FREE_MODELS) and not self._agreed(plan, rows):
                return None
            return secrets.resolve(plan.secret_names, self.given_secrets, self.environ, self.out)

    def _agreed(self, plan: RunPlan, rows: tuple[tuple[str, str], ...]) -> bool:
        prompt = f"{plan.pending_items} rollouts x model {plan.model_path} — continue?"
        if self.out.interactive:
            return self.out.ask(prompt, default=False)
        if self.out.format is Format.PLAIN:
            for label, text in rows:
                self.out.note(f"{label}: {text}")
            self.out.note(prompt)
        raise CLIError(
            "This run spends money, and nobody is here to be asked.",
            fix="Use --yes to run without being asked.",
            code=Code.INTERACTIVE_REQUIRED,
            details={"prompt": prompt, "summary": [list(row) for row in rows]},
        )


@contextmanager
def interruptible() -> Generator[None]:
    """Let Ctrl-C end a prompt that is asked while an event loop, which would only note it, is running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # None stands for a handler that was not set from Python, which cannot be put back.
    before = signal.signal(signal.SIGINT, signal.default_int_handler) or signal.SIG_DFL
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        signal.signal(signal.SIGINT, before)
