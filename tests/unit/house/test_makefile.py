"""The Makefile and .ci/run: `make` lists every target, and CI runs what CONTRIBUTING.md says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = (ROOT / "Makefile").read_text()
INTERNAL = {"check-python"}

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="this machine has no make")


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    # What a surrounding make hands down would reach this one too.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_make_alone_lists_every_target_with_what_it_does() -> None:
    listed = dict(re.findall(r"^  make (\S+) +(.+)$", make().stdout, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE))
    assert set(listed) == phony - INTERNAL
    assert make("help").stdout == make().stdout


def test_every_script_and_folder_that_a_target_names_is_there() -> None:
    named = set(re.findall(r"\b(?:scripts|tests|configs)/[\w./-]+", MAKEFILE))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_what_ci_runs_is_what_make_all_runs() -> None:
    (steps,) = re.findall(r"^for step in (.+); do$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    (together,) = re.findall(r"^all: (.+) ## ", MAKEFILE, re.MULTILINE)
    assert steps == together
    assert steps.split()[-1] == "test", "the closing line of the tests comes last"


def test_an_interpreter_that_is_too_old_is_named_before_anything_is_installed(tmp_path: Path) -> None:
    old = tmp_path / "python2.7"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path)
    done = make(f"PYTHON={old}", "setup", folder=tmp_path)
    assert done.returncode != 0
    assert f"{old} is not Python 3.11 or newer; name another: make PYTHON=python3.12" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_ci_says_which_step_failed_and_goes_on_to_the_tests(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "Makefile").write_text("lint:\n\t@exit 3\n%:\n\t@echo ran $@\n")
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "ran test"
    assert "ci: failed: lint" in done.stderr


def test_a_set_up_that_fails_ends_ci_at_once(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "Makefile").write_text("setup:\n\t@exit 1\n")
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 1
    assert "ci: the set-up failed" in done.stderr
