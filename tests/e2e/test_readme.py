"""The README does what it says: its example runs, its commands and flags exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from mock_provider import MockProvider
from rollouts_under_test import make_workspace, row

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def commands(program: str) -> list[list[str]]:
    """Every command line of a program in the blocks of all pages, without its comment."""
    lines = [
        line
        for page in PAGES
        for kind in ("", "console", "sh")
        for text in blocks(page, kind)
        for line in text.splitlines()
    ]
    start = re.compile(rf"^(?:\$ )?(?:\S*bin/)?{program} ")
    plain = {line.removeprefix("$ ").split(" #")[0].strip() for line in lines if start.match(line)}
    return [shlex.split(line) for line in sorted(plain)]


@cache
def help_of(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "osmosis_cli", *words, "--help"], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def test_the_agent_of_the_readme_passes_a_row_and_fails_another(tmp_path: Path) -> None:
    (main,) = blocks(ROOT / "README.md", "python")
    with MockProvider() as provider:
        workspace = make_workspace(tmp_path, provider.url, [row("56"), row("56") | {"ground_truth": "57"}])
        (tmp_path / "rollouts/t/main.py").write_text(main)
        outcome = workspace.run()
    assert (outcome.ended, outcome.failed) == ("complete", 0)
    assert [record["reward"] for record in sorted(workspace.records(), key=lambda one: one["row_index"])] == [
        1.0,
        0.0,
    ]
    assert all(record["tokens"] > 0 for record in workspace.records())


@pytest.mark.parametrize("line", commands("make"), ids=" ".join)
def test_every_target_that_a_page_shows_exists(line: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {word for word in line[1:] if "=" not in word} <= set(targets)


@pytest.mark.parametrize("line", commands("osmosis"), ids=" ".join)
def test_every_command_and_flag_that_a_page_shows_exists(line: list[str]) -> None:
    words = [word for word in line[1:3] if re.fullmatch("[a-z]+", word)]
    assert len(words) == len(line[1:3])
    shown = help_of(*words)
    assert shown, f"osmosis {' '.join(words)} is no command"
    assert [word for word in line if word.startswith("--") and not re.search(rf"{word}\b", shown)] == []
