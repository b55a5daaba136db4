"""The ledger's promises, each held by a test of the same name."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from fakes import a_log
from osmosis_bridge import ledger as ledger_module
from osmosis_bridge.errors import LedgerFailed
from osmosis_bridge.ledger import FileLedger, NoLedger


def use(path: Path, work: Callable[[FileLedger], Awaitable[None]]) -> None:
    """Open a ledger, work with it, close it."""

    async def main() -> None:
        ledger = FileLedger(path)
        try:
            await work(ledger)
        finally:
            await ledger.close()

    asyncio.run(main())


def keep(path: Path, *lines: bytes) -> None:
    async def work(ledger: FileLedger) -> None:
        for line in lines:
            ledger.append(line)

    use(path, work)


def run_python(
    code: str, *arguments: str, preexec: Callable[[], object] | None = None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    # The child is limited before it runs; this process has no other thread at that moment.
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=preexec)  # noqa: PLW1509


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_line_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"

    async def work(ledger: FileLedger) -> None:
        ledger.append(b'{"a":1}')
        assert path.read_bytes() == b'{"a":1}\n'
        ledger.append(b'{"a":2}')
        assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'

    use(path, work)


def test_lines_are_added_to_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    keep(path, b'{"a":1}')
    keep(path, b'{"a":2}')
    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    keep(tmp_path / "calls.jsonl", b"{}")
    assert (tmp_path / "calls.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_record_that_was_appended_survives_the_death_of_this_process(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    child = run_python(
        """
        import asyncio, sys
        from pathlib import Path
        from osmosis_bridge.ledger import FileLedger
        async def main():
            ledger, number = FileLedger(Path(sys.argv[1])), 0
            while True:
                ledger.append(b'{"n":%d}' % number)
                sys.stdout.write(f"{number}\\n")
                sys.stdout.flush()
                number += 1
        asyncio.run(main())
        """,
        str(path),
    )
    assert child.stdout is not None
    for _ in range(200):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    rest = child.communicate()[0].splitlines()
    promised = int(rest[-1]) if rest else 199
    lines = path.read_bytes().splitlines()
    assert lines[: promised + 1] == [b'{"n":%d}' % number for number in range(promised + 1)]


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b'{"a":1}\n{"a":2', b'{"a":1}\n'),
        (b'{"a":1}\n{', b'{"a":1}\n'),
        (b'{"a"', b""),
        (b'{"a":1}\n\0\0\0\0', b'{"a":1}\n'),
        (b'{"a":1}\n' + b'{"a":"' + b"x" * 200_000, b'{"a":1}\n'),
        (b'{"a":1}\n', b'{"a":1}\n'),
        (b"", b""),
    ],
)
def test_a_fragment_that_a_crash_left_is_cut_off_when_the_file_is_opened(
    tmp_path: Path, content: bytes, kept: bytes
) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(content)
    keep(path, b'{"b":1}')
    assert path.read_bytes() == kept + b'{"b":1}\n'


@pytest.mark.parametrize("content", [b"precious text without a line feed", b'{"a":1}\nsomething else'])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "thesis.txt"
    path.write_bytes(content)
    before = open_files()
    with pytest.raises(LedgerFailed, match="no record"):
        FileLedger(path)
    assert path.read_bytes() == content
    assert open_files() == before


def test_one_file_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"

    async def work(_: FileLedger) -> None:
        with pytest.raises(LedgerFailed, match="another process writes the ledger"):
            FileLedger(path)

    use(path, work)
    keep(path, b"{}")


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    child = run_python(
        """
        import sys, time
        from pathlib import Path
        from osmosis_bridge.ledger import FileLedger
        ledger = FileLedger(Path(sys.argv[1]))
        print("open", flush=True)
        time.sleep(60)
        """,
        str(path),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"open\n"
    with pytest.raises(LedgerFailed, match="another process"):
        FileLedger(path)
    child.kill()
    child.communicate()
    keep(path, b"{}")


@pytest.mark.parametrize("name", ["missing/calls.jsonl", "."])
def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(LedgerFailed, match="cannot open the ledger") as caught:
        FileLedger(tmp_path / name)
    assert str(tmp_path / name) in caught.value.message


def test_a_line_is_never_torn_where_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    child = run_python(
        """
        import asyncio, sys
        from pathlib import Path
        from osmosis_bridge.errors import LedgerFailed
        from osmosis_bridge.ledger import FileLedger
        async def main():
            ledger = FileLedger(Path(sys.argv[1]))
            kept = refused = 0
            for number in range(30):
                try:
                    ledger.append(b'{"n":"%d"}' % (10 ** (number % 10 * 3)))
                    kept += 1
                except LedgerFailed as failed:
                    refused += 1
                    assert failed.code == "ledger_unavailable" and failed.status == 500, failed
            await ledger.close()
            print(kept, refused)
        asyncio.run(main())
        """,
        str(path),
        preexec=lambda: (
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)),
        ),
    )
    out, err = child.communicate(timeout=20)
    kept, refused = map(int, out.split())
    content = path.read_bytes()
    assert err == b""
    assert refused > 0
    assert content.endswith(b'"}\n')
    whole = {b'{"n":"%d"}' % (10 ** (step * 3)) for step in range(10)}
    assert set(content.splitlines()) <= whole
    # A short line may still fit where a long one did not.
    assert content.count(b"\n") == kept
    assert 250 < len(content) <= 300


def test_a_device_that_is_full_refuses_every_line_and_can_be_closed(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.symlink_to("/dev/full")

    async def work(ledger: FileLedger) -> None:
        for _ in range(3):
            with pytest.raises(LedgerFailed, match="No space left"):
                ledger.append(b"{}")

    use(path, work)


def test_what_has_no_disk_to_sync_to_is_synced(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.symlink_to("/dev/null")
    keep(path, b"{}")


def torn_write(monkeypatch: pytest.MonkeyPatch, *, cut_back: bool) -> None:
    """The next write gets three bytes out and fails; the cut that follows fails too, unless `cut_back`."""
    write, truncate, calls = os.write, os.ftruncate, []

    def broken_write(fd: int, data: bytes) -> int:
        calls.append("write")
        if len(calls) == 1:
            return write(fd, data[:3])
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        return write(fd, data)

    def broken_truncate(fd: int, size: int) -> None:
        if not cut_back and "truncate" not in calls:
            calls.append("truncate")
            raise OSError(errno.EIO, "Input/output error")
        truncate(fd, size)

    monkeypatch.setattr(os, "write", broken_write)
    monkeypatch.setattr(os, "ftruncate", broken_truncate)


@pytest.mark.parametrize("cut_back", [True, False])
def test_a_write_that_fails_half_way_is_cut_off_before_anything_else_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_back: bool
) -> None:
    path = tmp_path / "calls.jsonl"

    async def work(ledger: FileLedger) -> None:
        ledger.append(b'{"a":1}')
        torn_write(monkeypatch, cut_back=cut_back)
        with pytest.raises(LedgerFailed, match="Input/output error"):
            ledger.append(b'{"a":2}')
        assert path.read_bytes() == b'{"a":1}\n' + (b"" if cut_back else b'{"a')
        ledger.append(b'{"a":3}')
        assert path.read_bytes() == b'{"a":1}\n{"a":3}\n'

    use(path, work)


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    keep(tmp_path / "calls.jsonl", b'{"a":1}')
    assert (tmp_path / "calls.jsonl").read_bytes() == b'{"a":1}\n'


class Syncs:
    """Counts calls of fsync, the first `fail_until` of which fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_until: int = 0) -> None:
        self.count = 0
        self.fail_until = fail_until
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, fd: int) -> None:
        self.count += 1
        if self.count <= self.fail_until:
            raise OSError(errno.EIO, "Input/output error")


