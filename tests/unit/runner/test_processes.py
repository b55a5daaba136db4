from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmosis_runner import processes
from osmosis_runner.processes import can_find, carrying, children_of, kill_carrying

NAME = "_OSMOSIS_TEST_MARK"

# Where there is no such folder psutil is asked, as on systems that have none.
PLACES = pytest.mark.parametrize("proc", [Path("/proc"), Path("/no/such/proc")], ids=["proc", "psutil"])


@pytest.fixture
def mark() -> Iterator[str]:
    value = uuid.uuid4().hex
    yield value
    kill_carrying(NAME, value)


def sleeper(mark: str, *arguments: str) -> subprocess.Popen[bytes]:
    code = "import time; print('.', flush=True); time.sleep(60)"
    environ = {**os.environ, NAME: mark}
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], env=environ, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@PLACES
def test_those_that_carry_the_value_are_found_and_killed_and_nobody_else(mark: str, proc: Path) -> None:
    ours, longer = sleeper(mark), sleeper(mark + "0")
    # It names the mark without carrying it, as whoever looks for one does.
    speaker = sleeper("another", f"{NAME}={mark}")
    try:
        assert carrying(NAME, mark, proc) == [ours.pid]
        assert kill_carrying(NAME, mark, proc) == [ours.pid]
        assert ours.wait(9) == -signal.SIGKILL
        assert carrying(NAME, mark, proc) == []
        assert (longer.poll(), speaker.poll()) == (None, None)
    finally:
        for process in (ours, longer, speaker):
            process.kill()
            process.communicate()


@PLACES
def test_children_are_told(mark: str, proc: Path) -> None:
    child = sleeper(mark)
    assert child.pid in children_of(os.getpid(), proc)
    assert os.getpid() not in children_of(child.pid, proc)
    child.kill()
    child.communicate()


def test_a_number_that_belongs_to_somebody_else_by_now_is_not_met(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sleeper("another")
    # The one that carried the mark is gone and its number was given away between our two looks.
    monkeypatch.setattr(processes, "carrying", lambda *_: [other.pid])
    kill_carrying(NAME, mark)
    assert other.poll() is None
    other.kill()
    other.communicate()


def test_without_either_nothing_is_found_and_it_is_known(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    nowhere = Path("/no/such/proc")
    assert can_find(nowhere)
    monkeypatch.setattr(processes, "import_module", missing)
    assert not can_find(nowhere)
    assert can_find()
    process = sleeper(mark)
    assert carrying(NAME, mark, nowhere) == kill_carrying(NAME, mark, nowhere) == []
    assert children_of(os.getpid(), nowhere) == []
    process.kill()
    process.communicate()
