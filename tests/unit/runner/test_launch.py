from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from osmosis_bridge.upstream.http import HttpTransport
from osmosis_runner import launch
from osmosis_runner.absent_module import Setting
from osmosis_runner.child import Nursery
from osmosis_runner.faults import LaunchError
from osmosis_runner.launch import LaunchSpec, server_command, server_environ, start_server

SERVER = """
import http.server, json, os
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"instance_id": os.environ["_OSMOSIS_ROLLOUT_INSTANCE_ID"], %s}).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["_OSMOSIS_ROLLOUT_PORT"])), H).serve_forever()
"""
AMBIENT = {
    "PATH": "/bin",
    "HOME": "/h",
    "LC_ALL": "C",
    "SSL_CERT_FILE": "/c",
    "OPENAI_API_KEY": "sk-1",
    "AWS_SECRET_ACCESS_KEY": "s",
    "HTTPS_PROXY": "http://user:pass@proxy",
    "VIRTUAL_ENV": "/v",
}


def spec(
    folder: Path, entrypoint: str = "main.py", environ: Mapping[str, str] = AMBIENT, **more: Any
) -> LaunchSpec:
    extra = {"MODE": "fast", "MY_SECRET": "given"}
    return LaunchSpec(folder, entrypoint, folder / "trials", environ, extra, **more)


def test_only_what_is_allowed_reaches_the_rollout() -> None:
    environ = server_environ(spec(Path("/r")), 81, "inst", "key")
    assert environ == {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "SSL_CERT_FILE": "/c",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MODE": "fast",
        "MY_SECRET": "given",
        "_OSMOSIS_ROLLOUT_PORT": "81",
        "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": "/r/trials",
        "_OSMOSIS_ROLLOUT_INSTANCE_ID": "inst",
        "_OSMOSIS_ROLLOUT_API_KEY": "key",
        "PYTHONUNBUFFERED": "1",
    }


def test_a_rollout_cannot_take_over_the_supervisors_variables() -> None:
    taking = LaunchSpec(Path("/r"), "m.py", Path("/t"), {}, {"_OSMOSIS_ROLLOUT_PORT": "1", "PATH": "/mine"})
    environ = server_environ(taking, 81, "inst", "key")
    assert (environ["_OSMOSIS_ROLLOUT_PORT"], environ["PATH"]) == ("81", "/mine")


def test_secrets_do_not_show_in_a_spec() -> None:
    assert "given" not in repr(spec(Path("/r")))
    assert "sk-1" not in repr(spec(Path("/r")))


def test_a_folder_without_a_project_runs_in_this_interpreter(tmp_path: Path) -> None:
    assert server_command(spec(tmp_path)) == [sys.executable, "main.py"]
    assert server_command(spec(tmp_path, python="/other/python")) == ["/other/python", "main.py"]


def test_a_project_runs_through_uv_and_never_fetches_an_interpreter_by_surprise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr("osmosis_runner.uv_project.find_uv", lambda: "/bin/uv")
    command = server_command(spec(tmp_path, python="3.12"))
    assert command == [
        *["/bin/uv", "run", "--no-sync", "--python", "3.12", "--project", ".", "python", "main.py"]
    ]
    seen = {**AMBIENT, "UV_PROJECT_ENVIRONMENT": "/e", "UV_INDEX_URL": "https://user:pass@index"}
    environ = server_environ(spec(tmp_path, environ=seen), 1, "i", "k")
    assert environ["UV_PYTHON_DOWNLOADS"] == "never"
    assert environ["UV_PROJECT_ENVIRONMENT"] == "/e"
    assert "UV_INDEX_URL" not in environ


def test_what_uv_sees_while_it_installs_is_more_than_what_the_rollout_sees_and_still_no_provider_key() -> (
    None
):
    seen = {**AMBIENT, "UV_INDEX_URL": "https://user:pass@index", "PYENV_ROOT": "/p"}
    environ = spec(Path("/r"), environ=seen).project.environ
    assert set(environ) == {
        *("PATH", "HOME", "LC_ALL", "SSL_CERT_FILE", "HTTPS_PROXY", "UV_INDEX_URL", "PYENV_ROOT"),
    }


def test_a_command_of_the_users_own_goes_before_a_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    given = spec(tmp_path, command=("node", "main.js"))
    assert server_command(given) == ["node", "main.js"]
    assert not given.is_project


def start(given: LaunchSpec) -> tuple[int, int | None]:
    async def main() -> tuple[int, int | None]:
        async with HttpTransport() as transport:
            server = await start_server(given, transport, Nursery(), lambda lines: None)
            await server.child.stop(1)
            return server.port, server.health.capacity

    return asyncio.run(main())


def test_a_server_that_answers_as_itself_is_ready(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SERVER % '"max_queue_depth": 7')
    assert start(spec(tmp_path))[1] == 7


def test_a_server_is_started_by_the_command_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "serve").write_text(f"#!{sys.executable}\n" + SERVER % '"max_queue_depth": 3')
    (tmp_path / "serve").chmod(0o755)
    assert start(spec(tmp_path, command=("./serve",)))[1] == 3


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"could not be started: \./nothing: No such file"):
        start(spec(tmp_path, command=("./nothing",)))