def test_one_sync_serves_all_who_wait_and_none_is_made_when_nothing_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)

    async def work(ledger: FileLedger) -> None:
        await ledger.sync()
        assert syncs.count == 0
        ledger.append(b"{}")
        await asyncio.gather(*(ledger.sync() for _ in range(20)))
        assert syncs.count == 1
        await ledger.sync()
        assert syncs.count == 1

    use(tmp_path / "calls.jsonl", work)
    assert syncs.count == 1


def test_what_is_appended_while_a_sync_runs_waits_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)

    async def work(ledger: FileLedger) -> None:
        ledger.append(b'{"a":1}')
        first = asyncio.ensure_future(ledger.sync())
        await asyncio.sleep(0)
        ledger.append(b'{"a":2}')
        await ledger.sync()
        assert syncs.count == 2
        await first

    use(tmp_path / "calls.jsonl", work)


def test_what_was_written_is_on_disk_after_a_while_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    monkeypatch.setattr(ledger_module, "SYNC_EVERY", 0.01)

    async def work(ledger: FileLedger) -> None:
        for _ in range(50):
            ledger.append(b"{}")
        async with asyncio.timeout(10):
            while syncs.count == 0:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.03)
        assert syncs.count == 1

    use(tmp_path / "calls.jsonl", work)


