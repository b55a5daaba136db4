from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmosis_runner import runlog
from osmosis_runner.runlog import BUFFERED_LINES, RunLog
from rollouts_under_test import Watcher


def made() -> tuple[RunLog, Watcher]:
    watcher = Watcher()
    return RunLog(watcher, lambda text: text.replace("secret", "[REDACTED]")), watcher


def test_lines_wait_for_the_file_and_then_go_into_it(tmp_path: Path) -> None:
    log, watcher = made()
    log.info("run", "before")
    log.open(tmp_path / "logs.txt")
    log.warning("run", "after", {"row": 3})
    log.output("rollout-server", ["one", "two"])
    log.close()
    lines = (tmp_path / "logs.txt").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "INFO [run] before",
        'WARNING [run] after {"row":3}',
        "INFO [rollout-server] one",
        "INFO [rollout-server] two",
    ]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ", line) for line in lines)
    assert [line.message for line in watcher.lines] == ["before", "after", "one", "two"]
    assert (tmp_path / "logs.txt").stat().st_mode & 0o777 == 0o600


def test_secrets_are_taken_out_of_message_and_details(tmp_path: Path) -> None:
    log, watcher = made()
    log.open(tmp_path / "logs.txt")
    log.error("run", "a secret", {"b": "secret"})
    assert "secret" not in (tmp_path / "logs.txt").read_text()
    assert watcher.lines[0].message == "a [REDACTED]"
    log.close()


def test_memory_is_bounded_while_there_is_no_file(tmp_path: Path) -> None:
    log, _ = made()
    for number in range(BUFFERED_LINES + 10):
        log.info("run", str(number))
    log.open(tmp_path / "logs.txt")
    log.close()
    assert len((tmp_path / "logs.txt").read_text().splitlines()) == BUFFERED_LINES


def test_a_log_that_cannot_be_written_is_said_and_survived(tmp_path: Path) -> None:
    log, watcher = made()
    log.open(tmp_path / "missing" / "logs.txt")
    log.info("run", "goes on")
    log.info("run", "and on")
    assert [warning.code for warning in watcher.warnings] == ["NO_LOG"]
    assert str(tmp_path / "missing" / "logs.txt") in watcher.warnings[0].text
    log.close()


@pytest.mark.parametrize("text", ["half \ud800", "naïve \U0001f4a5"])
def test_any_text_can_be_logged(tmp_path: Path, text: str) -> None:
    log, _ = made()
    log.open(tmp_path / "logs.txt")
    log.info("run", text)
    log.close()
    assert (tmp_path / "logs.txt").read_text().count("\n") == 1


def test_output_without_end_is_cut_and_what_the_run_says_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runlog, "OUTPUT_LIMIT", 1024 * 1024)
    log, watcher = made()
    log.open(tmp_path / "logs.txt")
    for number in range(200):
        log.output("rollout-server", [f"{number} " + "x" * 8_000])
    log.error("run", "the end")
    log.close()
    lines = (tmp_path / "logs.txt").read_text().splitlines()
    assert 1024 * 1024 < (tmp_path / "logs.txt").stat().st_size < 1024 * 1024 + 9_000
    assert "[run] (cut) 1 MB of output are in this log" in lines[-2]
    assert lines[-1].endswith("ERROR [run] the end")
    assert sum("[run] (cut)" in line for line in lines) == 1
    assert len(watcher.lines) == 202
