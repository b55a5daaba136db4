"""Figures for Prometheus, in its text format. Reads what others count; counts only the lag of the event loop itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from osmosis_bridge.serve import Bridge
from osmosis_bridge.upstream import Transport

_LAG_PROBE_S = 0.25


class Metrics:
    """Collects figures of one bridge."""

    def __init__(self, bridge: Bridge, transport: Transport) -> None:
        self._bridge = bridge
        self._transport = transport
        self._lag = self._lag_max = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch_loop(self) -> None:
        """Measure the event loop's lag from now on."""
        loop = asyncio.get_running_loop()
        due = loop.time() + _LAG_PROBE_S

        def probe() -> None:
            self._lag = max(0.0, loop.time() - due)
            self._lag_max = max(self._lag, self._lag_max)
            self.watch_loop()

        self._timer = loop.call_at(due, probe)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def text(self) -> str:
        """All figures, one metric a block."""
        accounts, whole = self._bridge.accounts, self._bridge.accounts.whole
        ledger = self._bridge.ledger
        lag = [('{kind="last"}', self._lag), ('{kind="max"}', self._lag_max)]
        blocks = (
            ("calls_total", "Calls by how they ended.", self._by_status()),
            ("tokens_total", "Tokens that providers counted.", _one(whole.tokens or 0)),
            ("calls_without_usage_total", "Calls without usage.", _one(whole.calls_without_usage)),
            ("calls_in_flight", "Calls being served.", _one(self._bridge.in_flight)),
            ("rollouts", "Rollouts seen.", _one(len(accounts))),
            ("upstream_connections", "Connections to the provider.", self._connections()),
            (
                "ledger_failing",
                "1 while records cannot be kept, else 0.",
                _one(int(ledger.trouble is not None)),
            ),
            ("ledger_records_waiting", "Records that wait to be written.", _one(ledger.held)),
            ("loop_lag_seconds", "Lag of the event loop, last and largest.", lag),
        )
        return "".join(
            _block(f"osmosis_bridge_{name}", help_text, samples) for name, help_text, samples in blocks
        )

    def _by_status(self) -> list[tuple[str, float]]:
        counts = sorted(self._bridge.accounts.by_status.items())
        return [(f'{{status="{status}"}}', count) for status, count in counts]

    def _connections(self) -> list[tuple[str, float]]:
        names = (("open", "open_connections"), ("idle", "idle_connections"), ("waiting", "waiting"))
        return [(f'{{state="{state}"}}', getattr(self._transport, name, 0)) for state, name in names]


def _one(value: float) -> list[tuple[str, float]]:
    return [("", value)]


def _block(name: str, help_text: str, samples: Iterable[tuple[str, float]]) -> str:
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = "".join(f"{name}{labels} {value}\n" for labels, value in samples)
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n{lines}"
