"""What is shown while a run goes on: a live bar on a terminal, one line an item elsewhere, nothing for programs.

The run calls an observer on its event loop and must not be held up, so a bar keeps the last `Progress` and a thread of
rich's draws it a few times a second. It knows nothing of how a run is carried out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from osmosis_cli.figures import amount, duration, percent
from osmosis_cli.output import Format, one_line
from osmosis_cli.render import Output
from osmosis_cli.spelling import spelled, wrapped
from osmosis_cli.tables import console_on
from osmosis_runner.events import FinishedItem, LogLine, Observer, Progress, Warned

FRAMES_PER_SECOND = 8
BAR_WIDTHS = (10, 40)
"""Columns of the bar itself, at least and at most."""
BESIDE_BAR = 40
"""Columns wanted for the words beside it."""


@contextmanager
def watching(out: Output, *, verbose: bool) -> Generator[Observer]:
    """The observer that fits the output; whatever it draws is finished when the block is left."""
    if out.format is not Format.RICH:
        yield Words(out, verbose=verbose)
        return
    console = console_on(out.stdout)
    if not out.stdout.isatty() or console.is_dumb_terminal:
        yield Lines(out, verbose=verbose)
        return
    bar = Bar(out, console, verbose=verbose)
    try:
        yield bar
    finally:
        bar.close()


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


class Bar(Words):
    """Draws a bar with figures below it; stages and warnings scroll by above it."""

    def __init__(
        self, out: Output, console: Console, *, verbose: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(out, verbose=verbose)
        self._console = console
        self._clock = clock
        self._seen: tuple[Progress, float] | None = None
        unicode = console.encoding.startswith("utf")
        self._spinner = Spinner("dots" if unicode else "line")
        self._overflow: OverflowMethod = "ellipsis" if unicode else "crop"
        self._live: Live | None = None

    def started(self, progress: Progress) -> None:
        """Begin to draw."""
        self._keep(progress)
        self._live = Live(
            get_renderable=self.drawn,
            console=self._console,
            refresh_per_second=FRAMES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def item_finished(self, item: FinishedItem, progress: Progress) -> None:
        """Keep the state for the next frame."""
        self._keep(progress)

    def moved(self, progress: Progress) -> None:
        """Keep the state for the next frame."""
        self._keep(progress)

    def stage(self, text: str) -> None:
        """Tell a stage above the bar."""
        if self._live is None:
            super().stage(text)
        elif not self._verbose:
            self._tell(f"→ {one_line(text)}")

    def warned(self, warning: Warned) -> None:
        """Tell a warning above the bar."""
        if self._live is None:
            super().warned(warning)
        else:
            self._tell(f"⚠ {one_line(warning.text)}", "yellow")

    def logged(self, line: LogLine) -> None:
        """Tell a log line above the bar."""
        if self._live is None:
            super().logged(line)
        elif self._verbose:
            self._tell(one_line(log_text(line)))

    def close(self) -> None:
        """Draw the last frame and give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def drawn(self) -> RenderableType:
        """The bar as it stands now."""
        if self._seen is None:
            return Text()
        progress, at = self._seen
        elapsed = progress.elapsed_s + (self._clock() - at if progress.done < progress.total else 0)
        width = max(BAR_WIDTHS[0], min(BAR_WIDTHS[1], self._console.width - BESIDE_BAR))
        words = Text.assemble(
            (f"{progress.done}/{progress.total}", "bold"),
            f" {duration(elapsed)} ",
            (time_left(progress, elapsed), "dim"),
            overflow=self._overflow,
            no_wrap=True,
        )
        line = Table.grid(padding=(0, 1))
        line.add_row(
            self._spinner if progress.done < progress.total else Text(self._spelled("✓")),
            ProgressBar(total=progress.total, completed=progress.done, width=width),
            words,
        )
        told = self._spelled(" · ".join(figures(progress, elapsed)))
        return Group(line, Text(f"  {told}", overflow=self._overflow, no_wrap=True))

    def _tell(self, text: str, style: str = "") -> None:
        """A line above the bar, left to the terminal where a word is longer than it is wide."""
        lines = wrapped(self._spelled(text), self._console.width)
        self._console.print(Text("\n".join(lines), style=style), soft_wrap=True)

    def _spelled(self, text: str) -> str:
        return spelled(text, self._console.encoding)

    def _keep(self, progress: Progress) -> None:
        self._seen = (progress, self._clock())


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
