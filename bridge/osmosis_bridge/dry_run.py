"""A dry run: what would become of one request, its headers included; nothing is sent and nothing recorded.

It is made of the same decisions that serve a call. On the native lane the process that translates is asked for the
request it would send. Whoever holds the run's bearer debugs, and sees where calls go; a rollout does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from osmosis_bridge.client_headers import passing, report_headers
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.errors import Refused
from osmosis_bridge.exchanges import ERROR_BODY_LIMIT, transport_failure
from osmosis_bridge.policy import admit
from osmosis_bridge.redact import Redactor
from osmosis_bridge.report import ForwardingReport, explain, translated
from osmosis_bridge.serve import Bridge
from osmosis_bridge.upstream import Endpoint, TransportError


class DryRun(msgspec.Struct, frozen=True):
    """A request that is explained and not sent.

    `headers` are the client's; `shows_host` says whether the one who asks may see the host that calls go to.
    """

    body: bytes
    dialect: Dialect
    headers: Mapping[bytes, bytes] = msgspec.field(default_factory=dict[bytes, bytes])
    shows_host: bool = True


async def dry_run(bridge: Bridge, asked: DryRun) -> ForwardingReport:
    """The report on one request. Raises `BridgeError` where the process that translates does not answer."""
    report = _wire_report(bridge, asked)
    if bridge.target.lane == "native" and report.accepted:
        report = await _translated(bridge, asked, report)
    return _shown(report, bridge.redactor, shows_host=asked.shows_host)


def _wire_report(bridge: Bridge, asked: DryRun) -> ForwardingReport:
    target, dialect, scrub = bridge.target, asked.dialect, bridge.redactor.scrub
    passed = bridge.passed_headers(dialect)
    rows = report_headers(asked.headers, passed)
    try:
        passing(asked.headers, asked.headers.items(), passed)
    except Refused as error:
        found = msgspec.json.decode(error.body())["error"]
        model = bridge.policy.upstream_model
        return ForwardingReport(model, target.provider, "wire", False, (), error=found, headers=rows)

    def headers(stream: bool) -> dict[str, str]:  # noqa: FBT001 - what kind of request it is
        usual = dialect.outgoing(target.headers(stream=stream), target.endpoint.host)
        sent = usual + bridge.client_headers(dialect, asked.headers, asked.headers.items())
        return {name.decode(): scrub(value).decode(errors="replace") for name, value in sent}

    report = explain(
        asked.body,
        bridge.policy,
        dialect.envelope,
        provider=target.provider,
        url=_url(target.endpoint, dialect.path_bytes),
        headers=headers,
    )
    return msgspec.structs.replace(report, headers=rows)


def _url(endpoint: Endpoint, path: bytes) -> str:
    return f"{endpoint.scheme}://{(endpoint.authority + endpoint.target(path)).decode('ascii')}"


async def _translated(bridge: Bridge, asked: DryRun, report: ForwardingReport) -> ForwardingReport:
    target = bridge.target
    sent = admit(asked.body, bridge.policy, asked.dialect.envelope)
    path = b"/explain" + asked.dialect.path_bytes
    headers = target.plain_headers + bridge.client_headers(
        asked.dialect, asked.headers, asked.headers.items()
    )
    try:
        exchange = await bridge.transport.open(b"POST", target.endpoint, path, headers, sent.body)
        return _with_headers_sent(translated(report, exchange.status, await exchange.whole(ERROR_BODY_LIMIT)))
    except TransportError as error:
        raise transport_failure(error, bridge.redactor) from None


def _with_headers_sent(report: ForwardingReport) -> ForwardingReport:
    """The report with what the process that translates made of the headers it was given."""
    outgoing: Mapping[str, object] = {} if report.outgoing is None else report.outgoing["headers"]
    sent = {name.lower() for name in outgoing}
    rows = tuple(
        msgspec.structs.replace(row, became="dropped")
        if row.became == "forwarded" and row.header not in sent
        else row
        for row in report.headers
    )
    return msgspec.structs.replace(report, headers=rows)


def _shown(report: ForwardingReport, redactor: Redactor, *, shows_host: bool) -> ForwardingReport:
    """The report with the outgoing URL as the one who asks may see it."""
    if report.outgoing is None:
        return report
    url = masked_url(redactor.scrub_text(str(report.outgoing["url"])))
    shown = url if shows_host else redactor.message(url)
    return msgspec.structs.replace(report, outgoing={**report.outgoing, "url": shown})


def masked_url(url: str) -> str:
    """A URL with its host and path, and without what may be secret: user and password, and the values of its query."""
    parts = urlsplit(url)
    names = [part.partition("=")[0] for part in parts.query.split("&") if part]
    query = "&".join(f"{name}=…" for name in names)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query, fragment="").geturl()
