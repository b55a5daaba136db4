"""`osmosis eval list` and `repair` over stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.lock import Owner, RunLock
from osmosis_typed import osmosis
from stored_runs import ended, record, stored

FAILED = record(1, status="failed", reward=None, error_type="timeout", error_message="450 s")


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("rollouts", "configs/eval"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".env").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".osmosis" / "evals"


def test_runs_are_listed_the_newest_first(runs: Path) -> None:
    old = stored(runs, "old", record(0), created="2026-01-01T00:00:00Z")
    ended(old, "finished", record(0), FAILED)
    stored(runs, "new", created="2026-02-01T00:00:00Z")
    (runs / "broken").mkdir()
    (runs / "broken" / "manifest.json").write_text("{")
    said = osmosis("eval", "list", "--json")
    assert said.code == 0
    assert [(item["name"], item["status"]) for item in said.document["items"]] == [
        ("new", "killed"),
        ("old", "finished"),
        ("broken", "damaged"),
    ]
    assert said.document["items"][1]["summary"]["pass_rate"] == 0.5
    plain = osmosis("eval", "list", "--plain").stdout.splitlines()
    assert plain[1].split("\t") == [
        "old",
        "finished",
        "quick",
        "local/tiny",
        "2/4",
        "50.0%",
        "2026-01-01T00:00:00Z",
    ]
    drawn = osmosis("eval", "list").stdout
    assert "old" in drawn
    assert "2026-01-01 00:00Z" in drawn


def test_no_rate_is_listed_where_every_item_failed(runs: Path) -> None:
    ended(stored(runs, "bad", FAILED), "finished", FAILED)
    assert osmosis("eval", "list", "--plain").stdout.split("\t")[5] == "—"


def test_a_long_list_is_cut_and_says_so(runs: Path) -> None:
    for number in range(3):
        stored(runs, f"run-{number}", created=f"2026-01-0{number + 1}T00:00:00Z")
    said = osmosis("eval", "list", "--limit", "2", "--plain")
    assert [line.split("\t")[0] for line in said.stdout.splitlines()] == ["run-2", "run-1"]
    assert said.stderr == "and 1 more (--limit 0 lists all)\n"
    listed = osmosis("eval", "list", "--limit", "2", "--json").document
    assert (len(listed["items"]), listed["total_count"], listed["has_more"]) == (2, 3, True)
    for limit in ("0", "3"):
        every = osmosis("eval", "list", "--limit", limit, "--json")
        assert (every.document["total_count"], every.document["has_more"], every.stderr) == (3, False, "")


def test_no_runs_is_said_and_is_no_error(runs: Path) -> None:
    said = osmosis("eval", "list")
    assert (said.code, said.stdout) == (0, f"There are no runs in {runs}.\n")


def test_runs_of_another_folder_are_listed_from_anywhere(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(runs / "other", "there")
    monkeypatch.chdir("/")
    assert osmosis("eval", "list", "-o", str(runs / "other"), "--plain").stdout.startswith("there\t")


def test_a_damaged_journal_is_told_and_can_be_repaired(runs: Path) -> None:
    run = stored(runs, "quick", record(0))
    with run.events.open("ab") as file:
        file.write(b"garbage\n")
    with run.events.open("ab") as file:
        file.write(
            b'{"row_index":2,"run_index":0,"rollout_id":"'
            + b"b" * 32
            + b'","status":"success","duration_ms":1}\n'
        )
    told = osmosis("eval", "show", "quick", "--json")
    assert told.code == 1
    assert "osmosis eval repair quick" in told.error["error"]["message"]
    said = osmosis("eval", "repair", "quick", "--json")
    assert said.code == 0
    assert said.document["status"] == "repaired"
    assert said.document["resource"]["dropped_lines"] == [2]
    assert Path(said.document["resource"]["backup"]).read_bytes().count(b"\n") == 3
    assert osmosis("eval", "show", "quick").code == 0
    again = osmosis("eval", "repair", "quick", "--plain")
    assert again.stdout == "The journal of 'quick' is whole; nothing was changed.\n"


def test_a_run_in_progress_is_not_repaired(runs: Path) -> None:
    stored(runs, "quick")
    with RunLock.acquire(runs, "quick", Owner(4242, "here", "2026-01-02T03:04:05Z")):
        said = osmosis("eval", "repair", "quick", "--json")
    assert (said.code, said.error["error"]["code"]) == (1, "CONFLICT")
    assert "4242" in said.error["error"]["message"]
