"""`osmosis bridge explain`: what would become of each field of one request, without sending it.

It knows how a report is shown; what the report says is the bridge's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, Unpack, cast

import click
import msgspec

from osmosis_bridge.config import ConfigError, parse
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.errors import BridgeError
from osmosis_bridge.explain import Request, explain_request
from osmosis_bridge.native_process import NativeLaneError
from osmosis_bridge.report import FieldReport, ForwardingReport
from osmosis_bridge.routing import RouteError
from osmosis_cli import tables
from osmosis_cli.errors import CLIError, Code, Exit
from osmosis_cli.invocation import Invocation
from osmosis_cli.option_lists import with_options
from osmosis_cli.output import Json, OperationResult, Section

LARGEST = 64 * 1024 * 1024


class ExplainFlags(TypedDict):
    """What was typed after `osmosis bridge explain`."""

    model: str
    api_base: str | None
    lane: str | None
    controls: str | None
    dialect: str
    header: tuple[str, ...]


OPTIONS = (
    click.option("--model", required=True, metavar="MODEL_PATH", help="Model that would answer."),
    click.option("--api-base", metavar="URL", help="Base URL of an OpenAI-compatible endpoint."),
    click.option("--lane", type=click.Choice(["auto", "wire", "native"]), help="How the call would be sent."),
    click.option(
        "--controls",
        type=click.Choice(["strip", "reject"]),
        help="What the bridge would do with fields that are the operator's.",
    ),
    click.option(
        "--dialect",
        type=click.Choice([*DIALECTS]),
        default="chat",
        show_default=True,
        help="The request's format.",
    ),
    click.option(
        "--header",
        "-H",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="A header that the client sends, to see whether it goes out; repeatable.",
    ),
)


@click.command("explain")
@click.argument("request_file", metavar="REQUEST.json", type=click.Path(path_type=Path, allow_dash=True))
@with_options(OPTIONS)
@click.pass_obj
def explain(invocation: Invocation, request_file: Path, **flags: Unpack[ExplainFlags]) -> int:
    """Show what would become of each field of a request: forwarded, changed, stripped or refused, and where.

    REQUEST.json is the body a client sends; - reads standard input. Nothing is sent and no key is needed. Exits 1
    when the bridge would refuse the request.
    """
    body = read_request(request_file)
    given = {name: flags[name] for name in ("model", "api_base", "lane", "controls")}
    try:
        config = parse(given, None, "", dict(invocation.environ))
        request = Request(body, flags["dialect"], read_headers(flags["header"]))
        report = asyncio.run(explain_request(config, request))
    except (ConfigError, RouteError, NativeLaneError, BridgeError) as error:
        raise CLIError(str(error)) from None
    return tables.show(invocation.out, report_result(report))


def read_request(path: Path) -> bytes:
    """The bytes of the request; an error that names the file where it cannot be read."""
    try:
        body = sys.stdin.buffer.read(LARGEST + 1) if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise CLIError(
            f"{path} cannot be read: {error.strerror or error}.",
            fix="Give the path of a file that holds the JSON body of one request.",
            code=Code.NOT_FOUND,
        ) from None
    if len(body) > LARGEST:
        raise CLIError(f"{path} is larger than {LARGEST // (1024 * 1024)} MiB.")
    return body


def read_headers(lines: tuple[str, ...]) -> dict[bytes, bytes]:
    """Headers as a server reads them; a usage error for a line that is none."""
    found: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise click.UsageError(f"--header {line!r} is no header; write it as 'X-Title: my agent'.")
        found[name.strip().lower().encode()] = value.strip().encode()
    return found


def report_result(report: ForwardingReport) -> OperationResult:
    """The report as a result: a line a field, then the request that would be sent."""
    headers = tuple(f"{row.header}: {row.became}" for row in report.headers)
    lines = tuple(outgoing_lines(report))
    refused = "" if report.error is None else f": {report.error['message']}"
    message = (
        f"{report.provider} would be asked for {report.model} ({report.lane} lane)."
        if report.accepted
        else f"The bridge would refuse this request{refused}"
    )
    return OperationResult(
        operation="bridge.explain",
        status="success" if report.accepted else "refused",
        message=message,
        title="Fields",
        rows=tuple((f"{row.field}  ({row.origin})", field_line(row)) for row in report.fields),
        sections=tuple(
            Section(title, told)
            for title, told in (("Client headers", headers), ("Outgoing request", lines))
            if told
        ),
        resource=cast("Mapping[str, Json]", msgspec.json.decode(msgspec.json.encode(report))),
        exit_code=Exit.OK if report.accepted else Exit.ERROR,
    )


def field_line(row: FieldReport) -> str:
    """What became of one field, in one line."""
    between = " " if row.became in ("renamed to", "moved to") else " at "
    place = f"{between}{row.at}" if row.at and row.at != row.field else ""
    values = " -> ".join(value for value in (row.before, row.after) if value is not None)
    why = f" ({row.why})" if row.why else ""
    return f"{row.became}{place}" + (f": {values}" if values and values != "…" else "") + why


def outgoing_lines(report: ForwardingReport) -> list[str]:
    """The request as it would go out, secrets masked."""
    if report.outgoing is None:
        return []
    outgoing = report.outgoing
    lines = [f"{outgoing['method']} {outgoing['url']}"]
    lines += [f"{name}: {value}" for name, value in cast("dict[str, str]", outgoing["headers"]).items()]
    return [*lines, msgspec.json.encode(outgoing["body"]).decode()]
