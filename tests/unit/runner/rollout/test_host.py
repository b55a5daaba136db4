from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from osmosis_runner.rollout.host import read_settings, serve

ENTRYPOINT = """
import asyncio, time
from osmosis_runner.rollout import AgentWorkflow, serve
class W(AgentWorkflow):
    async def run(self, ctx):
        mode = (ctx.metadata or {}).get("mode")
        if mode == "block": time.sleep(60)
        if mode == "wait": await asyncio.sleep(60)
        if mode == "wordy":
            ctx.messages = [{"role": "assistant", "content": f"turn {number}"} for number in range(100_000)]
            time.sleep(60)
        return [{"role": "assistant", "content": "done"}]
serve(W)
"""

PLAIN_ENTRYPOINT = """
import atexit, time
from osmosis_runner.rollout import AgentWorkflow, serve
class W(AgentWorkflow):
    def run(self, ctx):
        time.sleep((ctx.metadata or {}).get("s", 0))
        return [{"role": "assistant", "content": "done"}]
atexit.register(print, "ended by itself", flush=True)
serve(W)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, method=method, data=content, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=9) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def admit(self, name: str, **fields: Any) -> dict[str, str]:
        body = {"rollout_id": name, "initial_messages": [], "chat_completions_url": "http://x", **fields}
        status, promise = self.ask("POST", "/rollout", body)
        assert status == 202
        return {"x-osmosis-rollout-lease": promise["polling_lease_token"]}


@contextmanager
def host(tmp_path: Path, entrypoint: str = ENTRYPOINT) -> Iterator[Running]:
    (tmp_path / "main.py").write_text(entrypoint)
    port = free_port()
    environ = {
        **os.environ,
        "_OSMOSIS_ROLLOUT_PORT": str(port),
        "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": str(tmp_path / "trials"),
        "_OSMOSIS_ROLLOUT_INSTANCE_ID": "inst",
    }
    process = subprocess.Popen(
        [sys.executable, "main.py"], cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True
    )
    running = Running(process, port)
    try:
        deadline = time.monotonic() + 9
        while True:
            try:
                assert running.ask("GET", "/health")[1]["instance_id"] == "inst"
                break
            except OSError:
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.02)
        yield running
    finally:
        process.kill()
        process.communicate()


def test_a_rollout_runs_and_leaves_its_trajectory(tmp_path: Path) -> None:
    with host(tmp_path) as running:
        lease = running.admit("r1")
        status, result = running.ask("GET", "/rollout/r1/result?wait=terminal", **lease)
        assert (status, result["status"]) == (200, "success")
        assert json.loads((tmp_path / "trials" / "r1" / "trajectory.json").read_text())["session_id"] == "r1"


def test_polls_are_answered_while_a_rollout_blocks(tmp_path: Path) -> None:
    with host(tmp_path) as running:
        running.admit("r1", metadata={"mode": "block"})
        time.sleep(0.2)
        began = time.monotonic()
        assert running.ask("GET", "/health")[1]["concurrency"]["running"] == 1
        assert time.monotonic() - began < 5
        blocked = running.admit("r2", metadata={"mode": "block"}, agent_timeout_sec=1)
        running.ask("POST", "/rollout/cancel", {"ids": ["r1"]})
        _, result = running.ask("GET", "/rollout/r2/result?wait=terminal", **blocked)
        assert (result["status"], result["err_category"]) == ("failure", "timeout")


def test_a_rollout_that_is_broken_into_has_a_result_however_long_that_takes_to_make(tmp_path: Path) -> None:
    with host(tmp_path) as running:
        lease = running.admit("r1", metadata={"mode": "wordy"})
        time.sleep(1.0)
        running.ask("POST", "/rollout/cancel", {"ids": ["r1"]})
        _, result = running.ask("GET", "/rollout/r1/result?wait=terminal", **lease)
        assert result["status"] == "cancelled"
        assert len(result["sample"]["messages"]) == 100_000
        assert running.ask("GET", "/health")[1]["lifecycle"]["active_rollouts"] == 0


def test_a_thread_that_cannot_be_stopped_is_named_and_does_not_hold_the_process(tmp_path: Path) -> None:
    with host(tmp_path, PLAIN_ENTRYPOINT) as running:
        fields = {"row_index": 3, "run_index": 1}
        lease = running.admit("r1", metadata={"s": 60}, extra_fields=fields)
        time.sleep(0.3)
        running.ask("POST", "/rollout/cancel", {"ids": ["r1"]})
        _, result = running.ask("GET", "/rollout/r1/result?wait=terminal", **lease)
        assert result["status"] == "cancelled"
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
        assert running.process.stderr is not None
        assert "[row 3 run 1] does not stop at main.py:6 in run" in running.process.stderr.read()


def test_a_thread_that_ends_a_moment_later_is_waited_for(tmp_path: Path) -> None:
    with host(tmp_path, PLAIN_ENTRYPOINT) as running:
        running.admit("r1", metadata={"s": 0.7})
        time.sleep(0.3)
        running.ask("POST", "/rollout/cancel", {"ids": ["r1"]})
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
        assert running.process.stderr is not None
        assert "does not stop" not in running.process.stderr.read()


def test_it_stops_at_once_when_idle_and_at_the_second_signal_when_not(tmp_path: Path) -> None:
    with host(tmp_path) as running:
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(9) == 0
    with host(tmp_path) as running:
        running.admit("r1", metadata={"mode": "wait"})
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert running.process.poll() is None
        assert running.ask("POST", "/rollout", {})[0] == 503
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(9) == 130


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "main.py").write_text(ENTRYPOINT)
        done = subprocess.run(
            [sys.executable, "main.py"],
            cwd=tmp_path,
            env={**os.environ, "_OSMOSIS_ROLLOUT_PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=9,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.strip() == f"cannot listen on 127.0.0.1:{port}: Address already in use"


def test_settings_come_from_the_supervisors_variables() -> None:
    settings = read_settings({"_OSMOSIS_ROLLOUT_PORT": "81", "_OSMOSIS_ROLLOUT_API_KEY": "sekret"}, 3)
    assert (settings.port, settings.api_key, settings.instance_id, settings.max_concurrent) == (
        81,
        "sekret",
        None,
        3,
    )
    assert "sekret" not in repr(settings)
    assert read_settings({}, None).port == 8000


@pytest.mark.parametrize("port", ["x", "-1", "65536", "8 0"])
def test_a_port_that_is_none_is_refused_by_name(port: str) -> None:
    with pytest.raises(SystemExit, match="_OSMOSIS_ROLLOUT_PORT"):
        read_settings({"_OSMOSIS_ROLLOUT_PORT": port}, None)


def test_at_least_one_rollout_must_be_allowed() -> None:
    with pytest.raises(ValueError, match="max_concurrent"):
        serve(object(), max_concurrent=0)  # pyright: ignore[reportArgumentType]
