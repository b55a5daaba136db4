"""A server process of our own: its side of the pipes."""

from __future__ import annotations

import subprocess
import sys

SOURCE = """
from osmosis_bridge.owned_server import meet_owner
import threading
answers, line = meet_owner()
print("noise")
answers.write(repr(line) + "\\n")
answers.flush()
if line:
    threading.Event().wait()
"""


def start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", SOURCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_only_the_answer_goes_to_the_owner_and_the_closing_of_stdin_ends_it() -> None:
    process = start()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"order\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"b'order\\n'\n"
    assert process.poll() is None
    out, err = process.communicate(timeout=10)
    assert (out, process.returncode) == (b"", 0)
    assert err in (b"noise\n", b"")


def test_an_owner_that_is_gone_already_leaves_an_empty_order() -> None:
    process = start()
    out, _ = process.communicate(timeout=10)
    assert out == b"b''\n"
    assert process.returncode == 0
