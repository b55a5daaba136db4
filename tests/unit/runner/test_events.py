from __future__ import annotations

from osmosis_runner.events import Progress, Silent


def progress(**changes: int) -> Progress:
    fields = {"total": 10, "done": 4, "succeeded": 2, "failed": 1, "skipped": 1, "passed": 2, "resumed": 0}
    return Progress(
        **{**fields, **changes}, in_flight=0, tokens=None, cost_usd=None, elapsed_s=1, finished_here=4
    )


def test_skipped_items_do_not_count_in_the_pass_rate() -> None:
    assert progress().scored == 3
    assert progress().pass_rate == 2 / 3


def test_there_is_no_pass_rate_before_anything_is_scored() -> None:
    assert progress(succeeded=0, failed=0).pass_rate is None


def test_the_silent_watcher_takes_everything() -> None:
    watcher = Silent()
    watcher.stage("x")
    watcher.started(progress())
    watcher.moved(progress())
