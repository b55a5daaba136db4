from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from osmosis_runner.errors import RunDirError, RunLocked, StorageError
from osmosis_runner.lock import Owner, RunLock, lock_holder

ME = Owner(os.getpid(), "host-a", "2026-01-01T00:00:00Z")

HOLDER = """
import sys
from pathlib import Path
from osmosis_runner.lock import Owner, RunLock
lock = RunLock.acquire(Path(sys.argv[1]), "run", Owner(__import__("os").getpid(), "host-b", "2026-02-02T00:00:00Z"))
print("held", flush=True)
sys.stdin.read()
"""


CONTENDER = """
import os, sys
from pathlib import Path
from osmosis_runner.errors import RunLocked
from osmosis_runner.lock import Owner, RunLock
output, taken = Path(sys.argv[1]), 0
for _ in range(1_000_000):
    if taken == 200:
        break
    try:
        with RunLock.acquire(output / "made", "run", Owner(os.getpid(), "host", "now")):
            alone = os.open(output / "held", os.O_CREAT | os.O_EXCL)
            os.close(alone)
            (output / "held").unlink()
            taken += 1
    except RunLocked:
        pass
print(taken)
"""


def holder(output: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(output)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_the_second_is_refused_at_once_and_learns_who_holds_it(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(RunLocked) as caught:
            RunLock.acquire(tmp_path, "run", ME)
        assert f"process {process.pid} on host-b, since 2026-02-02T00:00:00Z" in str(caught.value)
        assert caught.value.details["pid"] == process.pid
        assert caught.value.code == "CONFLICT"
        assert lock_holder(tmp_path, "run") == Owner(process.pid, "host-b", "2026-02-02T00:00:00Z")
        with RunLock.acquire(tmp_path, "other", ME):
            pass
        process.kill()


def test_a_killed_owner_does_not_block(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.kill()
    assert lock_holder(tmp_path, "run") is None
    with RunLock.acquire(tmp_path, "run", ME) as lock:
        assert lock.owner == ME
        assert lock_holder(tmp_path, "run") == ME
    assert lock_holder(tmp_path, "run") is None


def test_releasing_twice_is_fine_and_lets_the_next_in(tmp_path: Path) -> None:
    lock = RunLock.acquire(tmp_path, "run", ME)
    with pytest.raises(RunLocked):
        RunLock.acquire(tmp_path, "run", ME)
    lock.release()
    lock.release()
    RunLock.acquire(tmp_path, "run", ME).release()


def test_a_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    with RunLock.acquire(tmp_path, "run", ME):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
    with child:
        RunLock.acquire(tmp_path, "run", ME).release()
        child.kill()


def test_an_owner_file_of_another_shape_is_still_a_refusal(tmp_path: Path) -> None:
    with RunLock.acquire(tmp_path, "run", ME):
        (tmp_path / ".locks" / "run.lock").write_bytes(b"garbage")
        with pytest.raises(RunLocked, match="another process"):
            RunLock.acquire(tmp_path, "run", ME)
        assert lock_holder(tmp_path, "run") == Owner(0, "unknown", "unknown")


def test_nothing_is_left_of_a_lock_that_was_let_go(tmp_path: Path) -> None:
    output = tmp_path / "made" / "for it"
    with RunLock.acquire(output, "run", ME), RunLock.acquire(output, "other", ME):
        assert {path.name for path in (output / ".locks").iterdir()} == {"run.lock", "other.lock"}
    assert list(tmp_path.iterdir()) == []
    output.mkdir(parents=True)
    with RunLock.acquire(output, "run", ME):
        (output / "run").mkdir()
    assert [path.name for path in output.iterdir()] == ["run"]


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    RunLock.acquire(tmp_path, "run", ME).release()
    assert tmp_path.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_file_opened_before_it_was_removed_is_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RunLock.acquire(tmp_path, "run", ME)
    lock_file = fcntl.flock

    def removed_meanwhile(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock_file)
        first.release()
        lock_file(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    with RunLock.acquire(tmp_path, "run", ME), pytest.raises(RunLocked):
        RunLock.acquire(tmp_path, "run", ME)


def test_of_many_that_come_and_go_only_one_holds_the_lock_at_a_time(tmp_path: Path) -> None:
    work = [
        subprocess.Popen([sys.executable, "-c", CONTENDER, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    taken = sum(int(process.communicate(timeout=30)[0]) for process in work)
    assert all(process.returncode == 0 for process in work)
    assert taken >= 800
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_hold_locks_is_told(tmp_path: Path) -> None:
    (tmp_path / ".locks").write_text("")
    with pytest.raises((RunDirError, StorageError)):
        RunLock.acquire(tmp_path, "run", ME)
    assert lock_holder(tmp_path / "nothing", "run") is None


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".locks").mkdir()
    (tmp_path / ".locks" / "run.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(StorageError):
        RunLock.acquire(tmp_path, "run", ME)
    assert not (tmp_path / "victim").exists()


LOOKER = """
import sys
from pathlib import Path
from osmosis_runner.lock import lock_holder
print("looking", flush=True)
while True:
    lock_holder(Path(sys.argv[1]), "run")
"""


def test_a_run_starts_while_others_look_whether_it_runs(tmp_path: Path) -> None:
    with RunLock.acquire(tmp_path, "run", ME):
        # What a killed owner leaves, so that there is always a file to look at.
        (tmp_path / ".locks" / "kept").hardlink_to(tmp_path / ".locks" / "run.lock")
    lookers = [
        subprocess.Popen([sys.executable, "-c", LOOKER, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for looker in lookers:
            assert looker.stdout is not None
            assert looker.stdout.readline() == b"looking\n"
        for _ in range(1_000):
            (tmp_path / ".locks" / "run.lock").hardlink_to(tmp_path / ".locks" / "kept")
            RunLock.acquire(tmp_path, "run", ME).release()
    finally:
        for looker in lookers:
            looker.kill()
            with looker:
                pass


def test_a_lock_that_is_shared_for_good_is_held(tmp_path: Path) -> None:
    (tmp_path / ".locks").mkdir()
    shared = os.open(tmp_path / ".locks" / "run.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(shared, fcntl.LOCK_SH)
    with pytest.raises(RunLocked, match="another process"):
        RunLock.acquire(tmp_path, "run", ME)
    os.close(shared)
    RunLock.acquire(tmp_path, "run", ME).release()
