"""A server process of our own on loopback: its side of the pipes to its owner (`owned_process.py` is the other).

Its stdout carries one line to the owner and nothing else; the closing of stdin, however it comes about, is the order to
end. Knows nothing of what is served.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from typing import Final, TextIO

_PR_SET_PDEATHSIG: Final = 1


def meet_owner() -> tuple[TextIO, bytes]:
    """What the owner is answered on, and its order: the first line of stdin, empty where the owner is gone already.

    From then on the process ends when stdin closes.
    """
    answers = _keep_stdout()
    # Ctrl-C is for the owner, which still has work to finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_owner()
    # Unbuffered: a lock on sys.stdin, held by the thread below, would break the end of the interpreter.
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        line = stdin.readline()
    if line:
        threading.Thread(target=_wait_for_owner, name="owner", daemon=True).start()
    return answers, line


def _keep_stdout() -> TextIO:
    """The pipe to the owner; whatever else writes to stdout, in C too, goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _die_with_owner() -> None:
    """Linux ends us with the thread that started us; elsewhere, and before this line, the closed stdin does."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_for_owner() -> None:
    while os.read(0, 4096):
        pass
    # At once: there is nothing to save, and taking a library down properly can deadlock.
    os._exit(0)
