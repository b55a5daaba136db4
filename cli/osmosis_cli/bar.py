"""The bar that is drawn on a terminal while a run goes on.

The run calls an observer on its event loop and must not be held up, so a bar keeps the last `Progress` and a thread of
rich's draws it a few times a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from osmosis_cli.figures import duration
from osmosis_cli.live import Words, figures, log_text, time_left
from osmosis_cli.output import one_line
from osmosis_cli.render import Output
from osmosis_cli.spelling import spelled, wrapped
from osmosis_cli.tables import console_on
from osmosis_runner.events import FinishedItem, LogLine, Progress, Warned

FRAMES_PER_SECOND = 8
BAR_WIDTHS = (10, 40)
"""Columns of the bar itself, at least and at most."""
BESIDE_BAR = 40
"""Columns wanted for the words beside it."""


def bar_on(out: Output, verbose: bool) -> Bar | None:  # noqa: FBT001 - it is called by name
    """A bar on the terminal of `out`; None where that can draw none."""
    console = console_on(out.stdout)
    return None if console.is_dumb_terminal else Bar(out, console, verbose=verbose)


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
