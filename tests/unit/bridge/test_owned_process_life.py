"""The life of a server process of our own: however its start or its end comes about, nothing is left of it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from osmosis_bridge.owned_process import NotStarted, OwnedProcess, start_owned

MODULE = "stand_in_server"
URL = "http://127.0.0.1:5"
READS = "import json, sys, time\norder = json.loads(sys.stdin.readline())\n"
SERVES = READS + f'print(\'{{"url": "{URL}"}}\', flush=True)\n'
UNTIL_THE_OWNER_GOES = "sys.stdin.read()\n"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class StandIn:
    """The module that is started, and the environment in which it is found."""

    def __init__(self, folder: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._folder = folder
        self.loop_factory = loop_factory
        self.environ = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(folder)}

    def program(self, source: str) -> None:
        (self._folder / f"{MODULE}.py").write_text(source)

    def run(self, use: Callable[[OwnedProcess], Awaitable[None]], *, stop_s: float = 2.0) -> OwnedProcess:
        """Start it, use it, stop it, and be sure that nothing is left."""

        async def started() -> OwnedProcess:
            process = OwnedProcess(stop_s=stop_s)
            try:
                assert await start_owned(process, MODULE, {"model": "m"}, self.environ, 30) == URL
                await use(process)
            finally:
                await process.stop()
            return process

        with asyncio.Runner(loop_factory=self.loop_factory) as runner:
            process = runner.run(started())
        assert not is_running(process.pid)
        return process

    def refusal(self, start_s: float = 30, error_line: re.Pattern[str] | None = None) -> str:
        """Why it does not start; nothing is left of it then."""

        async def start() -> tuple[OwnedProcess, str]:
            process = OwnedProcess(error_line, stop_s=0.1)
            with pytest.raises(NotStarted) as caught:
                await start_owned(process, MODULE, {}, self.environ, start_s)
            return process, str(caught.value)

        with asyncio.Runner(loop_factory=self.loop_factory) as runner:
            process, reason = runner.run(start())
        assert process.pid
        assert not is_running(process.pid)
        assert "\n" not in reason
        return reason


@pytest.fixture(params=LOOPS)
def stand_in(request: pytest.FixtureRequest, tmp_path: Path) -> StandIn:
    return StandIn(tmp_path, LOOPS[request.param])


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def look(process: OwnedProcess) -> None:
    assert is_running(process.pid)
    assert process.end_reason() is None
    assert process.exit_code is None


def test_its_order_comes_over_stdin_and_its_command_line_tells_nothing(
    stand_in: StandIn, tmp_path: Path
) -> None:
    seen = f"open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps([order, sys.orig_argv[1:]]))\n"
    stand_in.program(READS + seen + SERVES.removeprefix(READS) + UNTIL_THE_OWNER_GOES)
    stand_in.run(look)
    assert (tmp_path / "seen").read_text() == f'[{{"model": "m"}}, ["-P", "-m", "{MODULE}"]]'


def test_it_ends_by_itself_when_its_stdin_closes(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.program(SERVES + UNTIL_THE_OWNER_GOES + f"open({str(tmp_path / 'bye')!r}, 'w').write('bye')\n")
    assert stand_in.run(look).exit_code == 0
    assert (tmp_path / "bye").read_text() == "bye"


def test_one_that_does_not_end_by_itself_is_killed(stand_in: StandIn) -> None:
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stand_in.program(deaf + SERVES + "time.sleep(60)\n")
    assert stand_in.run(look, stop_s=0.05).exit_code == -signal.SIGKILL


def test_it_may_be_stopped_as_often_as_wanted_and_before_it_was_started(stand_in: StandIn) -> None:
    stand_in.program(SERVES + UNTIL_THE_OWNER_GOES)

    async def stop(process: OwnedProcess) -> None:
        await OwnedProcess().stop()
        await process.stop()
        await process.stop()

    stand_in.run(stop)


def test_one_that_ends_by_itself_says_why(stand_in: StandIn) -> None:
    stand_in.program(SERVES + "print('out of memory', file=sys.stderr)\nsys.exit(7)\n")

    async def wait(process: OwnedProcess) -> None:
        async with asyncio.timeout(8):
            await process.ended
        assert process.end_reason() == "exit code 7: out of memory"

    stand_in.run(wait)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import sys\nprint('a', 'b', sep='\\n', file=sys.stderr)\nsys.exit(3)", "b"),
        ("import os\nos.kill(os.getpid(), 9)", "it ended without a word (exit code -9)"),
        ("import nosuchmodule", "ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("import sys\nsys.stderr.write('y' * 300000 + 'x' * 5000)", "x" * 500),
        (READS + "sys.stdout.write('{\"url\"')", "it ended without a word (exit code 0)"),
    ],
    ids=["two lines", "killed", "no module", "endless words", "half an answer"],
)
def test_a_start_that_fails_says_the_last_line_or_the_exit_code(
    stand_in: StandIn, source: str, says: str
) -> None:
    stand_in.program(source)
    assert stand_in.refusal() == f"did not start: {says}"


def test_a_line_that_tells_more_than_the_last_is_told(stand_in: StandIn) -> None:
    stand_in.program("import sys\nprint('E the cause', 'E a sequel', 'bye', sep='\\n', file=sys.stderr)\n")
    assert stand_in.refusal(error_line=re.compile(r"E (.*)")) == "did not start: the cause"


def test_one_that_is_silent_is_given_up_and_ended(stand_in: StandIn) -> None:
    stand_in.program("import time\ntime.sleep(60)\n")
    assert stand_in.refusal(start_s=0.2).startswith("did not start within ")


def test_an_answer_may_come_in_pieces_and_what_follows_it_is_ignored(stand_in: StandIn) -> None:
    pieces = ('{"url":', f' "{URL}"}}\n{{"url"', ': "http://elsewhere"}\n')
    writes = [f"sys.stdout.write({piece!r}); sys.stdout.flush(); time.sleep(0.02)\n" for piece in pieces]
    stand_in.program(READS + "".join(writes) + UNTIL_THE_OWNER_GOES)
    stand_in.run(look)


def test_a_cancelled_start_leaves_no_process(stand_in: StandIn) -> None:
    stand_in.program("import time\ntime.sleep(60)\n")

    async def cancelled() -> OwnedProcess:
        process = OwnedProcess(stop_s=0.1)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(start_owned(process, MODULE, {}, stand_in.environ, 30))
            while not process.pid:
                await asyncio.sleep(0.01)
            task.cancel()
        return process

    with asyncio.Runner(loop_factory=stand_in.loop_factory) as runner:
        process = runner.run(cancelled())
    assert not is_running(process.pid)


def test_a_program_that_cannot_be_run_is_said_to_be(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    async def start() -> None:
        await start_owned(OwnedProcess(), MODULE, {}, {}, 30)

    with (
        asyncio.Runner(loop_factory=stand_in.loop_factory) as runner,
        pytest.raises(NotStarted, match="cannot be started: No such file"),
    ):
        runner.run(start())


def test_a_folder_of_the_user_s_is_no_place_for_modules(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "json.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(elsewhere)
    stand_in.program(SERVES + UNTIL_THE_OWNER_GOES)
    stand_in.run(look)


def test_ctrl_c_of_the_terminal_does_not_reach_it(stand_in: StandIn) -> None:
    stand_in.program(SERVES + UNTIL_THE_OWNER_GOES)

    async def of_its_own_group(process: OwnedProcess) -> None:
        assert os.getpgid(process.pid) == process.pid

    stand_in.run(of_its_own_group)


# An owner: starts the module, says where it is, and lives on.
OWNER = """
import asyncio, sys
from osmosis_bridge.owned_process import OwnedProcess, start_owned
async def main():
    process = OwnedProcess()
    await start_owned(process, sys.argv[1], {}, {"PYTHONPATH": sys.argv[2]}, 30)
    print(process.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_it_dies_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / f"{MODULE}.py").write_text(SERVES + UNTIL_THE_OWNER_GOES)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, MODULE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_running(pid)
        owner.kill()
    deadline = time.monotonic() + 8
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} outlived its owner"
        time.sleep(0.01)