def test_a_server_that_does_not_say_who_it_is_is_taken_for_the_one_that_was_started(tmp_path: Path) -> None:
    program = SERVER.replace('"instance_id": os.environ["_OSMOSIS_ROLLOUT_INSTANCE_ID"], ', "")
    (tmp_path / "main.py").write_text(program % '"concurrency": {"max_concurrent": 2}')
    assert start(spec(tmp_path))[1] == 2


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("raise SystemExit('no module named x')", "exited with code 1; its last output: no module named x"),
        ("import os; os._exit(3)", "exited with code 3 and said nothing"),
        ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
        ("x = 1\nif x:\n  y\n z", "unindent does not match any outer indentation level (main.py:4)"),
        (
            "print('hi')\nimport nothing_of_the_kind",
            "runs osmosis itself, has no module 'nothing_of_the_kind' (main.py:2); give the rollout",
        ),
        ("print('hi')\nimport nothing_of_the_kind", "\n    hi\n    Traceback"),
    ],
)
def test_a_server_that_dies_is_described(tmp_path: Path, program: str, words: str) -> None:
    (tmp_path / "main.py").write_text(program)
    with pytest.raises(LaunchError) as caught:
        start(spec(tmp_path))
    assert words in caught.value.message


def test_an_interpreter_without_the_module_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import osmosis_runner.rollout")
    # Isolated: nothing that is installed is seen.
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(LaunchError) as caught:
        start(spec(tmp_path, python=str(bare)))
    assert f"the interpreter {bare} (asked for with --python) has no module 'osmosis_runner'" in str(
        caught.value
    )
    assert "leave --python out" in str(caught.value)
    with pytest.raises(LaunchError, match=r"install osmosis-bridge there, or name a Python that has it"):
        start(spec(tmp_path, command=(str(bare), "main.py")))


def test_what_a_rollout_runs_in_is_told_by_its_kind(tmp_path: Path) -> None:
    assert spec(tmp_path).setting == Setting(python=sys.executable)
    assert spec(tmp_path, command=("a b", "c")).setting == Setting(command="'a b' c")
    (tmp_path / "pyproject.toml").touch()
    project_file = str(tmp_path / "pyproject.toml")
    assert spec(tmp_path).setting == Setting(environment=str(tmp_path / ".venv"), project_file=project_file)
    elsewhere = spec(tmp_path, environ={"UV_PROJECT_ENVIRONMENT": "/e"})
    assert elsewhere.setting == Setting(environment="/e", project_file=project_file)


@pytest.mark.parametrize("program", ["", "print('done')"])
def test_a_program_that_ends_is_told_to_serve(tmp_path: Path, program: str) -> None:
    (tmp_path / "main.py").write_text(program)
    with pytest.raises(LaunchError, match=r"main\.py came to its end.*serve\(YourWorkflow, YourGrader\)"):
        start(spec(tmp_path))


def test_the_output_that_is_quoted_is_scrubbed(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print('my hush'); raise SystemExit('hush')")
    with pytest.raises(LaunchError) as caught:
        start(spec(tmp_path, scrub=lambda text: text.replace("hush", "[REDACTED]")))
    assert caught.value.message.endswith("its last output: [REDACTED]\n    my [REDACTED]\n    [REDACTED]")


def test_a_port_that_somebody_else_serves_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(SERVER.replace("_OSMOSIS_ROLLOUT_INSTANCE_ID", "HOME") % '"x": 1')
    (tmp_path / "main.py").write_text("import time; time.sleep(60)")

    async def main() -> None:
        async with HttpTransport() as transport:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            other = await start_other(tmp_path, port)
            try:
                await start_server(spec(tmp_path, port=port), transport, Nursery(), lambda lines: None)
            finally:
                other.kill()
                await other.wait()

    with pytest.raises(LaunchError, match="another process already listens"):
        asyncio.run(main())


async def start_other(folder: Path, port: int) -> asyncio.subprocess.Process:
    environ = {"HOME": "somebody", "_OSMOSIS_ROLLOUT_PORT": str(port)}
    process = await asyncio.create_subprocess_exec(sys.executable, "other.py", cwd=folder, env=environ)
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            await writer.wait_closed()
            return process


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "HEALTHY_WITHIN_S", 1.5)
    (tmp_path / "main.py").write_text("import time; print('loading', flush=True); time.sleep(60)")
    with pytest.raises(LaunchError, match=r"did not answer within 1.5 s: .*\n    loading"):
        start(spec(tmp_path))


def test_a_sandbox_that_needs_a_public_address_is_refused(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SERVER % '"chat_endpoint": {"requires_public_url": True}')
    with pytest.raises(LaunchError, match="public URL"):
        start(spec(tmp_path))


def test_the_longer_a_server_takes_the_less_often_it_is_asked() -> None:
    pauses = [launch._pause(waited_s) for waited_s in (0.0, 0.2, 1.0, 60.0)]
    assert pauses == [0.005, 0.01, 0.05, 0.1]
