"""Rollout servers that are not ours: in another language, started by a command, or running already."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mock_provider import MockProvider
from osmosis_runner import elsewhere
from osmosis_runner.faults import LaunchError
from rollouts_under_test import Watcher, Workspace, make_workspace, row

HOSTS = Path(__file__).resolve().parents[1] / "support" / "hosts"
ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"host.js": ["node", "host.js"], "host.py": [sys.executable, "host.py"]}


@pytest.fixture
def provider() -> Iterator[MockProvider]:
    with MockProvider() as running:
        yield running


@pytest.fixture(params=sorted(COMMANDS))
def host(request: pytest.FixtureRequest) -> str:
    if shutil.which(COMMANDS[request.param][0]) is None:
        pytest.skip(f"this machine has no {COMMANDS[request.param][0]}")
    return request.param


def hosted(workspace: Workspace, host: str) -> Workspace:
    """The same workspace with a host in another language instead of its Python file."""
    folder = workspace.root / "rollouts" / "t"
    (folder / "main.py").write_text("raise SystemExit('this is not what should run')\n")
    shutil.copy(HOSTS / host, folder / host)
    command = json.dumps(COMMANDS[host])
    (folder / "rollout.toml").write_text(f'command = {command}\n[env]\nFLAVOUR = "vanilla"\n')
    return workspace


def trajectory(workspace: Workspace, row_index: int) -> dict[str, Any]:
    path = workspace.run_dir() / "trajectories" / f"row_{row_index}_run_0.json"
    return json.loads(path.read_text())


def eventually(holds: Callable[[], Any], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running_host(port: int, **environ: str) -> Generator[subprocess.Popen[bytes]]:
    """A host that somebody else started."""
    told = {**os.environ, "_OSMOSIS_ROLLOUT_PORT": str(port), **environ}
    process = subprocess.Popen([sys.executable, str(HOSTS / "host.py")], env=told)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_host_in_any_language_is_started_and_driven(
    tmp_path: Path, provider: MockProvider, host: str
) -> None:
    rows = [row(str(number)) for number in range(10)] + [row(mode="raise"), {**row("x"), "ground_truth": "y"}]
    workspace = hosted(make_workspace(tmp_path, provider.url, rows, batch_size=4), host)
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 11, 1)
    records = {record["row_index"]: record for record in workspace.records()}
    assert [records[number]["reward"] for number in range(10)] == [1.0] * 10
    assert records[11]["reward"] == 0.0
    assert {records[number]["tokens"] for number in range(10)} == {13}
    assert records[10]["error_message"] == "broke on purpose, in vanilla"
    assert (records[10]["error_type"], records[10]["error_phase"]) == ("agent_error", "agent")


def test_a_host_that_writes_no_trajectory_has_one_made_of_its_messages(
    tmp_path: Path, provider: MockProvider, host: str
) -> None:
    workspace = hosted(make_workspace(tmp_path, provider.url, [row("4")]), host)
    workspace.run()
    kept = trajectory(workspace, 0)
    assert [step["message"] for step in kept["steps"]] == ["SAY:4 ", "4"]
    assert kept["steps"][1]["metrics"]["prompt_tokens"] == 10
    assert kept["agent"]["model_name"] == "openai/mock"
    assert kept["extra"]["osmosis"]["label"] == "4"
    assert workspace.records()[0]["trajectory_filename"] == "trajectory.json"


def test_a_row_that_ends_the_host_is_found_and_failed(
    tmp_path: Path, provider: MockProvider, host: str
) -> None:
    rows = [row("1"), row(mode="exit"), row("2"), row("3")]
    workspace = hosted(make_workspace(tmp_path, provider.url, rows, batch_size=4), host)
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 3, 1)
    (failed,) = outcome.failed_rows
    assert (failed.row_index, failed.error_type) == (1, "server_died")


def test_a_command_that_is_typed_goes_before_the_one_of_the_file(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = hosted(make_workspace(tmp_path, provider.url, [row("1")]), "host.py")
    with pytest.raises(LaunchError, match="no-such-program"):
        workspace.run(rollout_command=("no-such-program",))
    outcome = workspace.run(rollout_command=(sys.executable, "host.py"))
    assert outcome.succeeded == 1


def test_a_server_that_runs_already_is_used_and_left_running(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(str(number)) for number in range(6)])
    shutil.rmtree(tmp_path / "rollouts" / "t")
    port = free_port()
    with running_host(port) as process:
        url = f"http://127.0.0.1:{port}"
        outcome = workspace.run(rollout_url=url, max_in_flight=3, name="first")
        assert (outcome.ended, outcome.succeeded) == ("complete", 6)
        again = workspace.run(rollout_url=url, name="second")
        assert again.succeeded == 6
        assert process.poll() is None
    assert (
        "source_digest"
        not in json.loads((workspace.run_dir("first") / "manifest.json").read_text())["inputs"]["rollout"]
    )


def test_a_signal_ends_the_rollouts_on_a_server_that_goes_on_running(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(prompt="SLEEP:30")] * 3, batch_size=3)
    port = free_port()
    with running_host(port) as process:
        running = workspace.start(rollout_url=f"http://127.0.0.1:{port}", skip_preflight=True)
        eventually(lambda: len(provider.bodies) == 3)
        running.send_signal(signal.SIGINT)
        said, complaint = running.communicate(timeout=20)
        assert json.loads(said) == {"ended": "interrupted", "signal": 2, "pending": 3}, complaint
        assert process.poll() is None
        # It was told to let go of all three, and did.
        assert "stop (row" in (workspace.run_dir() / "logs.txt").read_text()


def test_a_server_with_a_bearer_gets_it_from_the_environment(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row("1")])
    port = free_port()
    with running_host(port, HOST_KEY="its-own-key"):
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(LaunchError, match="OSMOSIS_ROLLOUT_API_KEY"):
            workspace.run(rollout_url=url, environ=dict(os.environ, OPENAI_API_KEY="sk-1"), name="without")
        environ = dict(os.environ, OPENAI_API_KEY="sk-1", OSMOSIS_ROLLOUT_API_KEY="its-own-key")
        assert workspace.run(rollout_url=url, environ=environ, name="with").succeeded == 1


def test_a_server_that_comes_back_under_its_address_is_used_again(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(prompt="SLEEP:0.1") for _ in range(12)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=2)
    port = free_port()
    started: list[subprocess.Popen[bytes]] = []

    class Restarter(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            if len(self.items) == 4:
                process.kill()
                process.wait()

        def stage(self, text: str) -> None:
            super().stage(text)
            if text == "restarting the rollout server":
                told = {**os.environ, "_OSMOSIS_ROLLOUT_PORT": str(port)}
                started.append(subprocess.Popen([sys.executable, str(HOSTS / "host.py")], env=told))

    with running_host(port) as process:
        outcome = workspace.run(Restarter(), rollout_url=f"http://127.0.0.1:{port}")
    for second in started:
        second.kill()
        second.wait()
    assert (outcome.ended, outcome.succeeded, len(started)) == ("complete", 12, 1)


def test_a_server_that_does_not_come_back_halts_the_run_with_the_rest_pending(
    tmp_path: Path, provider: MockProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osmosis_runner.keeper.RETURNS_WITHIN_S", 0.2)
    rows = [row(prompt="SLEEP:0.1") for _ in range(12)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=2)
    port = free_port()

    class Killer(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            if len(self.items) == 4:
                process.send_signal(signal.SIGKILL)

    with running_host(port) as process:
        outcome = workspace.run(Killer(), rollout_url=f"http://127.0.0.1:{port}")
    assert outcome.ended == "halted"
    assert f"the rollout server at http://127.0.0.1:{port} is not usable" in (outcome.reason or "")
    assert outcome.succeeded + outcome.pending == 12
    assert outcome.pending > 0


def test_nobody_at_the_address_is_said_at_once_and_leaves_nothing(
    tmp_path: Path, provider: MockProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osmosis_runner.keeper.ANSWERS_WITHIN_S", 0.2)
    workspace = make_workspace(tmp_path, provider.url, [row("1")])
    with pytest.raises(LaunchError, match="connection refused"):
        workspace.run(rollout_url=f"http://127.0.0.1:{free_port()}")
    assert not workspace.run_dir().exists()
    assert elsewhere.ANSWERS_WITHIN_S > 0.2


def test_a_server_that_does_not_end_is_told_and_a_second_signal_does_not_wait_for_it(
    tmp_path: Path, provider: MockProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osmosis_runner.live.STOP_GRACE_S", 600.0)
    rows = [row("1"), row("2", "SLEEP:2")]
    workspace = hosted(make_workspace(tmp_path, provider.url, rows), "host.py")
    with (workspace.root / "rollouts/t/host.py").open("r+") as file:
        program = file.read()
        file.seek(0)
        file.write(
            program.replace("import json\n", "import json, signal\nsignal.signal(15, signal.SIG_IGN)\n", 1)
        )

    class Stopper(Watcher):
        def stage(self, text: str) -> None:
            super().stage(text)
            if "waiting for the rollout server to end" in text:
                signal.raise_signal(signal.SIGINT)

        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            if progress.done == 1:
                signal.raise_signal(signal.SIGINT)

    watcher = Stopper()
    outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.succeeded, outcome.pending) == ("interrupted", 1, 1)
    assert any("still waiting for the rollout server to end" in text for text in watcher.stages)


@pytest.fixture
def uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uv of this machine or of the project, allowed to fetch nothing."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{ROOT / '.tools' / 'uv' / 'bin'}")
    if shutil.which("uv") is None:
        pytest.skip("this machine has no uv")
    monkeypatch.setenv("UV_OFFLINE", "1")


@pytest.mark.usefixtures("uv")
def test_a_project_runs_in_an_environment_of_its_own(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row("1"), row("2")])
    folder = tmp_path / "rollouts" / "t"
    shutil.copy(HOSTS / "host.py", folder / "main.py")
    with (folder / "main.py").open("r+") as file:
        program = file.read()
        file.seek(0)
        file.write(
            program.replace("import json\n", "import json\nimport sys; print('runs in', sys.prefix)\n", 1)
        )
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "t"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = []\n'
        "[tool.uv]\npackage = false\n"
    )
    watcher = Watcher()
    assert workspace.run(watcher).succeeded == 2
    assert any(line.message == f"runs in {folder / '.venv'}" for line in watcher.lines)
    # What uv leaves in the folder is no change of the rollout.
    assert workspace.run().ended == "already_complete"


@pytest.mark.usefixtures("uv")
def test_a_project_runs_although_the_first_of_its_interpreters_on_the_path_does_not(
    tmp_path: Path, provider: MockProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    broken = tmp_path / "shims" / f"python{version}"
    broken.parent.mkdir()
    # uv gives up at one that the system cannot run at all.
    broken.write_text("neither a script nor a program")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(broken.parent), prepend=os.pathsep)
    workspace = make_workspace(tmp_path, provider.url, [row("1")])
    folder = tmp_path / "rollouts" / "t"
    shutil.copy(HOSTS / "host.py", folder / "main.py")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "t"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = []\n'
        "[tool.uv]\npackage = false\n"
    )
    watcher = Watcher()
    assert workspace.run(watcher, python=version).succeeded == 1
    assert any(f"asked in vain: {broken}" in line.message for line in watcher.lines)


@pytest.mark.usefixtures("uv")
def test_an_interpreter_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path, provider: MockProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever version managers this machine has, none is asked.
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{Path(shutil.which('uv') or '').parent}")
    monkeypatch.setenv("HOME", str(tmp_path))
    workspace = make_workspace(tmp_path, provider.url, [row("1")])
    (tmp_path / "rollouts" / "t" / "pyproject.toml").write_text(
        '[project]\nname = "t"\nversion = "0"\nrequires-python = ">=3.99"\ndependencies = []\n'
    )
    with pytest.raises(LaunchError) as caught:
        workspace.run()
    version = ".".join(map(str, sys.version_info[:3]))
    assert "no Python >=3.99 (requires-python in pyproject.toml) is installed" in caught.value.message
    assert f"{version} (" in caught.value.message
    assert not workspace.run_dir().exists()
