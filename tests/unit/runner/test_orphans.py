from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid

from osmosis_runner.orphans import (
    MARK_VARIABLE,
    adopting,
    children,
    die_with_parent,
    kill_marked,
    marked,
    reap,
)


def sleeper(mark: str, *, own_session: bool = False) -> subprocess.Popen[bytes]:
    environ = {**os.environ, MARK_VARIABLE: mark}
    return subprocess.Popen(["sleep", "60"], env=environ, start_new_session=own_session)


def test_marked_processes_are_found_in_any_session_and_killed() -> None:
    mark = uuid.uuid4().hex
    first, second = sleeper(mark), sleeper(mark, own_session=True)
    other = sleeper(mark + "0")
    assert sorted(marked(mark)) == sorted([first.pid, second.pid])
    assert kill_marked(mark) == 2
    assert (first.wait(9), second.wait(9)) == (-signal.SIGKILL, -signal.SIGKILL)
    assert marked(mark) == []
    assert other.poll() is None
    other.kill()
    other.wait()


def test_orphans_come_to_us_while_we_adopt() -> None:
    # A shell that leaves a child behind: without adoption it would be the system's.
    with adopting():
        shell = subprocess.run(
            ["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True
        )
        orphan = int(shell.stdout)
        assert orphan in children()
        os.kill(orphan, signal.SIGKILL)
        reap(orphan, wait=True)
    assert orphan not in children()


def test_a_child_dies_with_the_process_that_started_it() -> None:
    code = (
        "import subprocess, sys, os\n"
        "from osmosis_runner.orphans import die_with_parent\n"
        "p = subprocess.Popen(['sleep', '60'], preexec_fn=die_with_parent)\n"
        "print(p.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    with adopting():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        _, status = os.waitpid(int(done.stdout), 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    assert callable(die_with_parent)


def test_collecting_what_is_not_ours_is_no_error() -> None:
    reap(1)
