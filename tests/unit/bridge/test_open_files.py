from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from osmosis_bridge.open_files import OpenFiles, for_connections, raise_open_files

PROGRAM = """
import resource, sys
from osmosis_bridge.open_files import raise_open_files
soft, hard, wanted = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
files = raise_open_files(wanted)
print(files.allowed, files.short, resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("limits", "wanted", "told"),
    [
        ((64, 256), 128, "128 False (128, 256)"),
        ((64, 256), 256, "256 False (256, 256)"),
        ((64, 256), 9999, "256 True (256, 256)"),
        ((64, 256), 32, "64 False (64, 256)"),
    ],
)
def test_a_limit_is_raised_to_what_is_wanted_within_the_systems_and_never_lowered(
    limits: tuple[int, int], wanted: int, told: str
) -> None:
    arguments = [str(number) for number in (*limits, wanted)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == told


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells")
@pytest.mark.parametrize(("limit", "wanted", "room"), [(4096, 4000, 4096), (2048, 4000, 2048)])
def test_room_for_them_is_made_at_once(limit: int, wanted: int, room: int) -> None:
    shown = 'print(open("/proc/self/status").read().partition("FDSize:")[2].split()[0])'
    arguments = [str(number) for number in (limit, limit, wanted)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + shown, *arguments], capture_output=True, text=True, check=True
    )
    assert int(done.stdout.split()[-1]) >= room


def test_without_a_limit_nothing_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    files = raise_open_files(10**9)
    assert files == OpenFiles(10**9, None)
    assert not files.short


def test_a_shortage_is_told_with_what_to_type() -> None:
    files = OpenFiles(for_connections(1000), 1024)
    assert files.short
    assert files.shortage == "2,128 open files may be wanted, and this process may have 1,024"
    assert files.remedy.startswith("sudo prlimit --pid $$ --nofile=2128 ")
