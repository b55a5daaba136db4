"""The command line as processes see it: exit codes, pure JSON, signals, pipes and a real terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mock_provider import MockProvider
from osmosis_cli.errors import Code, Exit
from rollouts_under_test import make_workspace, row

FAKE = [sys.executable, str(Path(__file__).parent.parent / "support" / "fake_runs.py")]
REAL = [sys.executable, "-m", "osmosis_cli"]
CONFIG = "configs/eval/quick.toml"
WAIT = 30.0
"""Seconds after which a process that says nothing counts as hanging."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for folder in ("rollouts", "configs/eval"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / CONFIG).touch()
    (tmp_path / ".env").touch()
    return tmp_path


def environment(ends: str = "complete:0:local/tiny", **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"FAKE_RUN": ends, "TERM": "xterm-256color"} | more


def typed(
    program: list[str], *arguments: str, cwd: Path, stdin: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(**environ),
        timeout=WAIT,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--help",), 0),
        (("-V",), 0),
        (("eval", "run", "-h"), 0),
        ((), 2),
        (("evl",), 2),
        (("eval", "run"), 2),
        (("eval", "run", "x.toml", "--max-in-flight", "none"), 2),
        (("eval", "run", "x.toml"), 1),
        (("eval", "run", "x.txt"), 1),
        (("--json", "--plain", "eval"), 2),
    ],
)
def test_exit_codes_say_whose_mistake_it_was(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    done = typed(REAL, *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
    assert (done.stdout == "") is (code != 0)


@pytest.mark.parametrize(
    ("ends", "code", "status"),
    [
        ("complete:0:local/tiny", 0, "success"),
        ("already_complete:0:local/tiny", 0, "success"),
        ("halted:0:local/tiny", 3, "partial"),
        ("interrupted:0:local/tiny", 130, "partial"),
    ],
)
def test_json_is_one_document_on_stdout_however_a_run_ends(
    workspace: Path, ends: str, code: int, status: str
) -> None:
    done = typed(FAKE, "eval", "run", CONFIG, "--json", cwd=workspace, ends=ends)
    assert done.returncode == code
    assert done.stdout.count("\n") == 1
    document = json.loads(done.stdout, parse_constant=pytest.fail)
    assert (document["schema_version"], document["operation"], document["status"]) == (1, "eval.run", status)
    assert document["resource"]["failed_rows"][0]["error_message"] == "ValueError: no such tool"
    for line in done.stderr.splitlines():
        assert set(json.loads(line)) == {"schema_version", "cli_version", "warning"}


def test_a_json_error_is_one_line_on_stderr_and_nothing_on_stdout(workspace: Path) -> None:
    done = typed(FAKE, "--json", "eval", "run", CONFIG, cwd=workspace, ends="complete:0:openai/big")
    assert (done.returncode, done.stdout) == (1, "")
    envelope = json.loads(done.stderr)
    assert envelope["command"] == "eval run"
    assert envelope["error"]["code"] == "INTERACTIVE_REQUIRED"


def test_a_file_gets_one_line_an_item(workspace: Path) -> None:
    done = typed(FAKE, "eval", "run", CONFIG, cwd=workspace)
    lines = re.findall(r"^\d+/20 pass .* · failed \d+$", done.stdout, re.MULTILINE)
    assert len(lines) == 21
    assert "\x1b" not in done.stdout


def test_plain_text_has_no_progress_and_no_frames(workspace: Path) -> None:
    done = typed(FAKE, "eval", "run", CONFIG, "--plain", cwd=workspace)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == [
        "Evaluation run finished: /ws/.osmosis/evals/quick-otter-07",
        "Run: quick-otter-07",
    ]
    assert not re.search(r"[─│]|\d/20 pass", done.stdout)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_keeps_no_run_from_its_end(workspace: Path, closed: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(FAKE)} eval run {CONFIG} {closed}"],
        capture_output=True,
        text=True,
        cwd=workspace,
        env=environment(),
        timeout=WAIT,
        check=False,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stdout + done.stderr
    assert ("Evaluation run finished" in done.stdout) is (closed in ("2>&-", "<&-"))


def test_ascii_gets_plain_signs(workspace: Path) -> None:
    done = typed(FAKE, "eval", "run", CONFIG, cwd=workspace, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "-> checking model" in done.stdout
    assert "complete - 20 ok" in done.stdout
    assert (done.stdout + done.stderr).isascii()


def test_a_reader_that_leaves_early_gets_no_traceback(workspace: Path) -> None:
    command = f"{' '.join(FAKE)} eval run {CONFIG} | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=workspace,
        env=environment("complete:0.01:local/tiny"),
        timeout=WAIT,
        check=False,
    )
    assert done.stdout.startswith("→ checking model")
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_an_ascii_locale_is_no_crash(workspace: Path) -> None:
    done = typed(FAKE, "eval", "run", CONFIG, cwd=workspace, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_an_interrupt_before_the_runner_listens_exits_130(workspace: Path) -> None:
    with subprocess.Popen(
        [*FAKE, "eval", "run", CONFIG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=workspace,
        env=environment("complete:1:local/tiny"),
    ) as process:
        assert process.stdout is not None
        assert any("0/20" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert stderr == "Error: Interrupted.\n"


@dataclass
class Terminal:
    """A process on a terminal of its own, read until it ends."""

    process: int
    master: int
    seen: str = ""
    code: int | None = field(default=None)

    @classmethod
    def start(cls, cwd: Path, ends: str, *arguments: str) -> Terminal:
        process, master = pty.fork()
        if process == 0:
            os.chdir(cwd)
            os.execve(sys.executable, [*FAKE, *arguments], environment(ends, COLUMNS="100"))
        return cls(process, master)

    def read_until(self, text: str | None) -> None:
        """Read until `text` is on the screen, or to the end when it is None."""
        deadline = time.monotonic() + WAIT
        while text is None or text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.seen!r}"
            if not select.select([self.master], [], [], 1.0)[0]:
                continue
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                piece = b""
            if not piece:
                assert text is None, f"{text!r} did not come: {self.seen!r}"
                break
            self.seen += piece.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> int:
        self.read_until(None)
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def test_a_terminal_gets_a_question_a_live_bar_and_its_cursor_back(workspace: Path) -> None:
    terminal = Terminal.start(workspace, "complete:0.05:openai/big", "eval", "run", CONFIG)
    terminal.read_until("continue? [y/N]: ")
    assert "Local Evaluation" in terminal.seen
    terminal.type("y\n")
    assert terminal.end() == 0
    for part in (
        "\x1b[?25l",
        "━",
        "20/20",
        "in flight",
        "rows/min",
        "2,000 tokens",
        "Results",
        "Failed rows",
    ):
        assert part in terminal.seen
    assert terminal.seen.rindex("\x1b[?25h") > terminal.seen.rindex("\x1b[?25l")
    assert "0/20 pass" not in terminal.seen


def test_no_at_the_question_runs_nothing_and_exits_0(workspace: Path) -> None:
    terminal = Terminal.start(workspace, "complete:0:openai/big", "eval", "run", CONFIG)
    terminal.read_until("continue? [y/N]: ")
    terminal.type("\n")
    assert terminal.end() == 0
    assert "Cancelled." in terminal.seen
    assert "in flight" not in terminal.seen


@pytest.mark.parametrize(
    ("ends", "shown"), [("complete:0:openai/big", "[y/N]: "), ("complete:1:local/x", "in flight")]
)
def test_ctrl_c_on_a_terminal_exits_130_at_once(workspace: Path, ends: str, shown: str) -> None:
    terminal = Terminal.start(workspace, ends, "eval", "run", CONFIG)
    terminal.read_until(shown)
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Error: Interrupted." in terminal.seen
    assert "Traceback" not in terminal.seen


def installed(*names: str) -> dict[str, Any]:
    program = (
        f"import json, sys, osmosis_cli.main; print(json.dumps({{n: n in sys.modules for n in {names!r}}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT, check=True
    )
    return json.loads(done.stdout)


def test_starting_imports_nothing_heavy() -> None:
    heavy = ("rich", "asyncio", "osmosis_runner", "httpx", "uvicorn", "litellm", "starlette")
    assert not any(installed(*heavy).values())


@pytest.fixture
def provider() -> Iterator[MockProvider]:
    with MockProvider() as running:
        yield running


def real_run(provider: MockProvider, *flags: str) -> list[str]:
    reach = ("--api-base", provider.url, "--api-key-env", "PROVIDER_KEY")
    return ["eval", "run", "configs/eval/t.toml", *reach, "--name", "r", "--yes", "--json", *flags]


KEY = "sk-canary-0123456789"


def test_a_run_from_the_command_to_its_files(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(
        tmp_path, provider.url, [row("1"), row("2", mode="raise"), row("3", mode="remove")]
    )
    (tmp_path / ".env").write_text(f"PROVIDER_KEY={KEY}\n")
    done = typed(REAL, *real_run(provider), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    resource = json.loads(done.stdout)["resource"]
    assert (resource["succeeded"], resource["failed"], resource["skipped"]) == (1, 1, 1)
    assert resource["failed_rows"][0]["error_phase"] == "agent"
    assert provider.keys == {KEY}
    again = typed(REAL, *real_run(provider), cwd=tmp_path)
    assert (again.returncode, json.loads(again.stdout)["resource"]["dispatched"]) == (0, 0)
    retried = typed(REAL, *real_run(provider, "--retry-skipped", "--fail-on", "failed"), cwd=tmp_path)
    assert (retried.returncode, json.loads(retried.stdout)["resource"]["dispatched"]) == (1, 1)
    shown = typed(REAL, "eval", "show", "r", cwd=tmp_path)
    assert shown.returncode == 0
    assert "row 1 run 0: failed" in shown.stdout
    listed = json.loads(typed(REAL, "eval", "list", "--json", cwd=tmp_path).stdout)
    assert [(item["name"], item["status"]) for item in listed["items"]] == [("r", "finished")]
    kept = [path for path in workspace.root.rglob("*") if path.is_file() and path.name != ".env"]
    assert kept
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]
    assert KEY not in done.stdout + done.stderr + shown.stdout


@contextmanager
def running(folder: Path, provider: MockProvider, done: int) -> Generator[subprocess.Popen[str]]:
    """A real run in a workspace, once so many items are recorded."""
    journal = folder / ".osmosis" / "evals" / "r" / "events.jsonl"
    with subprocess.Popen(
        [*REAL, *real_run(provider)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(PROVIDER_KEY=KEY),
    ) as process:
        deadline = time.monotonic() + WAIT
        while not journal.exists() or journal.read_bytes().count(b"\n") < done:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        yield process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_run_with_its_code_and_the_run_goes_on_later(
    tmp_path: Path, provider: MockProvider, number: signal.Signals, code: int
) -> None:
    rows = [row("1"), row("2"), row("3", mode="sleep", arg=60.0)]
    make_workspace(tmp_path, provider.url, rows)
    with running(tmp_path, provider, done=2) as process:
        process.send_signal(number)
        stdout, _ = process.communicate(timeout=WAIT)
    assert process.returncode == code
    document = json.loads(stdout)
    assert (document["status"], document["resource"]["ended"]) == ("partial", "interrupted")
    assert (document["resource"]["succeeded"], document["resource"]["pending"]) == (2, 1)
    assert "--name r" in document["next_steps_structured"][0]["command"]


def test_a_second_signal_ends_a_run_at_once_with_the_code_of_the_first(
    tmp_path: Path, provider: MockProvider
) -> None:
    make_workspace(tmp_path, provider.url, [row("1"), row("2", mode="stubborn", arg=60.0)])
    with running(tmp_path, provider, done=1) as process:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=WAIT)
    assert process.returncode == 143
    document = json.loads(stdout)
    assert (document["status"], document["resource"]["ended"]) == ("partial", "interrupted")
    assert (document["resource"]["succeeded"], document["resource"]["pending"]) == (1, 1)
    assert "VALIDATION" not in stdout + stderr


def test_a_model_that_does_not_answer_is_an_error_before_any_row(
    tmp_path: Path, provider: MockProvider
) -> None:
    make_workspace(tmp_path, provider.url, [row("1")])
    provider.status = 401
    done = typed(REAL, *real_run(provider), cwd=tmp_path, PROVIDER_KEY=KEY)
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "VALIDATION"
    assert KEY not in done.stderr
    assert not (tmp_path / ".osmosis" / "evals" / "r").exists()


DOCS = Path(__file__).parent.parent.parent / "docs" / "cli.md"


def test_the_page_of_the_command_line_is_current() -> None:
    script = DOCS.parent.parent / "scripts" / "refresh_cli_docs.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_every_exit_code_and_every_error_code_is_on_the_page() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert not [code for code in Code if f"| `{code}` |" not in text]
    assert not [code for code in Exit if f"| {code.value} |" not in text]
