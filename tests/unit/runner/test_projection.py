from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from osmosis_runner import projection
from osmosis_runner.projection import Projector, Transcript
from osmosis_runner.redaction import run_redactor
from osmosis_runner.rundir import RunDir
from osmosis_runner.trajectory import Attempt, build_trajectory, validate_trajectory
from runner_fakes import ended

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "my hush-hush"},
]


class Scene:
    def __init__(self, root: Path) -> None:
        self.warnings: list[str] = []
        self.run = RunDir(root)
        self.projector = Projector(
            self.run, "openai/true", run_redactor({}, ["hush-hush"]), self.warnings.append
        )
        self.projector.prepare()

    def trial(self, rollout_id: str = "r0") -> Path:
        folder = self.run.trial(rollout_id)
        (folder / "artifacts").mkdir(parents=True, exist_ok=True)
        return folder

    def leave_trajectory(self, rollout_id: str = "r0", owner: str | None = None) -> Path:
        path = self.trial(rollout_id) / "trajectory.json"
        path.write_text(json.dumps(build_trajectory(MESSAGES, Attempt(owner or rollout_id, 0, 0), "1")))
        return path

    def kept(self) -> Any:
        path = self.run.trajectory(0, 0)
        return json.loads(path.read_text()) if path.exists() else None

    def artifacts(self) -> list[str]:
        folder = self.run.artifacts(0, 0)
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_trajectory_gets_the_true_model_and_the_usage_of_its_calls(scene: Scene) -> None:
    scene.leave_trajectory()
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    call = {
        "call_id": "c",
        "rollout_id": "r0",
        "seq": 1,
        "status": "ok",
        "usage": usage,
        "usage_source": "provider",
    }
    assert scene.projector.project(ended(0).record, [call])
    assert scene.kept()["agent"]["model_name"] == "openai/true"
    assert scene.kept()["final_metrics"]["total_prompt_tokens"] == 10


def test_no_secret_stays_in_a_trajectory_here_or_where_it_came_from(scene: Scene) -> None:
    source = scene.leave_trajectory()
    assert scene.projector.project(ended(0).record, [])
    assert "hush-hush" not in scene.run.trajectory(0, 0).read_text()
    assert "hush-hush" not in source.read_text()
    assert "[REDACTED]" in source.read_text()


@pytest.mark.parametrize("content", ["no json", "{}", "[]", '{"schema_version":"ATIF-v1.7"}'])
def test_a_trajectory_that_is_none_is_left_where_it_is(scene: Scene, content: str) -> None:
    (scene.trial() / "trajectory.json").write_text(content)
    assert not scene.projector.project(ended(0).record, [])
    assert scene.kept() is None
    assert len(scene.warnings) == 1


def test_the_trajectory_of_another_rollout_is_not_taken(scene: Scene) -> None:
    scene.leave_trajectory(owner="somebody-else")
    assert not scene.projector.project(ended(0).record, [])


