"""What is shown while a run goes on."""

from __future__ import annotations

import pytest

from fake_runs import item, progress
from osmosis_cli.live import Lines, figures, progress_line, time_left, watching
from osmosis_cli.output import Format
from osmosis_cli.tables import console_on
from osmosis_runner.events import LogLine
from osmosis_typed import output

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


def test_the_last_frame_stays_whatever_happens() -> None:
    out, stdout, _ = output(terminal=True)
    console = console_on(stdout)
    with pytest.raises(RuntimeError), watching(out, verbose=False) as observer:
        observer.started(progress(3))
        raise RuntimeError
    if not console.is_dumb_terminal:
        assert "3/20" in stdout.getvalue()


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out, stdout, _ = output(terminal=True)
    with watching(out, verbose=False) as observer:
        observer.started(progress(0))
    assert stdout.getvalue() == "0/20 pass — · failed 0\n"
