from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from osmosis_cli import doctor
from osmosis_cli.checks import Check
from osmosis_cli.doctor import check_bridge, doctor_result, line_of
from osmosis_cli.output import document
from osmosis_runner.faults import SidecarError
from osmosis_runner.sidecar import Sidecar
from osmosis_typed import osmosis
from rollouts_under_test import make_workspace, row

OK = Check("Python", "ok", "3.12")
NOTE = Check("uv", "note", "not installed", "pip install uv")
FAILED = Check("Key for openai/m", "failed", "no key", "export OPENAI_API_KEY=...")
KEY = "sk-canary-0123456789"


def test_each_failure_ends_with_the_command_to_type() -> None:
    assert [line_of(check) for check in (OK, NOTE, FAILED)] == [
        "ok: 3.12",
        "note: not installed -> pip install uv",
        "failed: no key -> export OPENAI_API_KEY=...",
    ]
    result = doctor_result([OK, NOTE, FAILED])
    assert (result.exit_code, result.message) == (1, "1 of 3 checks failed.")
    assert [step.command for step in result.next_steps] == ["export OPENAI_API_KEY=..."]


def test_notes_are_no_failure() -> None:
    result = doctor_result([OK, NOTE])
    assert (result.exit_code, result.status, result.next_steps) == (0, "success", ())
    assert json.loads(json.dumps(document(result)))["resource"]["ok"] is True


def test_a_bridge_is_started_on_loopback_and_ended_again() -> None:
    assert asyncio.run(check_bridge(dict(os.environ))).state == "ok"


def test_a_bridge_that_does_not_start_is_told_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> Sidecar:
        raise SidecarError("the bridge did not start: no room")

    monkeypatch.setattr(Sidecar, "start", broken)
    found = asyncio.run(check_bridge({}))
    assert (found.state, found.fix) == ("failed", doctor.START_BRIDGE)
    assert "no room" in found.text


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_workspace(tmp_path, "http://127.0.0.1:9", [row()])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def states(stdout: str) -> dict[str, str]:
    return {check["name"]: check["state"] for check in json.loads(stdout)["resource"]["checks"]}


def test_one_document_tells_every_check_and_no_value(workspace: Path) -> None:
    (workspace / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    done = osmosis("--json", "doctor", "configs/eval/t.toml")
    found = states(done.stdout)
    assert found["Key for openai/mock"] == found["Bridge"] == found["Workspace"] == "ok"
    assert {"Python", "uv", "Extra local", "Embedded model", "Disk", "Open files", "Processes"} <= set(found)
    assert KEY not in done.stdout + done.stderr


def test_what_the_named_run_lacks_exits_1_and_other_runs_lack_nothing_that_counts(workspace: Path) -> None:
    done = osmosis("--plain", "doctor", "configs/eval/t.toml")
    assert done.code == 1
    assert "Mend Key for openai/mock: export OPENAI_API_KEY=..." in done.stdout.splitlines()
    done = osmosis("--json", "doctor")
    assert states(done.stdout)["Key for openai/mock"] == "note"
    assert done.code == 0


def test_a_run_file_with_mistakes_is_told_and_one_that_nobody_named_is_passed_over(workspace: Path) -> None:
    (workspace / "configs/eval/bad.toml").write_text("[experiment]\n")
    assert "experiment.rollout" in osmosis("doctor", "configs/eval/bad.toml").stderr
    assert states(osmosis("--json", "doctor").stdout)["Workspace"] == "ok"


def test_outside_of_a_workspace_that_is_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = osmosis("--json", "doctor")
    assert done.code == 1
    assert [name for name, state in states(done.stdout).items() if state == "failed"] == ["Workspace"]
