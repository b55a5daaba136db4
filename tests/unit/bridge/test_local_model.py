"""The life of a local model's process, from its owner's side; llama.cpp is a stand-in that serves /health."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from osmosis_bridge import local_model
from osmosis_bridge.local_model import KNOWN_LOCAL_MODELS, LocalModel, LocalModelError, start_local_model

NAME = "smollm2-135m-instruct"
SECRET = "sk-canary-271828182845"

# A module `xllamacpp` with the two names we use. What the server does is in the file named by GGML_TEST_ORDERS.
STAND_IN = """
import json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

class CommonParams(SimpleNamespace):
    def __init__(self):
        parts = {name: SimpleNamespace() for name in ("model", "cpuparams", "cpuparams_batch")}
        super().__init__(**parts)

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass

class Server:
    def __init__(self, params):
        with open(os.environ["GGML_TEST_ORDERS"]) as file:
            orders = json.load(file)
        for line in orders.get("say", ()):
            print(line, file=sys.stderr, flush=True)
        if "raise" in orders:
            raise getattr(__builtins__, orders["raise"], RuntimeError)("Failed to init server")
        if "exit" in orders:
            os._exit(orders["exit"])
        time.sleep(orders.get("sleep", 0))
        print("noise on stdout", flush=True)
        os.write(1, b"noise of C on stdout\\n")
        seen = {"argv": sys.orig_argv, "env": dict(os.environ), "keys": params.api_keys}
        with open(os.environ["GGML_TEST_ORDERS"] + ".seen", "w") as file:
            json.dump(seen, file)
        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{http.server_port}"
"""


class StandIn:
    def __init__(self, folder: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self.loop_factory = loop_factory
        (folder / "xllamacpp.py").write_text(STAND_IN)
        self._orders = folder / "orders"
        self.order()
        self.environ = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(folder),
            "GGML_TEST_ORDERS": str(self._orders),
            "OPENAI_API_KEY": SECRET,
        }

    def order(self, **orders: object) -> None:
        self._orders.write_text(json.dumps(orders))

    def seen(self) -> dict[str, object]:
        return json.loads(self._orders.with_name("orders.seen").read_text())


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
on_both_loops = pytest.mark.parametrize("stand_in", LOOPS, indirect=True)


@pytest.fixture
def stand_in(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    async def weights(*_: object) -> Path:
        return tmp_path / "tiny.gguf"

    monkeypatch.setattr(local_model, "ensure_weights", weights)
    monkeypatch.syspath_prepend(tmp_path)
    return StandIn(tmp_path, LOOPS[getattr(request, "param", "uvloop")])


def run(stand_in: StandIn, use: Callable[[LocalModel], Awaitable[None]]) -> None:
    async def started() -> None:
        model = await start_local_model(NAME, stand_in.environ)
        try:
            await use(model)
        finally:
            await model.stop()

    with asyncio.Runner(loop_factory=stand_in.loop_factory) as runner:
        runner.run(started())


def refusal(stand_in: StandIn, name: str = NAME) -> str:
    with (
        asyncio.Runner(loop_factory=stand_in.loop_factory) as runner,
        pytest.raises(LocalModelError) as caught,
    ):
        runner.run(start_local_model(name, stand_in.environ))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def wait_until_gone(pid: int) -> None:
    """Fails only when the process never ends."""
    deadline = time.monotonic() + 8
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} outlived its owner"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@on_both_loops
def test_it_answers_at_its_own_address_with_its_own_key_until_it_is_stopped(stand_in: StandIn) -> None:
    pids: list[int] = []

    async def use(model: LocalModel) -> None:
        pids.append(model.pid)
        assert model.base_url.startswith("http://127.0.0.1:")
        assert model.base_url.endswith("/v1")
        assert stand_in.seen()["keys"] == [model.api_key]
        assert model.end_reason() is None
        assert model.api_key not in repr(model)
        await model.stop()
        assert not is_running(model.pid)
        assert model.end_reason() is not None
        await model.stop()

    run(stand_in, use)
    run(stand_in, use)
    assert len(set(pids)) == 2


def test_each_start_has_a_key_of_its_own(stand_in: StandIn) -> None:
    keys: list[str] = []

    async def use(model: LocalModel) -> None:
        keys.append(model.api_key)

    run(stand_in, use)
    run(stand_in, use)
    assert len(set(keys)) == 2
    assert all(len(key) >= 32 for key in keys)


def test_no_key_is_in_its_command_line_and_no_providers_in_its_environment(stand_in: StandIn) -> None:
    async def use(model: LocalModel) -> None:
        seen = stand_in.seen()
        environment = json.dumps(seen["env"])
        assert model.api_key not in json.dumps(seen["argv"]) + environment
        assert SECRET not in environment
        assert "OPENAI_API_KEY" not in environment

    run(stand_in, use)


def test_the_folder_it_is_started_in_is_no_place_for_modules(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("json.py", "osmosis_bridge.py", "xllamacpp.py"):
        (trap / name).write_text("raise SystemExit('a module of the current folder was imported')")
    monkeypatch.chdir(trap)

    async def use(model: LocalModel) -> None:
        assert model.end_reason() is None

    run(stand_in, use)


def test_a_second_process_group_keeps_ctrl_c_of_the_terminal_away(stand_in: StandIn) -> None:
    async def use(model: LocalModel) -> None:
        assert os.getpgid(model.pid) != os.getpgid(0)
        os.kill(model.pid, signal.SIGINT)
        await asyncio.sleep(0.1)
        assert model.end_reason() is None

    run(stand_in, use)


OWNER = """
import asyncio, os, sys
from osmosis_bridge import local_model

