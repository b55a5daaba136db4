"""The commands of the page on conformance do what it says when they are typed as they are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mini_proxy import free_port

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
A_FEW = ("F26*", "F5-*", "C-*bearer*", "E1-*ledger", "E-messages-*")
"""Cases on the model's name and on bearers, which depend on how the bridge was started."""


def blocks() -> list[str]:
    """What the page prints to be typed."""
    return [text for text in PAGE.read_text("utf-8").split("```\n")[1::2] if "bridge conformance" in text]


def typed(block: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The block in a fresh shell, on ports of its own, with a few cases for all."""
    served, upstream = str(free_port()), str(free_port())
    ours = (
        block.replace("bridge serve ", f"bridge serve --port {served} ")
        .replace("8400", served)
        .replace("8401", upstream)
        .replace("--target", " ".join([*(f"--only '{one}'" for one in A_FEW), "--target"]))
    )
    script = f"trap 'kill $(jobs -p) 2>/dev/null' EXIT\nset -e\n{ours}"
    environ = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip


def test_without_a_bearer_nothing_fails_and_the_cases_that_want_one_are_skipped(tmp_path: Path) -> None:
    done = typed(blocks()[0], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stderr + done.stdout
    assert "needs the proxy's bearer; start the proxy with one" in done.stderr + done.stdout


def test_with_a_bearer_and_a_ledger_nothing_fails_or_is_skipped(tmp_path: Path) -> None:
    done = typed(blocks()[1], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed, 0 skipped" in done.stderr + done.stdout


def test_these_are_all_the_commands_of_the_page() -> None:
    assert len(blocks()) == 2
