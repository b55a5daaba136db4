"""The bridge as an operator meets it: it starts, says that it is ready, is told to stop, or refuses to start."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from bridge_process import (
    KEY,
    MODEL,
    TOKEN,
    BridgeProcess,
    Played,
    UpstreamThread,
    bridge_process,
    command,
    environment,
    eventually,
    run_bridge,
    spawn,
    until_ready,
)
from osmosis_bridge.conformance.samples import completion, finish, said, usage
from osmosis_bridge.conformance.script import DONE, Hold, Script, Until, plain, stream

CREDENTIALS = {"OSMOSIS_BRIDGE_TOKEN": TOKEN, "OPENAI_API_KEY": KEY}
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread().serving() as serving:
        yield serving


Serve = Callable[..., BridgeProcess]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts bridges that the test itself stops; one that it does not, for it failed, is killed."""
    started: list[BridgeProcess] = []

    def start(folder: Path, *flags: str, within: Sequence[str] = (), **environ: str) -> BridgeProcess:
        files = ("--ready-file", str(folder / "ready.json"), "--ledger", str(folder / "calls.jsonl"))
        flags = (*files, "--log-format", "json", *flags)
        started.append(spawn(folder, *flags, environ=environment(**environ), within=within))
        return started[-1]

    yield start
    for bridge in started:
        bridge.process.kill()
        bridge.process.wait()


def asked(bridge: BridgeProcess, played: Played, **fields: Any) -> httpx.Response:
    return httpx.post(
        f"{bridge.url}/v1/chat/completions",
        json={"messages": played.messages, **fields},
        headers={"authorization": f"Bearer {TOKEN}"},
        timeout=20,
    )


def in_two_parts(upstream: UpstreamThread) -> tuple[Played, bytes]:
    """A stream that says `one`, and the rest once it is told to."""
    gate = b"the test says go"
    rest = (said("two"), finish(), usage(), DONE)
    return upstream.play(stream(said("one"), Until(gate, 20.0), *rest)), gate


def go(upstream: UpstreamThread, played: Played, gate: bytes) -> None:
    async def feed() -> None:
        upstream.scripted.progress(played.token).feed(gate)

    upstream.run(feed())


class Running:
    """A stream of which the client has read the first chunk."""

    def __init__(self, bridge: BridgeProcess, played: Played) -> None:
        self._client = httpx.Client(timeout=20)
        headers = {"authorization": f"Bearer {TOKEN}"}
        body = {"messages": played.messages, "stream": True}
        self._entered = self._client.stream(
            "POST", f"{bridge.url}/v1/chat/completions", json=body, headers=headers
        )
        reply = self._entered.__enter__()
        self._pieces = reply.iter_bytes()
        self.text = b""
        while b"one" not in self.text:
            self.text += next(self._pieces)

    def end(self) -> str:
        """The whole text, or what there was of it with a mark where it broke."""
        try:
            for piece in self._pieces:
                self.text += piece
        except httpx.HTTPError as error:
            self.text += f"<{type(error).__name__}>".encode()
        self._entered.__exit__(None, None, None)
        self._client.close()
        return self.text.decode()


# Starting.


def test_the_ready_file_appears_whole_and_tells_the_truth(
    tmp_path: Path, upstream: UpstreamThread, serve: Serve
) -> None:
    ready = tmp_path / "ready.json"
    ready.write_text("left over from a run that crashed")
    bridge = serve(tmp_path, "--model", MODEL, "--api-base", upstream.url, "--port", "0", **CREDENTIALS)
    seen = {ready.read_text()}
    deadline = time.monotonic() + 30
    while len(seen) == 1:
        assert time.monotonic() < deadline
        seen.add(ready.read_text())
    (told,) = seen - {"left over from a run that crashed"}
    assert json.loads(told).keys() == {"url", "pid", "model"}
    until_ready(bridge)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", bridge.url)
    assert json.loads(told) == {"url": bridge.url, "pid": bridge.process.pid, "model": MODEL}
    # It answers from the moment the file is there, and to anybody.
    assert httpx.get(f"{bridge.url}/health").json() == {"status": "ok"}
    assert {path.name for path in tmp_path.iterdir()} == {"ready.json", "calls.jsonl", "log.txt"}
    bridge.send(signal.SIGTERM)
    assert bridge.wait() == 0