def test_a_timer_that_finds_everything_synced_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    monkeypatch.setattr(ledger_module, "SYNC_EVERY", 0.01)

    async def work(ledger: FileLedger) -> None:
        ledger.append(b"{}")
        await ledger.sync()
        await asyncio.sleep(0.05)
        assert syncs.count == 1

    use(tmp_path / "calls.jsonl", work)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_what_a_failed_sync_covered_is_written_again_before_a_sync_claims_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b'{"a":0}\n')
    syncs = Syncs(monkeypatch, fail_until=failures)
    monkeypatch.setattr(ledger_module, "RETRY_FIRST_S", 1000.0)
    pwrite, again = os.pwrite, []

    def watched(fd: int, content: bytes, at: int) -> int:
        again.append((content, at))
        # A short write is continued.
        return pwrite(fd, content[:10], at)

    monkeypatch.setattr(os, "pwrite", watched)

    async def work(ledger: FileLedger) -> None:
        ledger.append(b'{"a":1}')
        for number in range(failures):
            with pytest.raises(LedgerFailed, match="could not be synced: Input/output error") as caught:
                await ledger.sync()
            assert caught.value.status == 503
            assert ledger.trouble is not None
            ledger.append(b'{"b":%d}' % number)
        again.clear()
        await ledger.sync()
        assert ledger.trouble is None
        assert again[0] == (b'{"a":1}\n' + b"".join(b'{"b":%d}\n' % number for number in range(failures)), 8)
        again.clear()
        ledger.append(b'{"c":1}')
        await ledger.sync()
        assert again == []
        assert appends_only(path)

    use(path, work)
    assert syncs.count == failures + 2
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == [
        {"a": 0}, {"a": 1}, *({"b": number} for number in range(failures)), {"c": 1}
    ]  # fmt: skip


def test_a_sync_that_fails_in_the_background_is_made_again_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch, fail_until=3)
    monkeypatch.setattr(ledger_module, "SYNC_EVERY", 0.001)
    monkeypatch.setattr(ledger_module, "RETRY_FIRST_S", 0.001)

    async def work(ledger: FileLedger) -> None:
        ledger.append(b"{}")
        await until(lambda: ledger.trouble is not None)
        await until(lambda: ledger.trouble is None)
        assert syncs.count == 4

    use(tmp_path / "calls.jsonl", work)


def test_a_ledger_that_never_syncs_says_so_at_its_end_and_leaves_its_records_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Syncs(monkeypatch, fail_until=1000)
    kept = CapturingLogger()

    async def main() -> None:
        ledger = FileLedger(tmp_path / "calls.jsonl", a_log(kept))
        ledger.append(b'{"a":1}')
        with pytest.raises(LedgerFailed, match=r"could not be synced.*stand in the log: 1"):
            await ledger.close()

    asyncio.run(main())
    assert told(kept, "record not synced") == ['{"a":1}']
    assert (tmp_path / "calls.jsonl").read_bytes() == b'{"a":1}\n'


