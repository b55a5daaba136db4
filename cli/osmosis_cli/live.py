"""What is shown while a run goes on: a live bar on a terminal, one line an item elsewhere, nothing for programs.

It knows nothing of how a run is carried out, and of rich only where the bar is that it draws (`bar.py`): programs
and build logs do not wait until that is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from osmosis_cli.figures import amount, duration, percent
from osmosis_cli.lazy import load
from osmosis_cli.output import Format
from osmosis_cli.render import Output
from osmosis_runner.events import FinishedItem, LogLine, Observer, Progress, Warned

if TYPE_CHECKING:
    from osmosis_cli.bar import Bar


@contextmanager
def watching(out: Output, *, verbose: bool) -> Generator[Observer]:
    """The observer that fits the output; whatever it draws is finished when the block is left."""
    if out.format is not Format.RICH:
        yield Words(out, verbose=verbose)
        return
    bar = _bar_on(out, verbose) if out.stdout.isatty() else None
    if bar is None:
        yield Lines(out, verbose=verbose)
        return
    try:
        yield bar
    finally:
        bar.close()


def _bar_on(out: Output, verbose: bool) -> Bar | None:  # noqa: FBT001 - the one argument that is told
    return cast("Callable[[Output, bool], Bar | None]", load("osmosis_cli.bar:bar_on"))(out, verbose)


class Words:
    """Tells stages and warnings and no progress: what programs and scripts get."""

    def __init__(self, out: Output, *, verbose: bool) -> None:
        self._out = out
        self._verbose = verbose

    def stage(self, text: str) -> None:
        """Tell a stage, unless every log line is told."""
        if not self._verbose:
            self._out.status(text)

    def warned(self, warning: Warned) -> None:
        """Tell a warning."""
        self._out.warn(warning.code, warning.text)

    def logged(self, line: LogLine) -> None:
        """Tell a log line when every one is wanted."""
        if self._verbose:
            self._out.status(log_text(line))

    def started(self, progress: Progress) -> None:
        """Nothing to tell."""

    def item_finished(self, item: FinishedItem, progress: Progress) -> None:
        """Nothing to tell."""

    def moved(self, progress: Progress) -> None:
        """Nothing to tell."""


class Lines(Words):
    """Tells one line an item, for people who read a file or a build log."""

    def started(self, progress: Progress) -> None:
        """Tell where the run stands before anything has run."""
        self._out.say(progress_line(progress))

    def item_finished(self, item: FinishedItem, progress: Progress) -> None:
        """Tell where the run stands now."""
        self._out.say(progress_line(progress))


def progress_line(progress: Progress) -> str:
    """`done/total pass P% · failed F`, the line of SPEC.md a.4."""
    rate = percent(progress.pass_rate, digits=0)
    return f"{progress.done}/{progress.total} pass {rate} · failed {progress.failed}"


def figures(progress: Progress, elapsed: float) -> list[str]:
    """What stands below the bar; a figure that is not known yet is left out. `elapsed` in seconds."""
    told = [f"pass {percent(progress.pass_rate, digits=0)}", f"failed {progress.failed}"]
    if progress.skipped:
        told.append(f"skipped {progress.skipped}")
    told.append(f"{progress.in_flight} in flight")
    if progress.waiting:
        told.append(f"{progress.waiting} waiting for the provider")
    if progress.retries:
        told.append(counted_retries(progress.retries))
    if progress.finished_here and elapsed > 0:
        told.append(f"{progress.finished_here * 60 / elapsed:,.1f} rows/min")
    if progress.tokens is not None:
        told.append(f"{amount(progress.tokens)} tokens")
    if progress.cost_usd is not None:
        told.append(f"${progress.cost_usd:.4f}")
    return told


def counted_retries(number: int) -> str:
    """How many calls the provider turned away for a while."""
    return "1 retry" if number == 1 else f"{number:,} retries"


def time_left(progress: Progress, elapsed: float) -> str:
    """How long the rest takes at the pace so far, in words; empty before the first item and after the last."""
    rest = progress.total - progress.done
    if not rest or not progress.finished_here:
        return ""
    return f"about {duration(elapsed / progress.finished_here * rest)} left"


def log_text(line: LogLine) -> str:
    """A log line as it is shown."""
    return f"{line.level} [{line.step}] {line.message}"
