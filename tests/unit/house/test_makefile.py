"""The Makefile and .ci/run: `make` lists every target, and CI runs what CONTRIBUTING.md says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
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
    found = re.findall(r"^steps ([a-z -]+?)(?: >.*)?$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    (together,) = re.findall(r"^all: (.+) ## ", MAKEFILE, re.MULTILINE)
    assert sorted(" ".join(found).split()) == sorted(together.split())
    assert found[-1] == "test", "the closing line of the tests comes last"


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


def ci(folder: Path, makefile: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` in a folder whose Makefile is this one."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    (folder / "Makefile").write_text(makefile)
    return subprocess.run(
        ["bash", ".ci/run"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )


def test_ci_says_which_steps_failed_and_goes_on_to_the_tests(tmp_path: Path) -> None:
    done = ci(tmp_path, "lint types:\n\t@exit 3\n%:\n\t@echo ran $@\n")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "ran test"
    assert "ci: failed: lint types" in done.stderr


def test_ci_shows_what_ran_beside_another_step_in_one_piece(tmp_path: Path) -> None:
    # Each of the two waits until the other has begun.
    met = "@touch $@-began; until [ -e {}-began ]; do sleep 0.01; done; echo ran $@"
    done = ci(
        tmp_path,
        f"types:\n\t{met.format('interop')}\ninterop:\n\t{met.format('types')}\n%:\n\t@echo ran $@\n",
    )
    assert done.returncode == 0, done.stderr
    told = [line.removeprefix("ran ") for line in done.stdout.splitlines() if line.startswith("ran ")]
    assert told == [
        *("setup", "lint", "imports", "gates", "interop", "types", "docker-check", "frameworks", "test"),
    ]


def test_who_interrupts_ci_ends_what_runs_beside_as_well(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    waiting = "types:\n\t@echo $$$$ > types-began; exec sleep 60\n"
    interop = (
        "interop:\n\t@until [ -s types-began ]; do sleep 0.01; done; kill -TERM `cat ci-began`; sleep 1\n"
    )
    (tmp_path / "Makefile").write_text(f"{waiting}{interop}%:\n\t@true\n")
    done = subprocess.run(
        ["bash", "-c", "echo $$ > ci-began; exec bash .ci/run"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == -signal.SIGTERM
    pid = int((tmp_path / "types-began").read_text())
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "what ran beside goes on"
        time.sleep(0.02)


def test_a_set_up_that_fails_ends_ci_at_once(tmp_path: Path) -> None:
    done = ci(tmp_path, "setup:\n\t@exit 1\n")
    assert done.returncode == 1
    assert "ci: the set-up failed" in done.stderr