def test_while_no_sync_succeeds_only_so_much_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch, fail_until=1)
    monkeypatch.setattr(ledger_module, "HELD_MOST", 3)

    async def work(ledger: FileLedger) -> None:
        ledger.append(b"{}")
        with pytest.raises(LedgerFailed):
            await ledger.sync()
        syncs.fail_until = 1000
        for _ in range(2):
            ledger.append(b"{}")
        with pytest.raises(LedgerFailed, match="too much waits to be synced"):
            ledger.append(b"{}")
        assert ledger.hold(b'{"last":1}', admitted=True)
        syncs.fail_until = 0
        await ledger.sync()

    use(tmp_path / "calls.jsonl", work)
    assert (tmp_path / "calls.jsonl").read_bytes() == b'{}\n{}\n{}\n{"last":1}\n'


# --- what cannot be written waits


class Disk:
    """Takes writes while `full` is False; a write of a full disk gets `room` bytes out first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOSPC, room: int = 0) -> None:
        self.full = False
        self._room, self._number, self._write = room, number, os.write
        self._left = room
        monkeypatch.setattr(os, "write", self)

    def __call__(self, fd: int, content: bytes) -> int:
        if not self.full:
            self._left = self._room
            return self._write(fd, content)
        if self._left == 0:
            self._left = self._room
            raise OSError(self._number, os.strerror(self._number))
        out, self._left = self._left, 0
        return self._write(fd, content[:out])


def appends_only(path: Path) -> bool:
    """Whether the descriptor of this process that is open on `path` writes at its end and nowhere else."""
    (number,) = [
        link.name for link in Path("/proc/self/fd").iterdir() if link.exists() and link.resolve() == path
    ]
    return bool(fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_APPEND)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


def told(kept: CapturingLogger, event: str) -> list[Any]:
    """The records that the log was told with `event`."""
    return [call.kwargs["record"] for call in kept.calls if call.kwargs["event"] == event]


def refused(ledger: FileLedger, line: bytes, *, admitted: bool = True) -> bool:
    """Append a line that cannot be written, and let it wait; whether it does."""
    with pytest.raises(LedgerFailed) as caught:
        ledger.append(line)
    assert caught.value.status == 500
    assert caught.value.code == "ledger_unavailable"
    return ledger.hold(line, admitted=admitted)


@pytest.mark.parametrize("room", [0, 3, 7])
def test_a_record_that_could_not_be_written_is_held_and_written_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    path, disk, kept = tmp_path / "calls.jsonl", Disk(monkeypatch, room=room), CapturingLogger()
    monkeypatch.setattr(ledger_module, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(ledger_module, "RETRY_LAST_S", 0.002)

    async def main() -> None:
        ledger = FileLedger(path, a_log(kept))
        ledger.append(b'{"a":1}')
        disk.full = True
        for number in (2, 3, 4):
            assert refused(ledger, b'{"a":%d}' % number)
        await asyncio.sleep(0.02)
        assert path.read_bytes() == b'{"a":1}\n'
        assert ledger.held == 3
        disk.full = False
        await until(lambda: ledger.trouble is None)
        ledger.append(b'{"a":5}')
        await ledger.close()

    asyncio.run(main())
    assert path.read_bytes() == b"".join(b'{"a":%d}\n' % number for number in range(1, 6))
    assert [call.kwargs["event"] for call in kept.calls] == [
        "the ledger fails, no call is served", *["record waits for the ledger"] * 3, "the ledger is kept again",
    ]  # fmt: skip
    assert told(kept, "record waits for the ledger") == ['{"a":2}', '{"a":3}', '{"a":4}']


def test_the_next_record_brings_those_that_wait_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, disk = tmp_path / "calls.jsonl", Disk(monkeypatch)
    monkeypatch.setattr(ledger_module, "RETRY_FIRST_S", 1000.0)

    async def work(ledger: FileLedger) -> None:
        disk.full = True
        refused(ledger, b'{"a":1}')
        disk.full = False
        ledger.append(b'{"a":2}')
        assert (ledger.held, ledger.trouble) == (0, None)

    use(path, work)
    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n'


def test_of_refused_calls_only_so_many_records_wait_and_the_others_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, disk, kept = tmp_path / "calls.jsonl", Disk(monkeypatch), CapturingLogger()
    monkeypatch.setattr(ledger_module, "HELD_MOST", 2)

    async def main() -> None:
        ledger = FileLedger(path, a_log(kept))
        disk.full = True
        waits = [refused(ledger, b'{"r":%d}' % number, admitted=False) for number in range(4)]
        assert waits == [True, True, False, False]
        assert refused(ledger, b'{"paid":1}')
        disk.full = False
        await ledger.close()

    asyncio.run(main())
    assert path.read_bytes() == b'{"r":0}\n{"r":1}\n{"paid":1}\n'
    assert kept.calls[-1].kwargs == {"event": "the ledger is kept again", "refusals_not_recorded": 2}


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left on device; make room on its disk"),
        (errno.EDQUOT, "Disk quota exceeded; make room in its owner's quota"),
        (errno.EROFS, "Read-only file system; make its file system writable"),
        (errno.EFBIG, "File too large; raise the limit"),
        (errno.EIO, "Input/output error; see to its disk, or restart the bridge with another --ledger"),
    ],
)
def test_trouble_names_the_file_where_it_is_now_what_is_wrong_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    path, disk = tmp_path / "calls.jsonl", Disk(monkeypatch, number)

    async def work(ledger: FileLedger) -> None:
        path.rename(tmp_path / "moved.jsonl")
        disk.full = True
        refused(ledger, b"{}")
        assert ledger.trouble is not None
        refusal = ledger.trouble.refusal()
        assert (refusal.status, refusal.code, refusal.headers) == (
            503, "ledger_unavailable", ((b"retry-after", b"1"),)
        )  # fmt: skip
        assert f"the ledger '{tmp_path}/moved.jsonl' cannot be written: {words}" in refusal.message
        disk.full = False

    use(path, work)


def test_records_that_cannot_be_written_to_the_end_stand_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, kept = Disk(monkeypatch), CapturingLogger()

    async def main() -> None:
        ledger = FileLedger(tmp_path / "calls.jsonl", a_log(kept))
        disk.full = True
        refused(ledger, b'{"a":1}')
        with pytest.raises(LedgerFailed, match=r"No space left.*stand in the log: 1"):
            await ledger.close()
        assert told(kept, "record not in the ledger") == ['{"a":1}']
        # A call that ends later still.
        refused(ledger, b'{"a":2}', admitted=False)
        assert told(kept, "record waits for the ledger")[-1] == '{"a":2}'

    asyncio.run(main())


def test_trouble_that_left_no_record_behind_is_over_when_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    monkeypatch.setattr(ledger_module, "RETRY_FIRST_S", 0.001)

    async def work(ledger: FileLedger) -> None:
        disk.full = True
        with pytest.raises(LedgerFailed):
            ledger.append(b"{}")
        await until(lambda: ledger.trouble is None)
        disk.full = False

    use(tmp_path / "calls.jsonl", work)


def test_a_sync_that_nobody_waits_for_any_more_goes_on_for_the_others(tmp_path: Path) -> None:
    async def work(ledger: FileLedger) -> None:
        ledger.append(b"{}")
        leaves, stays = asyncio.ensure_future(ledger.sync()), asyncio.ensure_future(ledger.sync())
        await asyncio.sleep(0)
        leaves.cancel()
        await stays
        assert leaves.cancelled() or leaves.done()

    use(tmp_path / "calls.jsonl", work)


def test_after_closing_nothing_is_written_anywhere(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = FileLedger(tmp_path / "calls.jsonl")
        await ledger.close()
        # The next file gets the number that the ledger's had.
        with (tmp_path / "other").open("wb") as other:
            with pytest.raises(LedgerFailed):
                ledger.append(b"{}")
            assert other.tell() == 0
        assert (tmp_path / "other").read_bytes() == b""

    asyncio.run(main())


def test_no_ledger_keeps_nothing_and_never_fails() -> None:
    async def main() -> None:
        ledger = NoLedger()
        ledger.append(b"{}")
        assert ledger.hold(b"{}", admitted=True)
        assert (ledger.held, ledger.trouble) == (0, None)
        await ledger.sync()
        await ledger.close()

    asyncio.run(main())
