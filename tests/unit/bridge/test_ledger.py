"""The ledger's promises, each held by a test of the same name."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

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
    """Counts calls of fsync, which may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_at: int | None = None) -> None:
        self.count = 0
        self.fail_at = fail_at
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, fd: int) -> None:
        self.count += 1
        if self.count == self.fail_at:
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


def test_a_sync_that_failed_is_never_followed_by_one_that_claims_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch, fail_at=1)

    async def main() -> None:
        ledger = FileLedger(tmp_path / "calls.jsonl")
        ledger.append(b"{}")
        for _ in range(2):
            with pytest.raises(LedgerFailed, match="could not be synced: Input/output error"):
                await ledger.sync()
        with pytest.raises(LedgerFailed, match="could not be synced"):
            await ledger.close()
        assert syncs.count == 1

    asyncio.run(main())


def test_a_failure_in_the_background_is_told_to_whoever_syncs_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch, fail_at=1)
    monkeypatch.setattr(ledger_module, "SYNC_EVERY", 0.001)

    async def main() -> None:
        ledger = FileLedger(tmp_path / "calls.jsonl")
        ledger.append(b"{}")
        async with asyncio.timeout(10):
            while syncs.count == 0:
                await asyncio.sleep(0.005)
        ledger.append(b"{}")
        with pytest.raises(LedgerFailed, match="could not be synced"):
            await ledger.close()

    asyncio.run(main())


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
        await ledger.sync()
        await ledger.close()

    asyncio.run(main())
