"""Figures for Prometheus: exact counters, in its text format."""

from __future__ import annotations

import asyncio
import re

import pytest

from fakes import FakeLedger, FakeTransport, a_bridge
from osmosis_bridge.call import Outcome, Usage
from osmosis_bridge.errors import LedgerFailed
from osmosis_bridge.metrics import Metrics


def figures(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^([^#\s]+) (\S+)$", text, re.MULTILINE)}


def test_figures_are_what_the_accounts_count() -> None:
    transport = FakeTransport()
    bridge = a_bridge(transport)
    for status in ("ok", "ok", "truncated"):
        usage = Usage(total_tokens=12_345_678)
        bridge.accounts.add("r", Outcome(status=status, usage=usage, usage_source="provider"))
    bridge.accounts.add("s", Outcome(status="cancelled", usage_source="missing"))
    bridge.in_flight = 2
    found = figures(Metrics(bridge, transport).text())
    assert found == {
        'osmosis_bridge_calls_total{status="ok"}': 2,
        'osmosis_bridge_calls_total{status="truncated"}': 1,
        'osmosis_bridge_calls_total{status="cancelled"}': 1,
        "osmosis_bridge_tokens_total": 37_037_034,
        "osmosis_bridge_calls_without_usage_total": 1,
        "osmosis_bridge_calls_in_flight": 2,
        "osmosis_bridge_rollouts": 2,
        'osmosis_bridge_upstream_connections{state="open"}': 0,
        'osmosis_bridge_upstream_connections{state="idle"}': 0,
        'osmosis_bridge_upstream_connections{state="waiting"}': 0,
        "osmosis_bridge_ledger_failing": 0,
        "osmosis_bridge_ledger_records_waiting": 0,
        'osmosis_bridge_loop_lag_seconds{kind="last"}': 0,
        'osmosis_bridge_loop_lag_seconds{kind="max"}': 0,
    }


def test_every_metric_has_its_help_and_type_right_above_it() -> None:
    transport = FakeTransport()
    text = Metrics(a_bridge(transport), transport).text()
    assert text.endswith("\n")
    for name, kind in re.findall(r"^# HELP (\S+) .+\n# TYPE \1 (\w+)$", text, re.MULTILINE):
        assert kind == ("counter" if name.endswith("_total") else "gauge")
    assert len(re.findall(r"^# TYPE ", text, re.MULTILINE)) == 9


def test_a_ledger_that_fails_is_seen_with_the_records_that_wait() -> None:
    transport, ledger = FakeTransport(), FakeLedger(fail_at=1)
    bridge = a_bridge(transport, ledger)
    with pytest.raises(LedgerFailed):
        ledger.append(b"{}")
    for _ in range(2):
        ledger.hold(b"{}", admitted=True)
    found = figures(Metrics(bridge, transport).text())
    assert found["osmosis_bridge_ledger_failing"] == 1
    assert found["osmosis_bridge_ledger_records_waiting"] == 2


def test_connections_are_what_the_transport_says() -> None:
    transport = FakeTransport()
    transport.open_connections, transport.idle_connections, transport.waiting = 3, 2, 1  # pyright: ignore[reportAttributeAccessIssue]
    found = figures(Metrics(a_bridge(transport), transport).text())
    states = ("open", "idle", "waiting")
    assert [found[f'osmosis_bridge_upstream_connections{{state="{state}"}}'] for state in states] == [3, 2, 1]


def test_the_lag_of_the_loop_is_measured_until_it_is_stopped() -> None:
    async def main() -> dict[str, float]:
        metrics = Metrics(a_bridge(FakeTransport()), FakeTransport())
        metrics.stop()
        metrics.watch_loop()
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        # Blocks the loop past the moment of the probe.
        end = loop.time() + 0.5
        while loop.time() < end:
            pass
        await asyncio.sleep(0.01)
        metrics.stop()
        return figures(metrics.text())

    found = asyncio.run(main())
    assert found['osmosis_bridge_loop_lag_seconds{kind="max"}'] > 0.1
    assert found['osmosis_bridge_loop_lag_seconds{kind="last"}'] > 0.1
