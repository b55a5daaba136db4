"""A server process of our own, from its owner's side; the process is a module written for the test."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from osmosis_bridge.owned_process import NotStarted, OwnedProcess, start_owned

ECHOES = """
from osmosis_bridge.owned_server import meet_owner
import json, sys, threading
answers, line = meet_owner()
print("to stdout, which is not for the owner")
print("1.2 E the reason", file=sys.stderr)
print("a last line", file=sys.stderr, flush=True)
answers.write(json.dumps({"url": json.loads(line)["say"]}) + "\\n")
answers.flush()
threading.Event().wait()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), *([p] if (p := os.environ.get("PYTHONPATH")) else [])])
    )
    (tmp_path / "a_server_of_ours.py").write_text(ECHOES, encoding="utf-8")
    return tmp_path


def test_it_is_told_what_to_serve_and_answers_with_its_address(module: Path) -> None:
    async def main() -> None:
        process = OwnedProcess(re.compile(r"[\d.]+ E \s*(.+)"))
        url = await start_owned(process, "a_server_of_ours", {"say": "http://x"}, os.environ, 20)
        assert url == "http://x"
        assert process.pid > 0
        assert process.end_reason() is None
        await process.stop()
        await process.stop()
        assert process.ended.done()
        assert process.end_reason() == "exit code 0: the reason"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import sys\nsys.exit('out of luck')", "out of luck"),
        ("raise SystemExit(3)", "exit code 3"),
        ("", "exit code 0"),
    ],
)
def test_one_that_ends_before_it_answers_says_why(module: Path, source: str, reason: str) -> None:
    (module / "a_server_of_ours.py").write_text(source, encoding="utf-8")

    async def main() -> None:
        await start_owned(OwnedProcess(), "a_server_of_ours", {}, os.environ, 20)

    with pytest.raises(NotStarted, match=reason):
        asyncio.run(main())


def test_one_that_is_silent_is_ended(module: Path) -> None:
    (module / "a_server_of_ours.py").write_text("import time\ntime.sleep(60)", encoding="utf-8")

    async def main() -> OwnedProcess:
        process = OwnedProcess(stop_s=0.1)
        with pytest.raises(NotStarted, match="did not start within"):
            await start_owned(process, "a_server_of_ours", {}, os.environ, 0.5)
        return process

    assert asyncio.run(main()).exit_code == -9
