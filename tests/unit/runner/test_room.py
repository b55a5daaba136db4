from __future__ import annotations

import subprocess
import sys

import pytest

from osmosis_runner.room import Room

SHORT = """
import resource, sys
from osmosis_runner.room import Room
resource.setrlimit(resource.RLIMIT_NOFILE, (64, int(sys.argv[1])))
print(Room(None, 5000).shortage(int(sys.argv[2])))
"""


@pytest.mark.parametrize(
    ("room", "most", "connections", "calls"),
    [
        (Room(4, 100), 4, 1000, 1000),
        (Room(5000, 100), 100, 1000, 1000),
        (Room(2000, 9000), 2000, 4320, 4000),
        (Room(None, 3), 3, 1000, 1000),
        (Room(None, 10**6), 10_000, 20_320, 20_000),
        (Room(10**7, 10**7), 10**7, 2 * 10**7 + 320, 10**6),
        (Room(8, 0), 1, 1000, 1000),
    ],
)
def test_there_is_room_for_all_that_may_be_in_flight(
    room: Room, most: int, connections: int, calls: int
) -> None:
    assert (room.most, room.connections, room.calls) == (most, connections, calls)


def short(hard: int, places: int) -> str:
    arguments = [sys.executable, "-c", SHORT, str(hard), str(places)]
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip()


def test_what_does_not_fit_is_told_with_what_would_and_what_to_type() -> None:
    said = short(1024, 1000)
    assert said.startswith(
        "1,000 rollouts in flight: 4,128 open files may be wanted, and this process may have 1,024; "
        "run with --max-in-flight 224, or allow more first: sudo prlimit --pid $$ --nofile=4128 "
    )
    assert short(1024, 224) == "None"
    assert short(1024, 225) != "None"
