"""What is shown while a run goes on."""

from __future__ import annotations

import pytest
from rich.console import Console

from fake_runs import item, progress
from osmosis_cli.live import Bar, Lines, figures, progress_line, time_left, watching
from osmosis_cli.output import Format
from osmosis_cli.tables import console_on
from osmosis_runner.events import LogLine, Warned
from osmosis_typed import Stream, output

LOG = LogLine("INFO", "rollout-server", "hello\x1b[2J")


def test_a_line_tells_done_pass_and_failed() -> None:
    assert progress_line(progress(0, passed=0)) == "0/20 pass — · failed 0"
    assert progress_line(progress(4, passed=3, failed=1, succeeded=3)) == "4/20 pass 75% · failed 1"


def test_figures_tell_who_waits_for_the_provider_and_how_often_it_turned_calls_away() -> None:
    told = figures(progress(0, waiting=3, retries=12), 0)
    assert told == ["pass —", "failed 0", "4 in flight", "3 waiting for the provider", "12 retries"]
    assert "1 retry" in figures(progress(0, retries=1), 0)


def test_figures_tell_what_is_known() -> None:
    assert figures(progress(0), 0) == ["pass —", "failed 0", "4 in flight"]
    told = figures(progress(10, succeeded=9, passed=9, skipped=1, cost_usd=0.5, tokens=12345), 30)
    assert told == [
        "pass 100%",
        "failed 0",
        "skipped 1",
        "4 in flight",
        "20.0 rows/min",
        "12,345 tokens",
        "$0.5000",
    ]


def test_the_time_left_goes_by_the_pace_so_far() -> None:
    assert time_left(progress(0), 5) == ""
    assert time_left(progress(5), 10) == "about 30s left"
    assert time_left(progress(20), 10) == ""
    assert time_left(progress(15, finished_here=5, resumed=10), 10) == "about 10s left"


def test_a_file_gets_one_line_an_item_and_the_first_state() -> None:
    out, stdout, _ = output()
    with watching(out, verbose=False) as observer:
        assert isinstance(observer, Lines)
        observer.stage("checking model")
        observer.started(progress(0))
        observer.moved(progress(0))
        observer.item_finished(item(0), progress(1))
        observer.logged(LOG)
    assert stdout.getvalue().splitlines() == [
        "→ checking model",
        "0/20 pass — · failed 0",
        "1/20 pass 100% · failed 0",
    ]


@pytest.mark.parametrize("form", [Format.JSON, Format.PLAIN])
def test_programs_get_no_progress(form: Format) -> None:
    out, stdout, _ = output(form, terminal=True)
    with watching(out, verbose=False) as observer:
        observer.started(progress(0))
        observer.item_finished(item(0), progress(1))
    assert stdout.getvalue() == ""


def test_every_log_line_instead_of_stages_when_wanted() -> None:
    out, stdout, _ = output()
    with watching(out, verbose=True) as observer:
        observer.stage("checking model")
        observer.logged(LOG)
    assert stdout.getvalue() == "→ INFO [rollout-server] hello[2J\n"


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


def test_the_last_frame_stays_whatever_happens() -> None:
    out, stdout, _ = output(terminal=True)
    console = console_on(stdout)
    with pytest.raises(RuntimeError), watching(out, verbose=False) as observer:
        observer.started(progress(3))
        raise RuntimeError
    if not console.is_dumb_terminal:
        assert "3/20" in stdout.getvalue()


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


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out, stdout, _ = output(terminal=True)
    with watching(out, verbose=False) as observer:
        observer.started(progress(0))
    assert stdout.getvalue() == "0/20 pass — · failed 0\n"
