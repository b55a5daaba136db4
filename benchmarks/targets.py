"""What we aim at, and whether a run reached it. Pure: a summary in, verdicts out.

Absolute figures move with the machine, so a row may also carry the share of nginx that it should reach in the same run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contestants import NGINX, OURS, ROLTER
from benchmarks.results import Summary, ratio, value_of

MISSING = "-"
"""In the place of a figure that is not there."""


@dataclass(frozen=True, slots=True)
class Target:
    """One figure of ours and its bound; `of_nginx` are the shares of nginx's figure (target, stretch)."""

    label: str
    measure: str
    value: str
    bound: float
    stretch: float | None = None
    unit: str = ""
    at_least: bool = False
    of_nginx: tuple[float, float] | None = None
    over: tuple[str, str] | None = None
    """(contestant, contestant): the figure is the first one's as a multiple of the second's."""

    def measured(self, summary: Summary) -> float | None:
        """Our figure; None where it was not measured."""
        if self.over is not None:
            return ratio(summary, self.measure, self.value, *self.over)
        return value_of(summary, self.measure, OURS, self.value)

    def reaches(self, figure: float, bound: float) -> bool:
        """Whether a figure is on the right side of a bound."""
        return figure >= bound if self.at_least else figure <= bound


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run says about one target."""

    target: Target
    figure: float | None
    share: float | None
    """Our figure as a share of nginx's, where the target has one and nginx ran."""

    @property
    def is_met(self) -> bool | None:
        """Whether the figure reaches its bound; None where it was not measured."""
        return None if self.figure is None else self.target.reaches(self.figure, self.target.bound)

    @property
    def share_is_met(self) -> bool | None:
        """Whether the share of nginx is reached; None where there is none."""
        if self.share is None or self.target.of_nginx is None:
            return None
        return self.target.reaches(self.share, self.target.of_nginx[0])

    @property
    def status(self) -> str:
        """In words: met (and the stretch too), missed by how much, or not measured."""
        figure, target = self.figure, self.target
        if figure is None:
            return "not measured"
        if not self.is_met:
            off = abs(figure - target.bound)
            percent = f" ({off / target.bound:.0%})" if target.bound else ""
            return f"missed by {number(off)}{f' {target.unit}' if target.unit else ''}{percent}"
        if target.stretch is not None and target.reaches(figure, target.stretch):
            return "met, stretch too"
        return "met"

    @property
    def share_status(self) -> str:
        """The same of the share of nginx; empty where the target has none."""
        if self.target.of_nginx is None:
            return ""
        if self.share is None:
            return "nginx not measured"
        wanted, stretch = self.target.of_nginx
        if not self.share_is_met:
            return f"{self.share:.2f}: missed by {abs(self.share - wanted):.2f}"
        return f"{self.share:.2f}: met" + (
            ", stretch too" if self.target.reaches(self.share, stretch) else ""
        )


def number(value: float) -> str:
    """A figure as people read it: three digits that matter, thousands apart."""
    if not math.isfinite(value):
        return MISSING
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if round(abs(value), 3) >= 0.1 else f"{value:.3f}"


ROWS = (1_000, 10_000, 100_000)


def _runner_targets() -> list[Target]:
    found: list[Target] = []
    for rows in ROWS:
        measure = f"rows_{rows}"
        found += [
            Target(f"runner, {rows:,} rows", measure, "rows_per_s", 300, unit="rows/s", at_least=True),
            Target(
                f"runner, {rows:,} rows: supervisor CPU",
                measure,
                "supervisor_cpu_ms_per_row",
                3,
                unit="ms a row",
            ),
            Target(
                f"runner, {rows:,} rows: supervisor memory", measure, "supervisor_peak_mb", 100, unit="MB"
            ),
        ]
    return found


TARGETS: Sequence[Target] = (
    Target("1 KB calls", "small", "rate", 12_000, 25_000, "req/s", at_least=True, of_nginx=(0.16, 0.33)),
    Target("100 KB calls", "large", "rate", 4_000, 6_000, "req/s", at_least=True),
    Target(
        "100 KB calls, times rolter", "large", "rate", 6, unit="times", at_least=True, over=(OURS, ROLTER)
    ),
    Target("added p50, 1 paced connection", "paced_1", "added_p50_ms", 0.40, 0.30, "ms"),
    Target("added p99, 1 paced connection", "paced_1", "added_p99_ms", 0.90, 0.70, "ms"),
    Target("added p50, 16 in flight", "in_flight_16", "added_p50_ms", 0.7, 0.5, "ms"),
    Target("added p99, 16 in flight", "in_flight_16", "added_p99_ms", 1.5, 0.8, "ms"),
    Target("1,000 streams: first chunk p50", "streams_1000", "first_p50_ms", 0.7, unit="ms"),
    Target("1,000 streams: first chunk p99", "streams_1000", "first_p99_ms", 15, unit="ms"),
    Target("1,000 streams: CPU a chunk", "streams_1000", "cpu_us", 55, unit="µs"),
    Target("1,000 streams: memory a stream", "streams_1000", "kb_per_stream", 25, unit="KB"),
    Target("5,000 streams: lost", "streams_5000", "lost", 0, unit="streams"),
    Target("5,000 streams: chunk transit p99", "streams_5000", "transit_p99_ms", 20, 2, "ms"),
    Target("5,000 streams: event-loop lag, largest", "streams_5000", "loop_lag_ms", 20, unit="ms"),
    Target("5,000 streams: memory a stream", "streams_5000", "kb_per_stream", 24, 8, "KB"),
    Target("most chunks a second", "chunks_max", "chunks_per_s", 25_000, 40_000, "chunks/s", at_least=True),
    Target("ready, wire lane", "start", "ready_ms", 300, 200, "ms"),
    Target("resident idle, wire lane", "start", "idle_mb", 45, 30, "MB"),
    Target(
        "native lane: CPU over bare litellm",
        "native",
        "cpu_ms",
        1.3,
        unit="times",
        over=("native lane", "bare litellm"),
    ),
    *_runner_targets(),
    Target("start to first dispatch, warm", "rows_1000", "first_dispatch_s", 1, unit="s"),
)


def judge(summary: Summary, targets: Sequence[Target] = TARGETS) -> list[Verdict]:
    """A verdict for every target, in their order."""
    return [
        Verdict(
            target,
            target.measured(summary),
            None if target.of_nginx is None else ratio(summary, target.measure, target.value, OURS, NGINX),
        )
        for target in targets
    ]
