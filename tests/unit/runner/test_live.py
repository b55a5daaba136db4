from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from mock_provider import MockProvider
from osmosis_runner import live, waiting
from osmosis_runner.dispatch import Patience
from osmosis_runner.errors import RunnerError
from osmosis_runner.keeper import ServerKeeper
from osmosis_runner.launch import STOP_GRACE_S
from osmosis_runner.live import STUBBORN_GRACE_S
from rollouts_under_test import Watcher, make_workspace, row


def test_stages_are_told_in_order_and_nothing_is_left_beside_the_run(tmp_path: Path) -> None:
    watcher = Watcher()
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row(), row()], batch_size=2)
        workspace.run(watcher)
    words = [" ".join(stage.split()[:2]) for stage in watcher.stages]
    assert words == ["starting the", "checking model", "starting rollout", "rollout server", "running 2"]
    output = workspace.run_dir().parent
    assert {path.name for path in output.iterdir()} == {"r"}


def test_the_log_holds_the_stages_and_no_line_per_call(tmp_path: Path) -> None:
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row()] * 3)
        workspace.run()
    log = (workspace.run_dir() / "logs.txt").read_text()
    assert "[run] checking model openai/mock" in log
    assert '"event":"call"' not in log
    assert (workspace.run_dir() / "calls.jsonl").read_text().count("\n") == 4


def test_a_rate_limited_model_is_a_warning_and_the_run_goes_on(tmp_path: Path) -> None:
    class Opening(Watcher):
        def started(self, progress: object) -> None:
            provider.status = None

    watcher = Opening()
    with MockProvider() as provider:
        provider.status = 429
        workspace = make_workspace(tmp_path, provider.url, [row()])
        outcome = workspace.run(watcher)
    assert [warning.code for warning in watcher.warnings] == ["MODEL_BUSY"]
    assert outcome.succeeded == 1


def test_a_server_that_takes_its_time_is_told_with_what_it_printed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SAY_AFTER_S", 0.05)
    watcher = Watcher()
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row()])
        main = tmp_path / "rollouts/t/main.py"
        slow = 'import time; print("loading the index", flush=True); time.sleep(1)\n'
        main.write_text(slow + main.read_text())
        workspace.run(watcher)
    said = [text for text in watcher.stages if text.startswith("still waiting for the rollout server")]
    assert said[-1].endswith("of at most 90 s); its last output: loading the index")


def test_where_no_process_can_be_found_it_is_said_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "can_find", lambda: False)
    watcher = Watcher()
    with MockProvider() as provider:
        assert make_workspace(tmp_path, provider.url, [row()]).run(watcher).succeeded == 1
    assert [warning.code for warning in watcher.warnings] == ["NO_PROCESS_TABLE"]


def test_a_preflight_can_be_left_out(tmp_path: Path) -> None:
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row()])
        workspace.run(skip_preflight=True)
        assert [body["messages"][-1]["content"] for body in provider.bodies] == ["SAY:ok "]


def test_a_model_that_no_bridge_can_serve_leaves_nothing(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, "http://127.0.0.1:9/v1", [row()])
    config = workspace.config.read_text().replace("openai/mock", "")
    workspace.config.write_text(config)
    with pytest.raises(RunnerError):
        workspace.run()
    assert not workspace.run_dir().exists()


def test_a_fresh_start_that_cannot_begin_leaves_the_old_run_where_it_was(tmp_path: Path) -> None:
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row()])
        first = workspace.run()
        (tmp_path / "rollouts/t/main.py").write_text("raise SystemExit('broken')\n")
        with pytest.raises(RunnerError, match="broken"):
            workspace.run(fresh=True)
    manifest = json.loads((workspace.run_dir() / "manifest.json").read_text())
    assert manifest["local_run_id"] == first.local_run_id
    assert {path.name for path in workspace.run_dir().parent.iterdir()} == {"r"}


@pytest.mark.parametrize(("mode", "grace_s"), [("stubborn", STUBBORN_GRACE_S), ("sleep", STOP_GRACE_S)])
def test_after_a_signal_a_server_whose_rollouts_do_not_stop_is_not_waited_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, grace_s: float
) -> None:
    graces: list[float] = []
    stop = ServerKeeper.stop

    async def noted(keeper: ServerKeeper, grace_s: float = STOP_GRACE_S) -> None:
        graces.append(grace_s)
        await stop(keeper, grace_s)

    class Stopper(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ServerKeeper, "stop", noted)
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row(), row(mode=mode, arg=60)], batch_size=2)
        workspace.patience = Patience(cancel_grace=5.0 if mode == "sleep" else 0.5)
        assert workspace.run(Stopper()).pending == 1
    assert graces == [grace_s]
