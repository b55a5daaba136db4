from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osmosis_runner.rollout.admission import RolloutRequest
from osmosis_runner.rollout.agent import Sample
from osmosis_runner.rollout.execution import Conclusion, Failure, Job
from osmosis_runner.rollout.keep import Keeper
from osmosis_runner.rollout.registry import Status
from osmosis_runner.trajectory import validate_trajectory


class Nobody:
    def entered(self, job: Job, status: Status) -> None: ...

    def concluded(self, job: Job, status: Status, reply: bytes) -> None: ...


def job_in(folder: Path) -> Job:
    extra = {"row_index": 3, "run_index": 1}
    request = RolloutRequest("r1", [], "http://x", label="7", metadata={"m": 1}, extra_fields=extra)
    return Job(request, folder / "r1", Nobody())


def kept(tmp_path: Path, conclusion: Conclusion) -> Any:
    Keeper("1.2.3").keep(job_in(tmp_path), conclusion)
    path = tmp_path / "r1" / "trajectory.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_the_trajectory_is_valid_and_names_row_and_reward(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    value = kept(tmp_path, Conclusion(Status.SUCCESS, Sample(messages), "7", 0.5))
    assert validate_trajectory(value, "r1") == []
    assert value["agent"]["version"] == "1.2.3"
    assert value["extra"]["osmosis"]["reward"] == 0.5
    assert value["extra"]["osmosis"]["request_extra_fields"] == {"row_index": 3, "run_index": 1}


def test_a_failure_is_noted_with_the_messages_there_were(tmp_path: Path) -> None:
    failure = Failure("agent_error", "RuntimeError: x", "workflow")
    sample = Sample([{"role": "user", "content": "hi"}])
    value = kept(tmp_path, Conclusion(Status.FAILURE, sample, failure=failure))
    assert "RuntimeError: x" in value["notes"]


def test_a_failure_is_told_in_the_log_with_its_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = Failure("agent_error", "KeyError: 'x' (main.py:8 in run)", "workflow", "Traceback ...\n")
    assert kept(tmp_path, Conclusion(Status.FAILURE, failure=failure)) is None
    assert capsys.readouterr().err == "the workflow failed: KeyError: 'x' (main.py:8 in run)\nTraceback ...\n"


@pytest.mark.parametrize("sample", [None, Sample([])])
def test_without_messages_nothing_is_written(tmp_path: Path, sample: Sample | None) -> None:
    assert kept(tmp_path, Conclusion(Status.FAILURE, sample)) is None


def test_a_folder_that_cannot_be_written_is_said_and_survived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r1").write_text("a file where the folder should be")
    Keeper("1").keep(job_in(tmp_path), Conclusion(Status.SUCCESS, Sample([{"role": "user"}])))
    assert "no trajectory of rollout r1" in capsys.readouterr().err
