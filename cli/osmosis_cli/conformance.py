"""`osmosis bridge conformance`: hold an OpenAI-compatible proxy to the suite of the bridge and tell what it does wrong.

It knows the suite's report and how to show it; the cases are the bridge's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, Unpack, cast
from urllib.parse import urlsplit

import click

from osmosis_bridge.conformance import (
    CaseResult,
    Knobs,
    LedgerView,
    Report,
    Target,
    Unreachable,
    run_suite,
    select,
)
from osmosis_bridge.conformance.run import NO_BEARER, unknown_knob
from osmosis_cli import tables
from osmosis_cli.errors import CLIError, Code, Exit
from osmosis_cli.invocation import Invocation
from osmosis_cli.option_lists import with_options
from osmosis_cli.output import Format, Json, OperationResult, Section
from osmosis_cli.render import Output

MIB = 1024 * 1024
KNOB_FLAGS = {
    "idle_timeout": "--idle-timeout-s",
    "heartbeat": "--keepalive-s",
    "max_body": "--max-body-mb",
    "slots": "--max-upstream-connections",
}
REMEDIES = {
    NO_BEARER: "; start the proxy with one and put it into the variable of --bearer-env",
    **{unknown_knob(knob): f"; tell it with {flag}" for knob, flag in KNOB_FLAGS.items()},
}
"""What to do so that skipped cases are tried, by the reason for which they were skipped."""


class ConformanceFlags(TypedDict):
    """What was typed after `osmosis bridge conformance`."""

    target: str
    upstream_port: int
    bearer_env: str
    model: str
    upstream_model: str | None
    path: str
    ledger: Path | None
    only: tuple[str, ...]
    parallel: int
    patience: float
    idle_timeout_s: float | None
    keepalive_s: float | None
    max_body_mb: float | None
    max_upstream_connections: int | None


OPTIONS = (
    click.option("--target", required=True, metavar="URL", help="The proxy, such as http://127.0.0.1:8400."),
    click.option(
        "--upstream-port",
        required=True,
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Where the proxy expects its provider: this command serves it at http://127.0.0.1:PORT/v1.",
    ),
    click.option(
        "--bearer-env",
        default="OSMOSIS_BRIDGE_TOKEN",
        show_default=True,
        metavar="NAME",
        help="Environment variable that holds the proxy's bearer, when it wants one.",
    ),
    click.option(
        "--model",
        default="osmosis-rollout",
        show_default=True,
        metavar="NAME",
        help="Model that clients name.",
    ),
    click.option(
        "--upstream-model",
        metavar="NAME",
        help="Model that the proxy asks its provider for; learnt from the first call where it is not given.",
    ),
    click.option(
        "--path",
        default="/v1/chat/completions",
        show_default=True,
        metavar="PATH",
        help="Path of a call; {rollout} stands for the rollout id where the proxy wants one.",
    ),
    click.option(
        "--ledger",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The bridge's ledger, to check its records too.",
    ),
    click.option(
        "--only", multiple=True, metavar="PATTERN", help="Cases whose id fits, such as 'S*'; repeatable."
    ),
    click.option(
        "--parallel",
        type=click.IntRange(min=1),
        default=8,
        show_default=True,
        metavar="N",
        help="Cases at once.",
    ),
    click.option(
        "--patience",
        type=click.FloatRange(min=1),
        default=1.0,
        show_default=True,
        metavar="X",
        help="Multiplies the time limits, for a machine under load.",
    ),
    click.option("--idle-timeout-s", type=float, metavar="S", help="The proxy's own limit, to try it."),
    click.option("--keepalive-s", type=float, metavar="S", help="The proxy's own setting, to try it."),
    click.option("--max-body-mb", type=float, metavar="MB", help="The proxy's own limit, to try it."),
    click.option(
        "--max-upstream-connections", type=int, metavar="N", help="The proxy's own limit, to try it."
    ),
)


@click.command("conformance")
@with_options(OPTIONS)
@click.pass_obj
def conformance(invocation: Invocation, **flags: Unpack[ConformanceFlags]) -> int:
    """Try a proxy with good and broken replies of a scripted provider and report what it makes of them.

    Start the proxy first, with its provider at http://127.0.0.1:PORT/v1. Exits 1 when a case fails; cases that need
    a bearer or a setting which was not told are skipped, and the report says why.
    """
    cases = select(flags["only"])
    if not cases:
        raise click.UsageError(f"No case fits --only {' '.join(flags['only'])}.")
    target = target_of(flags, invocation.environ)
    port = flags["upstream_port"]
    with progress(invocation.out, len(cases)) as tell, reachable(port):
        suite = run_suite(target, upstream_port=port, cases=cases, parallel=flags["parallel"], on_result=tell)
        report = asyncio.run(suite)
    return tables.show(invocation.out, report_result(report))


@contextmanager
def reachable(port: int) -> Generator[None]:
    """Raise what keeps the suite from starting as an error with its fix."""
    try:
        yield
    except Unreachable as error:
        raise CLIError(f"{error}.", code=Code.NETWORK) from None
    except OSError as error:
        raise CLIError(
            f"Port {port} cannot be served: {error.strerror or error}.",
            fix="Another program may hold it; choose another port and start the proxy with it.",
            code=Code.NETWORK,
        ) from None


def target_of(flags: ConformanceFlags, environ: Mapping[str, str]) -> Target:
    """The proxy as the suite wants it; a usage error for a URL that cannot be called."""
    parts = urlsplit(flags["target"])
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(f"--target {flags['target']!r} is no URL; write it as http://127.0.0.1:8400.")
    body = flags["max_body_mb"]
    return Target(
        url=flags["target"].rstrip("/").removesuffix("/v1"),
        bearer=environ.get(flags["bearer_env"]) or None,
        path=flags["path"],
        model=flags["model"],
        upstream_model=flags["upstream_model"],
        ledger=LedgerView(flags["ledger"]) if flags["ledger"] else None,
        knobs=Knobs(
            idle_timeout=flags["idle_timeout_s"],
            heartbeat=flags["keepalive_s"],
            max_body=None if body is None else int(body * MIB),
            slots=flags["max_upstream_connections"],
        ),
        patience=flags["patience"],
    )


def report_result(report: Report) -> OperationResult:
    """The report as a result: a line a kind, then what failed and how."""
    passed, failed, skipped = (report.count(result) for result in ("passed", "failed", "skipped"))
    rows = [
        (
            f"{row['kind']}  {row['about']}",
            f"{row['passed']} passed, {row['failed']} failed, {row['skipped']} skipped",
        )
        for row in report.rows()
    ]
    lines = [
        f"{case.id}: {case.title} | wanted {case.expected} | seen {case.seen}" for case in report.failures()
    ]
    left_out = [f"{number}: {why}{REMEDIES.get(why, '')}" for why, number in report.reasons().items()]
    return OperationResult(
        operation="bridge.conformance",
        status="success" if report.ok else "failed",
        message=f"{report.target}: {passed} passed, {failed} failed, {skipped} skipped in {report.seconds:.1f}s.",
        title="Conformance",
        rows=tuple(rows),
        sections=tuple(
            Section(title, tuple(told))
            for title, told in (("Failed cases", lines), ("Skipped cases", left_out))
            if told
        ),
        resource=cast("Mapping[str, Json]", report.as_json()),
        exit_code=Exit.OK if report.ok else Exit.ERROR,
    )


@contextmanager
def progress(out: Output, total: int) -> Generator[Callable[[CaseResult], None]]:
    """Something to call as each case ends: a running count on a terminal, nothing elsewhere."""
    ended: list[CaseResult] = []
    if out.format is not Format.RICH or not out.stderr.isatty():
        yield ended.append
        return
    with tables.console_on(out.stderr).status(f"0/{total} cases") as status:

        def tell(result: CaseResult) -> None:
            ended.append(result)
            failed = sum(case.result == "failed" for case in ended)
            status.update(f"{len(ended)}/{total} cases, {failed} failed")

        yield tell