NEVER = (
    *("litellm", "openai", "xllamacpp", "httpx", "pydantic", "aiohttp", "numpy", "jsonschema", "hypothesis"),
    *("osmosis_runner", "osmosis_cli", "pygments"),
)


def test_a_bridge_is_ready_soon_and_small(
    tmp_path: Path, upstream: UpstreamThread, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    played = upstream.play(plain(completion()), plain('{"error":{"message":"no"}}', 500), plain(completion()))
    bridge = until_ready(
        serve(tmp_path, "--model", MODEL, "--api-base", upstream.url, "--port", "0", **CREDENTIALS)
    )
    with socket.create_connection(("127.0.0.1", int(bridge.url.rpartition(":")[2]))) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    took_ms = (time.monotonic() - bridge.spawned_at) * 1000
    assert [asked(bridge, played).status_code for _ in range(2)] == [200, 500]
    resident_mb = bridge.resident_mb()
    with capsys.disabled():
        print(f"\nspawn to first 200: {took_ms:.0f} ms, {resident_mb:.1f} MB resident")
    bridge.send(signal.SIGTERM)
    assert bridge.wait() == 0
    assert resident_mb < 200


@pytest.fixture(scope="module")
def loaded(upstream: UpstreamThread, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every module that a bridge loads until it has answered a plain call and a stream."""
    folder = tmp_path_factory.mktemp("loaded")
    played = upstream.play(plain(completion()), stream(said("hi"), finish(), usage(), DONE))
    flags = (
        "--model",
        MODEL,
        "--api-base",
        upstream.url,
        "--port",
        "0",
        "--ready-file",
        str(folder / "ready.json"),
    )
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-X", "importtime", *command("serve", *flags)[1:]],
            env=environment(**CREDENTIALS), stdout=log, stderr=log,
        )  # fmt: skip
    bridge = until_ready(BridgeProcess(process, folder))
    assert asked(bridge, played).status_code == 200
    assert asked(bridge, played, stream=True).status_code == 200
    bridge.send(signal.SIGTERM)
    assert bridge.wait() == 0
    names = set(re.findall(r"^import time: .*\| +([\w.]+)$", bridge.log, re.MULTILINE))
    assert "osmosis_bridge.serve" in names
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("heavy", NEVER)
def test_a_process_that_served_calls_has_not_loaded(loaded: set[str], heavy: str) -> None:
    assert heavy not in loaded


@pytest.mark.parametrize(("hard", "allowed"), [(7_000, 6_128), (700, 700)])
def test_a_bridge_may_open_as_many_files_as_its_connections_want(
    tmp_path: Path, serve: Serve, hard: int, allowed: int
) -> None:
    shell = ("sh", "-c", f'ulimit -Sn 256; ulimit -Hn {hard}; exec "$@"', "sh")
    flags = ("--model", MODEL, "--api-base", NOWHERE, "--port", "0", "--max-upstream-connections", "3000")
    bridge = until_ready(serve(tmp_path, *flags, within=shell, **CREDENTIALS))
    assert psutil.Process(bridge.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (allowed, hard)
    told = "6,128 open files may be wanted, and this process may have 700"
    assert (told in bridge.log) == (hard == 700)


def test_ipv6_loopback_is_served(tmp_path: Path, upstream: UpstreamThread) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with bridge_process(tmp_path, upstream.url, "--host", "::1") as bridge:
        assert bridge.url.startswith("http://[::1]:")
        assert asked(bridge, upstream.play(plain(completion()))).status_code == 200


def test_the_file_gives_what_flags_do_not(tmp_path: Path, upstream: UpstreamThread, serve: Serve) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text(
        f'model = "{MODEL}"\napi_base = "{upstream.url}"\nport = 0\ncontrols = "reject"\nmax_body_mb = 1\n'
        'api_key_env = "MY_KEY"\n'
    )
    bridge = serve(
        tmp_path, "--config", str(file), "--max-body-mb", "2", **CREDENTIALS, MY_KEY="key-of-the-file"
    )
    until_ready(bridge)
    played = upstream.play(plain(completion()))
    assert asked(bridge, played, api_key="x").json()["error"]["code"] == "control_not_allowed"
    assert asked(bridge, played, user="x" * 1_500_000).status_code == 200, (
        "the flag's limit holds, not the file's"
    )
    assert asked(bridge, played, user="x" * 2_500_000).status_code == 413
    assert {request.secret() for request in played.received} == {"key-of-the-file"}
    bridge.send(signal.SIGTERM)
    assert bridge.wait() == 0


def test_the_same_command_stands_under_osmosis() -> None:
    ours = run_bridge("serve", "--help")
    mounted = subprocess.run(
        [sys.executable, "-m", "osmosis_cli", "bridge", "serve", "--help"],
        capture_output=True, text=True, timeout=30, env=environment(), check=True,
    )  # fmt: skip
    options = re.compile(r"^  (--[a-z-]+)", re.MULTILINE)
    assert options.findall(ours.stdout) == options.findall(mounted.stdout) != []


# Refusing to start.

REFUSALS: dict[str, tuple[list[str], dict[str, str], str]] = {
    "no model": ([], {}, "--model"),
    "an unknown provider": (["--model", "nosuch/x"], {}, "nosuch"),
    "no key": (["--model", "openrouter/x/y"], {}, "OPENROUTER_API_KEY"),
    "a key variable that is empty": (["--model", MODEL, "--api-key-env", "MY_KEY"], {"OPENAI_API_KEY": KEY}, "MY_KEY"),
    "no bearer beyond loopback": (
        ["--model", MODEL, "--api-base", NOWHERE, "--host", "0.0.0.0"], {"OPENAI_API_KEY": KEY}, "OSMOSIS_BRIDGE_TOKEN",
    ),
    "a bearer that is easily guessed": (
        ["--model", MODEL, "--api-base", NOWHERE], {"OSMOSIS_BRIDGE_TOKEN": "short"}, "at least 8",
    ),
    "an address that is no URL": (["--model", MODEL, "--api-base", "nowhere"], {}, "--api-base"),
    "a folder for a ledger": (["--model", MODEL, "--api-base", NOWHERE, "--ledger", "/"], {}, "ledger"),
    "a file that is not there": (["--config", "/no/such.toml"], {}, "/no/such.toml"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_served_is_refused_in_one_line(name: str) -> None:
    flags, environ, says = REFUSALS[name]
    done = run_bridge("serve", "--port", "0", *flags, **environ)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert says in last
    assert "Traceback" not in done.stderr
    assert KEY not in done.stderr


def test_a_key_of_the_file_that_is_not_known_is_refused_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    for text, says in (
        ('model = "openai/x"\nledgr = "x"\n', "did you mean 'ledger'"),
        ('model = "openai/x"\ntoken = "very-secret-token"\n', "unknown key 'token'"),
        ("model = openai\n", "not TOML"),
    ):
        file.write_text(text)
        done = run_bridge("serve", "--config", str(file))
        assert done.returncode == 1
        assert says in done.stderr
        assert str(file) in done.stderr
        assert "very-secret-token" not in done.stderr


def test_a_port_in_use_is_told_with_the_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        flags = ("--model", MODEL, "--api-base", NOWHERE, "--port", port, "--ready-file", str(tmp_path / "r"))
        done = run_bridge("serve", *flags, OPENAI_API_KEY=KEY)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port 0" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_has_one_writer(tmp_path: Path, upstream: UpstreamThread) -> None:
    with bridge_process(tmp_path, upstream.url) as bridge:
        flags = ("--model", MODEL, "--api-base", upstream.url, "--port", "0", "--ledger", str(bridge.ledger))
        done = run_bridge("serve", *flags, OPENAI_API_KEY=KEY)
        assert done.returncode == 1
        assert "another process writes the ledger" in done.stderr
        assert asked(bridge, upstream.play(plain(completion()))).status_code == 200
    assert len(bridge.records()) == 1


# Stopping.


def refuses_connections(bridge: BridgeProcess) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(bridge.url.rpartition(":")[2])), timeout=1).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_stream_finishes_after_the_signal_and_nothing_new_begins(
    tmp_path: Path, upstream: UpstreamThread, number: signal.Signals
) -> None:
    played, gate = in_two_parts(upstream)
    with bridge_process(tmp_path, upstream.url) as bridge:
        assert asked(bridge, upstream.play(plain(completion()))).status_code == 200
        running = Running(bridge, played)
        bridge.send(number)
        eventually(lambda: refuses_connections(bridge), "it went on accepting")
        # Longer than it takes to stop a bridge that waits for nobody.
        time.sleep(0.4)
        assert bridge.process.poll() is None
        go(upstream, played, gate)
        text = running.end()
        assert text.endswith("data: [DONE]\n\n")
        assert "two" in text
        assert bridge.wait() == 0
    assert [record["status"] for record in bridge.records()] == ["ok", "ok"]
    assert all(record["usage"]["total_tokens"] == 10 for record in bridge.records())
    assert "Traceback" not in bridge.log


def cut_off(bridge: BridgeProcess, upstream: UpstreamThread, *numbers: signal.Signals) -> None:
    played = upstream.play(stream(said("one"), Hold(50)))
    waiting = upstream.play(Script((Hold(50),)))
    running = Running(bridge, played)
    with socket.create_connection(("127.0.0.1", int(bridge.url.rpartition(":")[2]))) as silent:
        body = json.dumps({"messages": waiting.messages}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
        silent.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        eventually(lambda: waiting.received, "the plain call did not arrive")
        for number in numbers:
            bridge.send(number)
            eventually(lambda: refuses_connections(bridge), "it went on accepting")
        assert bridge.wait() == 0
        text = running.end()
    assert "[DONE]" not in text
    assert "error" in text or "<" in text, "a stream that was cut off looks complete"
    assert [record["status"] for record in bridge.records()] == ["cancelled", "cancelled"]
    for call in (played, waiting):
        assert eventually(call.received[0].peer_closed.is_set)
    assert "Traceback" not in bridge.log


def test_after_the_grace_time_calls_are_cut_off_and_recorded(
    tmp_path: Path, upstream: UpstreamThread
) -> None:
    with bridge_process(tmp_path, upstream.url, "--grace-s", "1") as bridge:
        cut_off(bridge, upstream, signal.SIGTERM)


def test_a_second_signal_does_not_wait_for_calls(tmp_path: Path, upstream: UpstreamThread) -> None:
    # With a grace time longer than the test may take, ending at all shows that it was not waited for.
    with bridge_process(tmp_path, upstream.url, "--grace-s", "600") as bridge:
        cut_off(bridge, upstream, signal.SIGTERM, signal.SIGTERM)


def test_what_was_recorded_survives_a_kill_and_the_next_bridge_goes_on(
    tmp_path: Path, upstream: UpstreamThread, serve: Serve
) -> None:
    played = upstream.play(plain(completion()))
    bridge = serve(tmp_path, "--model", MODEL, "--api-base", upstream.url, "--port", "0", **CREDENTIALS)
    until_ready(bridge)
    for _ in range(5):
        assert asked(bridge, played).status_code == 200
    bridge.send(signal.SIGKILL)
    bridge.wait()
    assert len(bridge.records()) == 5
    with bridge.ledger.open("ab") as ledger:
        ledger.write(b'{"call_id":"torn')
    bridge.ready_file.unlink()
    with bridge_process(tmp_path, upstream.url) as again:
        assert asked(again, played).status_code == 200
    assert len({record["call_id"] for record in again.records()}) == 6


def test_one_line_is_logged_for_each_call_and_none_for_looking(
    tmp_path: Path, upstream: UpstreamThread
) -> None:
    with bridge_process(tmp_path, upstream.url) as bridge:
        for _ in range(3):
            httpx.get(f"{bridge.url}/health")
            asked(bridge, upstream.play(plain(completion())))
        asked(bridge, upstream.play(plain('{"error":{"message":"no"}}', 500)))
    lines = [json.loads(line) for line in bridge.log.splitlines()]
    assert [line["event"] for line in lines] == ["serving", *["call"] * 4, "stopped"]
    assert [line["call_id"] for line in lines[1:-1]] == [record["call_id"] for record in bridge.records()]
    assert lines[-1]["calls"] == 4


def test_what_the_bridge_writes_is_its_owners(tmp_path: Path, upstream: UpstreamThread) -> None:
    with bridge_process(tmp_path, upstream.url) as bridge:
        assert asked(bridge, upstream.play(plain(completion()))).status_code == 200
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (bridge.ledger, bridge.ready_file)}
    assert modes == {"calls.jsonl": 0o600, "ready.json": 0o600}
