from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from osmosis_runner.child import Child, Command, Nursery, until
from runner_fakes import until_true


def python(code: str) -> Command:
    return Command([sys.executable, "-c", code], Path("/"), dict(os.environ), "the child")


def with_child(code: str, check: Callable[[Child, list[str]], Awaitable[None]]) -> None:
    async def main() -> None:
        lines: list[str] = []
        child = Child(python(code), lines.extend)
        try:
            await check(child, lines)
        finally:
            await child.kill()

    asyncio.run(main())


def test_output_is_told_line_by_line_and_the_exit_described() -> None:
    async def check(child: Child, lines: list[str]) -> None:
        await child.exited.wait()
        await child.kill()
        assert lines == ["one", "two", "last words"]
        assert child.returncode == 3
        assert child.describe_exit() == "the child exited with code 3; its last output: last words"

    with_child(
        "import sys; print('one'); print('two', flush=True); sys.stderr.write('last words'); sys.exit(3)",
        check,
    )


def test_a_line_of_megabytes_does_not_block_the_child() -> None:
    async def check(child: Child, lines: list[str]) -> None:
        async with asyncio.timeout(9):
            await child.exited.wait()
        await child.kill()
        assert child.returncode == 0
        assert lines[-1] == "end"
        assert all(len(line) < 10_000 for line in lines)

    with_child("print('x' * 5_000_000); print('end')", check)


def test_a_death_by_signal_is_named() -> None:
    async def check(child: Child, lines: list[str]) -> None:
        await until_true(lambda: lines)
        os.kill(child.pid, signal.SIGKILL)
        await child.exited.wait()
        assert child.describe_exit().startswith("the child was killed by SIGKILL")

    with_child("import time; print('up', flush=True); time.sleep(60)", check)


def test_a_child_may_clean_up_within_its_grace_and_not_beyond() -> None:
    tidy = "import signal,sys,time; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); time.sleep(60)"
    deaf = "import signal,time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"

    async def stopped(child: Child, lines: list[str], grace: float) -> int | None:
        await until_true(lambda: lines)
        await child.stop(grace)
        return child.returncode

    async def check_tidy(child: Child, lines: list[str]) -> None:
        assert await stopped(child, lines, 9) == 7

    async def check_deaf(child: Child, lines: list[str]) -> None:
        assert await stopped(child, lines, 0.05) == -9

    with_child(tidy, check_tidy)
    with_child(deaf, check_deaf)


def test_everything_in_its_group_dies_with_it() -> None:
    code = "import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True)"

    async def check(child: Child, lines: list[str]) -> None:
        await child.exited.wait()
        pid = int(lines[0])
        await until_true(lambda: not alive(pid))

    with_child(code, check)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_grandchild_that_holds_the_output_open_is_not_waited_for() -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '5'], start_new_session=True); print('bye', flush=True)"

    async def check(child: Child, lines: list[str]) -> None:
        began = time.monotonic()
        await child.exited.wait()
        await child.kill()
        assert time.monotonic() - began < 4
        assert lines == ["bye"]

    with_child(code, check)


def test_a_command_that_is_not_there_is_an_os_error() -> None:
    async def main() -> None:
        Child(Command(["/no/such/program"], Path("/"), {}, "x"), lambda lines: None)

    with pytest.raises(OSError, match="No such file"):
        asyncio.run(main())


def test_a_variable_that_no_process_can_have_is_an_os_error_too() -> None:
    async def main() -> None:
        Child(Command(["true"], Path("/"), {"A": "b\0c"}, "x"), lambda lines: None)

    with pytest.raises(OSError, match="null byte"):
        asyncio.run(main())


def test_waiting_ends_when_it_is_ready_dead_or_late() -> None:
    async def check(child: Child, lines: list[str]) -> None:
        assert await until(child, lambda: bool(lines), 9)
        with pytest.raises(TimeoutError):
            await until(child, lambda: False, 0.03)
        await child.kill()
        assert not await until(child, lambda: False, 9)

    with_child("import time; print('up', flush=True); time.sleep(60)", check)


def test_a_nursery_knows_its_children_from_orphans() -> None:
    async def main() -> None:
        nursery = Nursery()
        child = nursery.start(python("import time; time.sleep(60)"), lambda lines: None)
        stranger = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
        assert nursery.strangers() == [stranger]
        assert nursery.end_strangers() == 1
        assert nursery.strangers() == []
        assert not child.exited.is_set()
        await child.kill()

    asyncio.run(main())
