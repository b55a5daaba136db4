"""The bar that is drawn while a run goes on."""

from __future__ import annotations

import pytest
from rich.console import Console

from fake_runs import item, progress
from osmosis_cli.bar import Bar
from osmosis_runner.events import LogLine, Warned
from osmosis_typed import Stream, output

LOG = LogLine("INFO", "rollout-server", "hello\x1b[2J")


def test_a_terminal_gets_a_bar_with_stages_and_warnings_above_it() -> None:
    out, stdout, stderr = output(terminal=True)
    console = Console(
        file=stdout, force_terminal=True, width=100, legacy_windows=False, _environ={"TERM": "xterm"}
    )
    bar = Bar(out, console, verbose=False, clock=lambda: 0.0)
    bar.stage("checking model")
    bar.warned(Warned("EARLY", "before the bar"))
    bar.started(progress(0))
    bar.stage("waiting for 2 rollouts")
    bar.warned(Warned("LATE", "during the bar"))
    bar.logged(LOG)
    bar.item_finished(item(0), progress(1))
    bar.moved(progress(20))
    bar.close()
    bar.close()
    text = stdout.getvalue()
    assert stderr.getvalue() == "⚠ before the bar\n"
    for part in ("→ checking model", "→ waiting for 2 rollouts", "⚠ during the bar", "20/20", "2,000 tokens"):
        assert part in text
    assert "hello" not in text


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_a_bar_fits_the_terminal(width: int) -> None:
    console = Console(file=Stream(), width=width)
    bar = Bar(output()[0], console, verbose=False, clock=lambda: 0.0)
    bar.started(progress(5))
    lines = console.render_lines(bar.drawn(), pad=False)
    bar.close()
    assert len(lines) == 2
    assert all(sum(len(segment.text) for segment in line) <= width for line in lines)


class Ascii(Stream):
    """A stream that can write ASCII only, and fails like one."""

    encoding = "ascii"

    def write(self, text: str) -> int:
        """Write what ASCII has."""
        return super().write(text.encode("ascii").decode())


@pytest.mark.parametrize("width", [40, 80])
def test_a_bar_above_ascii_has_plain_signs_and_wraps_stages_between_words(width: int) -> None:
    stream = Ascii(terminal=True)
    console = Console(file=stream, width=width, color_system=None, force_terminal=False)
    bar = Bar(output()[0], console, verbose=False, clock=lambda: 0.0)
    bar.started(progress(3))
    bar.stage("running 20 work items, up to 4 in flight, of a run that was interrupted before it ended")
    bar.warned(Warned("LATE", "during the bar"))
    bar.item_finished(item(0), progress(20))
    bar.close()
    lines = stream.getvalue().splitlines()
    told = lines[: next(number for number, line in enumerate(lines) if "during the bar" in line)]
    assert told[0].startswith("-> running 20 work items")
    assert all(len(line) <= width for line in told)
    assert "flight," in " ".join(told).split()
    assert "pass 100% - failed 0" in stream.getvalue()
