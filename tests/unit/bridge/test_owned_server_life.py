"""The life of a server process of our own, from within: what ends it, and what does not."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

WAIT_S = 8.0
# Meets its owner, makes noise as libraries do, answers with what it was told, and serves for ever.
SERVER = """
import os, sys, threading
from osmosis_bridge.owned_server import meet_owner
answers, line = meet_owner()
print("noise", flush=True)
os.write(1, b"noise of C\\n")
answers.write(line.decode())
answers.flush()
SERVE
"""
WAITS = SERVER.replace("SERVE", "threading.Event().wait()")
IS_BUSY = SERVER.replace("SERVE", "while True: pass")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", getattr(request, "param", WAITS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    with process:
        yield process
        process.kill()


def says(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"model":"m"}\n')
    assert select.select([process.stdout], [], [], WAIT_S)[0], "the process did not answer"
    return process.stdout.readline()


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("server", [WAITS, IS_BUSY], indirect=True, ids=["it waits", "it is busy"])
def test_the_closing_of_stdin_ends_it_and_its_noise_never_reached_the_owner(
    server: subprocess.Popen[bytes],
) -> None:
    assert says(server) == b'{"model":"m"}\n'
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stderr is not None
    server.stdin.close()
    assert server.wait(WAIT_S) == 0
    assert server.stdout.read() == b""
    assert server.stderr.read() == b"noise\nnoise of C\n"


def test_what_the_owner_writes_later_is_read_and_does_not_end_it(server: subprocess.Popen[bytes]) -> None:
    says(server)
    assert server.stdin is not None
    server.stdin.write(b"more\n" * 20_000)
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0.1)
    server.stdin.close()
    assert server.wait(WAIT_S) == 0


def test_ctrl_c_is_for_the_owner(server: subprocess.Popen[bytes]) -> None:
    says(server)
    server.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0.1)
    server.send_signal(signal.SIGTERM)
    assert server.wait(WAIT_S) == -signal.SIGTERM


# An owner that starts the server and says where it is; with "keeper", another process holds the pipe as well.
OWNER = """
import subprocess, sys, time
server = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
server.stdin.write(b"order\\n")
server.stdout.readline()
keeper = 0
if "keeper" in sys.argv:
    keeper = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, pass_fds=[server.stdin.fileno()]).pid
print(server.pid, keeper, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("kept", ["", "keeper"], ids=["its pipe closes", "another process holds its pipe"])
def test_a_killed_owner_leaves_no_server(kept: str) -> None:
    if kept and sys.platform != "linux":
        pytest.skip("only Linux tells a process of its parent's death")
    owner = subprocess.Popen([sys.executable, "-c", OWNER, WAITS, kept], stdout=subprocess.PIPE)
    with owner:
        assert owner.stdout is not None
        assert select.select([owner.stdout], [], [], WAIT_S)[0], "the owner did not start its server"
        server, keeper = map(int, owner.stdout.readline().split())
        try:
            assert is_running(server)
            owner.kill()
            owner.wait(WAIT_S)
            deadline = time.monotonic() + WAIT_S
            while is_running(server):
                assert time.monotonic() < deadline, "the server outlived its owner"
                time.sleep(0.01)
        finally:
            for pid in filter(None, (keeper, server)):
                if is_running(pid):
                    os.kill(pid, signal.SIGKILL)