async def weights(*_):
    return "tiny.gguf"

local_model.ensure_weights = weights

async def main():
    model = await local_model.start_local_model("smollm2-135m-instruct", os.environ)
    assert "xllamacpp" not in sys.modules
    print(model.pid, flush=True)
    if {forget!r}:
        os._exit(0)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["kill -9", "SIGTERM", "SIGINT", "exit without stopping"])
def test_it_dies_with_its_owner_however_that_dies(stand_in: StandIn, how: str) -> None:
    code = OWNER.format(forget=how == "exit without stopping")
    owner = subprocess.Popen(
        [sys.executable, "-c", code],
        env=stand_in.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        signals = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
        if how in signals:
            assert is_running(pid)
            owner.send_signal(signals[how])
        owner.wait(timeout=8)
        wait_until_gone(pid)
    finally:
        owner.kill()
        owner.wait()
        if owner.stdout is not None:
            owner.stdout.close()


@on_both_loops
def test_a_start_that_fails_quotes_the_first_error_of_llama_cpp(stand_in: StandIn) -> None:
    stand_in.order(
        **{
            "say": [
                "0.00.001.000 I srv          init: initializing ...",
                "0.00.003.269 E gguf_init_from_reader: invalid magic characters: 'garb', expected 'GGUF'",
                "0.00.003.761 E srv          init: exiting due to model loading error",
            ],
            "raise": "RuntimeError",
        }
    )
    message = refusal(stand_in)
    assert message == (
        f"local/{NAME} did not start: gguf_init_from_reader: invalid magic characters: 'garb', expected 'GGUF'"
    )


def test_a_start_that_fails_otherwise_quotes_the_last_line(stand_in: StandIn) -> None:
    stand_in.order(say=["one", "GLIBC_2.99 not found", ""], exit=3)
    assert refusal(stand_in).endswith("did not start: GLIBC_2.99 not found")


def test_a_start_that_fails_without_a_word_gives_the_exit_code(stand_in: StandIn) -> None:
    stand_in.order(exit=7)
    assert "exit code 7" in refusal(stand_in)


@on_both_loops
def test_endless_errors_are_bounded(stand_in: StandIn) -> None:
    stand_in.order(say=["x" * 100_000] * 3, exit=1)
    assert len(refusal(stand_in)) < 1000


@on_both_loops
def test_a_start_that_hangs_is_given_up_and_its_process_ended(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "_START_S", 0.5)
    stand_in.order(sleep=600)
    assert "did not start within" in refusal(stand_in)
    assert [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE] == []


@on_both_loops
def test_a_cancelled_start_leaves_no_process(stand_in: StandIn) -> None:
    stand_in.order(sleep=600)

    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await start_local_model(NAME, stand_in.environ)

    with asyncio.Runner(loop_factory=stand_in.loop_factory) as runner:
        runner.run(cancelled())
    assert [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE] == []


@on_both_loops
def test_a_process_that_ignores_the_order_to_stop_is_killed(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "_STOP_S", 0.2)

    async def use(model: LocalModel) -> None:
        os.kill(model.pid, signal.SIGSTOP)
        await model.stop()
        assert not is_running(model.pid)

    run(stand_in, use)


@on_both_loops
def test_a_process_that_ends_by_itself_says_so(stand_in: StandIn) -> None:
    async def use(model: LocalModel) -> None:
        os.kill(model.pid, signal.SIGKILL)
        while model.end_reason() is None:
            await asyncio.sleep(0.01)
        assert "exit code -9" in str(model.end_reason())

    run(stand_in, use)


def test_an_unknown_model_is_refused_with_the_known_ones(stand_in: StandIn) -> None:
    message = refusal(stand_in, "gpt-4o")
    assert all(f"local/{name}" in message for name in KNOWN_LOCAL_MODELS)


def test_without_llama_cpp_the_extra_is_named(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xllamacpp" else find(name))
    assert "pip install 'osmosis-bridge[local]'" in refusal(stand_in)