def test_links_and_special_files_are_passed_over(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("outside")
    trial = scene.trial()
    (trial / "artifacts" / "a.txt").write_text("a")
    (trial / "artifacts" / "deep").mkdir()
    (trial / "artifacts" / "deep" / "manifest.json").write_text("deep ones are ordinary")
    (trial / "artifacts" / "manifest.json").write_text("reserved")
    (trial / "artifacts" / "link").symlink_to(tmp_path / "outside")
    (trial / "artifacts" / "folder").symlink_to(tmp_path)
    os.mkfifo(trial / "artifacts" / "pipe")
    (trial / "trajectory.json").symlink_to(tmp_path / "outside")
    assert not scene.projector.project(ended(0).record, [])
    assert scene.artifacts() == ["a.txt", "deep/manifest.json"]
    assert len(scene.warnings) == 4


def test_a_later_attempt_replaces_what_an_earlier_one_left(scene: Scene) -> None:
    scene.leave_trajectory()
    (scene.trial() / "artifacts" / "old.txt").write_text("old")
    scene.projector.project(ended(0).record, [])
    (scene.trial("second") / "artifacts" / "new.txt").write_text("new")
    assert not scene.projector.project(ended(0, rollout_id="second", attempt=2).record, [])
    assert scene.artifacts() == ["new.txt"]
    assert scene.kept() is None


def test_an_attempt_without_a_folder_leaves_nothing(scene: Scene) -> None:
    assert not scene.projector.project(ended(0).record, [])
    assert (scene.warnings, scene.artifacts()) == ([], [])


def told(messages: object = MESSAGES, **more: Any) -> Transcript:
    raw = messages if isinstance(messages, bytes) else msgspec.json.encode(messages)
    empty = msgspec.Raw(b"null")
    return Transcript(**{"messages": msgspec.Raw(raw), "metrics": empty, "extra_fields": empty, **more})


def test_a_server_that_leaves_no_trajectory_is_taken_at_its_word(scene: Scene) -> None:
    transcript = told(metrics=msgspec.Raw(b'{"turns":1}'), label="4", metadata={"a": 1})
    call = {"call_id": "c", "rollout_id": "r0", "seq": 1, "status": "ok", "usage": {"prompt_tokens": 10}}
    assert scene.projector.project(ended(0, reward=0.5).record, [call], transcript)
    kept = scene.kept()
    assert [step["source"] for step in kept["steps"]] == ["user", "agent"]
    assert kept["steps"][1]["message"] == "my [REDACTED]"
    assert kept["steps"][1]["metrics"]["prompt_tokens"] == 10
    assert kept["agent"]["model_name"] == "openai/true"
    said = kept["extra"]["osmosis"]
    assert (said["rollout_id"], said["label"], said["reward"], said["sample_metrics"]) == (
        *("r0", "4", 0.5),
        {"turns": 1},
    )


def test_a_trajectory_that_was_left_goes_before_what_was_told(scene: Scene) -> None:
    scene.leave_trajectory()
    assert scene.projector.project(ended(0).record, [], told([{"role": "user", "content": "other"}]))
    assert scene.kept()["steps"][0]["message"] == "hi"


def test_what_was_told_stands_in_for_a_trajectory_that_is_none(scene: Scene) -> None:
    (scene.trial() / "trajectory.json").write_text("no json")
    assert scene.projector.project(ended(0).record, [], told())
    assert scene.kept()["steps"][0]["message"] == "hi"


@pytest.mark.parametrize(
    "messages", [b"null", b"[]", b"{}", b"7", b'["words"]', b"no json", b'[{"role":"user"},1]']
)
def test_messages_that_are_none_make_no_trajectory(scene: Scene, messages: bytes) -> None:
    assert not scene.projector.project(ended(0).record, [], told(messages))
    assert scene.kept() is None


def test_what_the_bridge_saw_is_marked_as_partial(scene: Scene) -> None:
    record = ended(0, "failed", error_message="RuntimeError: blew up").record
    assert scene.projector.project(record, [], told(partial=True))
    kept = scene.kept()
    assert kept["extra"]["osmosis"]["partial"] is True
    assert kept["notes"].startswith("failed: RuntimeError: blew up; partial: ")
    assert validate_trajectory(kept, "r0") == []


def test_an_attempt_that_does_not_count_keeps_what_it_said_in_its_own_folder(scene: Scene) -> None:
    record = ended(0, "cancelled").record
    assert scene.projector.keep_void(record, [], told(partial=True))
    assert scene.kept() is None
    left = json.loads((scene.run.trial("r0") / "trajectory.json").read_text())
    assert validate_trajectory(left, "r0") == []
    assert left["notes"].startswith("cancelled; partial: ")
    assert "hush-hush" not in json.dumps(left)
    assert not scene.projector.keep_void(ended(1, "cancelled").record, [])
    assert not scene.run.trial("r1").exists()


def test_what_a_server_left_of_a_void_attempt_stays_without_its_secrets(scene: Scene) -> None:
    path = scene.leave_trajectory()
    assert scene.projector.keep_void(ended(0, "cancelled").record, [], told(partial=True))
    left = json.loads(path.read_text())
    assert left["steps"][1]["message"] == "my [REDACTED]"
    assert "partial" not in left["extra"]["osmosis"]
    path.write_text("no json")
    assert not scene.projector.keep_void(ended(0, "cancelled").record, [], told(partial=True))
    assert path.read_text() == "no json"


def test_words_that_make_no_trajectory_are_said_and_not_kept(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "validate_trajectory", lambda *_: ["it is odd"])
    assert not scene.projector.project(ended(0).record, [], told())
    assert scene.warnings == ["what rollout r0 said makes no trajectory: it is odd"]


def failed_record(**changes: Any) -> Any:
    return msgspec.structs.replace(
        ended(0, status="failed").record,
        **{
            "error_type": "agent_error",
            "error_phase": "agent",
            "error_message": "KeyError: 'x' (main.py:8 in run)",
            "error_traceback": "Traceback ...\nKeyError: 'x'\n",
            **changes,
        },
    )


def test_a_failure_leaves_its_story_where_the_runs_report_points(scene: Scene) -> None:
    assert not scene.projector.project(failed_record(), [])
    assert (scene.run.trial("r0") / "error.txt").read_text() == (
        "agent failed: KeyError: 'x' (main.py:8 in run)\n"
        "row 0 run 0, attempt 1, rollout r0\n\nTraceback ...\nKeyError: 'x'\n"
    )


def test_a_failure_that_says_nothing_has_a_file_too(scene: Scene) -> None:
    scene.projector.project(
        failed_record(error_phase=None, error_message=None, error_traceback=None, error_type=None), []
    )
    text = (scene.run.trial("r0") / "error.txt").read_text()
    assert text == "failed: no message\nrow 0 run 0, attempt 1, rollout r0\n"


def test_a_link_in_the_place_of_the_story_is_replaced_not_followed(scene: Scene, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (scene.trial() / "error.txt").symlink_to(victim)
    scene.projector.project(failed_record(), [])
    assert victim.read_text() == "mine"
    assert not (scene.trial() / "error.txt").is_symlink()


def test_a_success_leaves_no_story(scene: Scene) -> None:
    scene.trial()
    scene.projector.project(ended(0).record, [])
    assert not (scene.run.trial("r0") / "error.txt").exists()
