"""The image: what its Dockerfile promises, and that its steps work, run one by one without Docker.

The steps run in a folder that stands for the image's file system: `/src` and `/opt/osmosis` become folders below it,
a clean virtual environment stands for the base image, and only files that `.dockerignore` lets through are copied.
Creating the user is the one step that is read and not run: it would change the machine.
"""

from __future__ import annotations

import fnmatch
import http.client
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

import dockerfile

ROOT = Path(__file__).resolve().parents[3]
STAGES = dockerfile.read((ROOT / "Dockerfile").read_text())
BUILD, RUNTIME = STAGES[0], STAGES[-1]
TOKEN = "a-bearer-for-the-image-test"


def let_through() -> set[str]:
    """The names at the top of the project that `.dockerignore` lets into the build."""
    lines = [line.strip() for line in (ROOT / ".dockerignore").read_text().splitlines()]
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "everything is kept out first"
    return {rule[1:] for rule in rules if rule.startswith("!")}


def test_the_image_is_built_in_two_stages_on_one_base() -> None:
    assert len(STAGES) == 2
    assert BUILD.base == RUNTIME.base, "the environment's interpreter must be the same file in both"
    assert re.fullmatch(r"python:3\.\d+-slim", BUILD.base)
    assert BUILD.name == "build"
    assert [step.rest for step in RUNTIME.all("COPY")] == ["--from=build /opt/osmosis /opt/osmosis"]


def test_the_image_does_not_run_as_root() -> None:
    (user,) = RUNTIME.all("USER")
    assert user.rest == "osmosis"
    words = shlex.split(RUNTIME.all("RUN")[0].rest)
    assert words[0] == "useradd"
    assert words[-1] == user.rest
    assert int(words[words.index("--uid") + 1]) > 0
    after = [step.word for step in RUNTIME.steps[RUNTIME.steps.index(user) :]]
    assert "RUN" not in after
    assert "COPY" not in after


def test_the_image_starts_the_bridge_and_is_asked_for_its_health_on_the_port_it_exposes() -> None:
    (entry,) = RUNTIME.all("ENTRYPOINT")
    (exposed,) = RUNTIME.all("EXPOSE")
    (health,) = RUNTIME.all("HEALTHCHECK")
    assert entry.listed()[:3] == ["osmosis", "bridge", "serve"]
    assert exposed.rest == "8400"
    assert entry.listed()[entry.listed().index("--port") + 1] == exposed.rest
    assert f"'127.0.0.1', {exposed.rest}," in health.listed()[-1]
    assert "'/health'" in health.listed()[-1]


def test_no_secret_can_enter_the_image() -> None:
    copied = {word.rstrip("/") for step in BUILD.all("COPY") for word in step.rest.split()[:-1]}
    assert copied == let_through(), "what is let through is what is copied, name by name"
    assert "." not in copied
    names = {name for stage in STAGES for name in stage.environment()}
    assert not [name for name in names if re.search("TOKEN|KEY|SECRET|PASSWORD", name)]
    assert not BUILD.all("ADD")
    assert not RUNTIME.all("ADD")


def test_the_image_and_the_makefile_use_the_same_uv() -> None:
    (pinned,) = re.findall(r"uv==(\S+)", (ROOT / "Dockerfile").read_text())
    assert f"UV_VERSION := {pinned}\n" in (ROOT / "Makefile").read_text()


class Image:
    """A folder that stands for the image's file system, and the environment its steps run in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder
        base = folder / "base"
        venv.create(base, with_pip=True, symlinks=True)
        kept = {
            name: os.environ[name]
            for name in os.environ
            if name.startswith(("PIP_", "SSL_", "UV_CACHE", "HOME"))
        }
        self.environment = kept | {
            "PATH": f"{base / 'bin'}:/usr/bin:/bin",
            "UV_PYTHON": str(base / "bin/python"),
        }

    def inside(self, text: str) -> str:
        """The text with the image's absolute folders below this one."""
        return re.sub(r"(?<![\w.])/(src|opt/osmosis|var/lib/osmosis)\b", rf"{self.folder}/\1", text)

    def set(self, pairs: dict[str, str]) -> None:
        for name, value in pairs.items():
            self.environment[name] = self.inside(value).replace("$PATH", self.environment["PATH"])

    def copy(self, rest: str) -> None:
        *sources, target = rest.split()
        ignored = shutil.ignore_patterns("__pycache__")
        for source in sources:
            place = self.work / target / source if target == "./" else self.work / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=ignored)
            else:
                shutil.copy(ROOT / source, place)

    def run(self, command: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-ec", self.inside(command)],
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"RUN {command}\n{done.stdout}{done.stderr}"

    def take(self, step: dockerfile.Step) -> None:
        if step.word == "RUN":
            self.run(step.rest)
        elif step.word == "COPY":
            self.copy(step.rest)
        elif step.word == "WORKDIR":
            self.work = Path(self.inside(step.rest))
            self.work.mkdir(parents=True, exist_ok=True)
        elif step.word in ("ENV", "ARG"):
            self.set(dockerfile.Stage("", "", (step,)).environment())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def wait_for_health(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the bridge ended with {process.returncode}"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    pytest.fail("the bridge did not become healthy")


@pytest.mark.docker_steps
@pytest.mark.timeout(300)
def test_the_steps_build_an_environment_that_serves(tmp_path: Path) -> None:
    image = Image(tmp_path)
    for step in BUILD.steps:
        image.take(step)
    shutil.rmtree(tmp_path / "src")
    for step in RUNTIME.steps:
        if step.word in ("ENV", "WORKDIR"):
            image.take(step)

    port = str(free_port())
    exposed = RUNTIME.all("EXPOSE")[0].rest
    entry = [port if word == exposed else word for word in RUNTIME.all("ENTRYPOINT")[0].listed()]
    entry = ["127.0.0.1" if word == "0.0.0.0" else word for word in entry]
    health = [word.replace(exposed, port) for word in RUNTIME.all("HEALTHCHECK")[0].listed()]
    program = shutil.which(entry[0], path=image.environment["PATH"])
    assert program
    assert Path(program).is_relative_to(tmp_path / "opt/osmosis")
    environment = image.environment | {"OSMOSIS_BRIDGE_TOKEN": TOKEN}
    command = [program, *entry[1:], "--model", "openai/some-model", "--api-base", "http://127.0.0.1:9/v1"]
    with subprocess.Popen(command, cwd=image.work, env=environment, stderr=subprocess.PIPE) as process:
        try:
            wait_for_health(int(port), process)
            assert subprocess.run(health, env=environment, check=False).returncode == 0
            process.terminate()
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
    assert subprocess.run(health, env=environment, check=False, stderr=subprocess.DEVNULL).returncode != 0


@pytest.mark.docker_steps
def test_the_entry_refuses_to_listen_on_every_address_without_a_bearer() -> None:
    entry = RUNTIME.all("ENTRYPOINT")[0].listed()
    environment = {name: value for name, value in os.environ.items() if name != "OSMOSIS_BRIDGE_TOKEN"}
    command = [
        str(Path(sys.executable).parent / entry[0]),
        *entry[1:],
        "--port",
        "0",
        "--model",
        "openai/some-model",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert "OSMOSIS_BRIDGE_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_ignore_file_keeps_caches_out_of_what_it_lets_through() -> None:
    rules = (ROOT / ".dockerignore").read_text().split()
    assert any(
        fnmatch.fnmatch("bridge/osmosis_bridge/__pycache__", rule)
        for rule in rules
        if not rule.startswith("!")
    )
