"""The workspace of the interoperability tests: rollouts for osmosis-ai, their environments, and both command lines.

It lies in `.cache/interop`, so that environments and lock files made once are there the next time.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osmosis_runner.interpreters import search_path
from rollouts_under_test import json_lines

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "interop"
SOURCES = ROOT / "tests" / "interop" / "ws"
OSMOSIS_AI = "osmosis-ai[eval]==0.3.8"
NEWEST = "2026-11-20T00:00:00Z"
"""What was published later is not taken, so that the tests meet the same packages for ever."""


def lay_workspace() -> Path:
    """Bring the workspace up to date with the sources of the tests.

    Several processes of one run of the tests do so: the first writes, the others find nothing to write, and leave alone
    what its rollouts are reading.
    """
    workspace = CACHE / "ws"
    for folder in ("configs/training", "data"):
        (workspace / folder).mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for source in (path for path in SOURCES.rglob("*") if path.suffix in (".py", ".toml")):
            text = source.read_text().replace('path = "PROJECT"', f"path = {json.dumps(str(ROOT))}")
            place = workspace / source.relative_to(SOURCES)
            if not place.exists() or place.read_text() != text:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
        if not (workspace / ".git").exists():
            subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    return workspace


def find_uv() -> str:
    """Uv of this machine, or the project's own."""
    found = shutil.which("uv", path=f"{os.environ['PATH']}{os.pathsep}{ROOT / '.tools' / 'uv' / 'bin'}")
    assert found, "these tests need uv: run them with `make interop`"
    return found


def environ(**more: str) -> dict[str, str]:
    """A user's environment: uv and every interpreter within reach, nothing fetched but packages."""
    base = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    path = f"{Path(find_uv()).parent}{os.pathsep}{os.environ['PATH']}"
    local = {"UV_PYTHON_DOWNLOADS": "never", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return {**base, **local, "PATH": path, **more}


def make_osmosis_ai() -> Path:
    """osmosis-ai's own command line, in an environment of its own."""
    home = CACHE / "osmosis-ai"
    whole = home / ".whole"
    CACHE.mkdir(parents=True, exist_ok=True)
    # Several workers ask at once, and one that clears the folder must not find another installing into it.
    with (CACHE / "osmosis-ai.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            seen = environ(PATH=search_path(environ()))
            uv = find_uv()
            make = [uv, "venv", "-q", "--clear", "--python", ">=3.12", str(home)]
            subprocess.run(make, env=seen, check=True)
            python = str(home / "bin" / "python")
            install = [uv, "pip", "install", "-q", "--python", python, "--exclude-newer", NEWEST, OSMOSIS_AI]
            subprocess.run(install, env=seen, check=True)
            whole.touch()
    return home / "bin" / "osmosis"


@dataclass
class Finished:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What `--json` printed."""
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def resource(self) -> dict[str, Any]:
        return self.document["resource"]


@dataclass
class Bench:
    """Runs evaluations of the workspace, with results in a folder of their own."""

    workspace: Path
    provider_url: str
    output: Path
    environ: dict[str, str] = field(default_factory=environ)

    def write_rows(self, rows: list[dict[str, Any]]) -> Path:
        path = self.output / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def ours(self, rollout: str, rows: list[dict[str, Any]], *flags: str) -> subprocess.Popen[str]:
        """`osmosis eval run` of this project."""
        dataset = self.write_rows(rows)
        command = [sys.executable, "-m", "osmosis_cli", "--json", "eval", "run"]
        command += [f"configs/eval/{rollout}.toml", "--dataset-file", str(dataset), "--yes", "--name", "r"]
        command += ["--output", str(self.output), "--api-base", self.provider_url]
        return self.start([*command, "--api-key-env", "MOCK_KEY", *flags])

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.workspace,
            env={**self.environ, "MOCK_KEY": "sk-the-providers-own-key"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, rollout: str, rows: list[dict[str, Any]], *flags: str) -> Finished:
        return finished(self.ours(rollout, rows, *flags))

    @property
    def run_dir(self) -> Path:
        return self.output / "r"

    @property
    def records(self) -> list[dict[str, Any]]:
        return json_lines(self.run_dir / "events.jsonl")

    @property
    def last(self) -> dict[int, dict[str, Any]]:
        """The last record of each row that says how it ended."""
        return {record["row_index"]: record for record in self.records if record["status"] != "cancelled"}

    def trajectory(self, row_index: int) -> dict[str, Any]:
        return json.loads((self.run_dir / "trajectories" / f"row_{row_index}_run_0.json").read_text())

    @property
    def log(self) -> str:
        path = self.run_dir / "logs.txt"
        return path.read_text() if path.exists() else ""

    @property
    def mark(self) -> str:
        return json.loads((self.run_dir / "manifest.json").read_text())["local_run_id"]


def finished(process: subprocess.Popen[str], within_s: float = 100.0) -> Finished:
    """Wait for a command; one that hangs is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return Finished(process.returncode, out, err)


def eventually(holds: Any, within_s: float = 240.0) -> None:
    """Wait for something to hold; uv may have to make an environment first."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.05)


def rows_of(*modes: Any, prompt: str = "{a} x 7") -> list[dict[str, Any]]:
    """A row for each mode, `(mode, arg)` or `mode`; row 0 asks for 2 x 7, and so on."""
    made: list[dict[str, Any]] = []
    for place, mode in enumerate(modes):
        name, arg = mode if isinstance(mode, tuple) else (mode, None)
        a = place + 2
        made.append(
            {
                "user_prompt": prompt.format(a=a),
                "ground_truth": str(a * 7),
                "metadata": {"mode": name, "arg": arg},
            }
        )
    return made
