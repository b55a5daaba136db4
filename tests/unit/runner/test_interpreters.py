from __future__ import annotations

import sys
from pathlib import Path

import pytest

from osmosis_runner.faults import LaunchError
from osmosis_runner.interpreters import (
    Asker,
    Interpreter,
    Silent,
    complaint,
    find_interpreter,
    read_list,
    search_path,
    survey,
)


def installed(folder: Path) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").touch()
    return str(folder / "bin")


def test_interpreters_of_version_managers_stand_behind_the_path_newest_first(tmp_path: Path) -> None:
    old = installed(tmp_path / ".pyenv" / "versions" / "3.9.18")
    new = installed(tmp_path / ".pyenv" / "versions" / "3.13.0")
    asdf = installed(tmp_path / ".asdf" / "installs" / "python" / "3.12.1")
    mise = installed(tmp_path / ".local" / "share" / "mise" / "installs" / "python" / "3.14.0")
    (tmp_path / ".pyenv" / "versions" / "broken").mkdir()
    installed(tmp_path / ".pyenv" / "versions" / "an-environment")
    (tmp_path / ".pyenv" / "versions" / "an-environment" / "pyvenv.cfg").touch()
    environ = {"PATH": "/shims:/usr/bin", "HOME": str(tmp_path)}
    assert search_path(environ, "/own").split(":") == [
        *("/shims", "/usr/bin"),
        *(new, old),
        asdf,
        mise,
        "/own/bin",
    ]


def test_a_manager_may_keep_them_where_it_likes(tmp_path: Path) -> None:
    pyenv = installed(tmp_path / "p" / "versions" / "3.12.1")
    mise = installed(tmp_path / "x" / "mise" / "installs" / "python" / "3.13.0")
    environ = {"PYENV_ROOT": str(tmp_path / "p"), "XDG_DATA_HOME": str(tmp_path / "x")}
    assert search_path(environ, "/own").split(":") == [pyenv, mise, "/own/bin"]


def test_a_folder_that_is_on_the_path_already_is_not_named_twice() -> None:
    assert search_path({"PATH": "/usr/bin:/own/bin:/usr/bin"}, "/own") == "/usr/bin:/own/bin"


def test_the_list_is_read_a_version_once() -> None:
    lines = [
        "warning: Failed to inspect Python interpreter",
        "cpython-3.13.0-linux-x86_64-gnu    /a/python3.13",
        "cpython-3.13.0-linux-x86_64-gnu    /a/python3 -> python3.13",
        "cpython-3.14.0rc1+freethreaded-linux-x86_64-gnu    /b/python3.14t",
        "pypy-3.10.14-linux-x86_64-gnu      /c/my python/pypy3 -> pypy",
        "cpython-3.15.0-linux-x86_64-gnu    <download available>",
    ]
    assert read_list(lines) == [
        Interpreter("3.13.0", "/a/python3.13"),
        Interpreter("3.14.0rc1", "/b/python3.14t"),
        Interpreter("3.10.14", "/c/my python/pypy3"),
    ]


def test_the_complaint_says_what_was_wanted_what_there_is_and_what_to_do() -> None:
    found = [Interpreter(f"3.{minor}.0", f"/p{minor}") for minor in range(8)]
    said = complaint(">=3.99", found)
    assert "no Python >=3.99 is installed (found: 3.0.0 (/p0), 3.1.0 (/p1)," in said
    assert "and 2 more" in said
    assert "UV_PYTHON_DOWNLOADS=automatic" in said
    assert "none was found at all" in complaint(">=3.99", [])


def program(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A machine whose version manager keeps 3.12.1 and 3.13.0, with stand-ins on PATH that fail."""
    for version in ("3.12.1", "3.13.0"):
        program(tmp_path / ".pyenv" / "versions" / version / "bin" / "python3", f"echo {version}")
    program(tmp_path / "shims" / "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    program(tmp_path / "shims" / "tool", "echo 3.12.1")
    return {"PATH": str(tmp_path / "shims"), "HOME": str(tmp_path), "SECRET_KEY": "canary"}


@pytest.mark.parametrize("asked", ["3.12", "3.12.1", "python3.12", "cpython-3.12", "Python3.12"])
def test_a_version_is_found_where_a_version_manager_keeps_it_and_a_stand_in_is_passed_over(
    machine: dict[str, str], tmp_path: Path, asked: str
) -> None:
    found = find_interpreter(asked, Asker(machine, own=str(tmp_path / "none")))
    assert found == str(tmp_path / ".pyenv/versions/3.12.1/bin/python3")


def test_our_own_interpreter_is_taken_where_it_suits(machine: dict[str, str], tmp_path: Path) -> None:
    own = program(tmp_path / "own" / "python", "echo 3.12.9")
    assert find_interpreter("3", Asker(machine, own=own)) == own
    assert find_interpreter("3.12", Asker(machine, own=own)) == own
    assert find_interpreter("3.13", Asker(machine, own=own)).endswith("3.13.0/bin/python3")
    major, minor = sys.version_info[:2]
    assert find_interpreter(f"{major}.{minor}", Asker({"PATH": ""})) == sys.executable


def test_a_version_that_is_not_there_is_told_with_those_that_are(
    machine: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(
        LaunchError, match=r"no Python 3\.1 is installed \(found: 3\.13\.0 \(.*, 3\.12\.1 \("
    ) as caught:
        find_interpreter("3.1", Asker(machine, own=str(tmp_path / "none")))
    assert "give another's path" in str(caught.value)


def test_a_path_or_a_program_is_taken_as_it_is(
    machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_interpreter("shims/tool", Asker(machine)) == str(tmp_path / "shims" / "tool")
    assert find_interpreter("tool", Asker(machine)) == str(tmp_path / "shims" / "tool")
    (tmp_path / "plain").touch()
    for asked, why in (
        ("./nothing", "does not exist"),
        ("./shims", "is a folder"),
        ("./plain", "may not be executed"),
        ("pypy99", "no such program on PATH"),
    ):
        with pytest.raises(LaunchError, match=why):
            find_interpreter(asked, Asker(machine))


def test_of_programs_of_one_name_the_first_that_answers_is_taken(
    machine: dict[str, str], tmp_path: Path
) -> None:
    program(tmp_path / "shims" / "pypy3", "echo 'mise: no version is set' >&2; exit 1")
    second = program(tmp_path / "second" / "pypy3", "echo 3.10.14")
    both = {**machine, "PATH": f"{tmp_path}/shims:{tmp_path}/second"}
    assert find_interpreter("pypy3", Asker(both)) == second
    Path(second).write_text("neither a script nor a program")
    with pytest.raises(LaunchError) as caught:
        find_interpreter("pypy3", Asker(both))
    assert f"{tmp_path}/shims/pypy3 (exit code 1: mise: no version is set)" in str(caught.value)
    assert f"{second} (Exec format error)" in str(caught.value)


def test_a_path_that_does_not_answer_is_told_before_it_is_run(
    machine: dict[str, str], tmp_path: Path
) -> None:
    shim = tmp_path / "shims" / "python3.12"
    with pytest.raises(
        LaunchError, match=r"does not answer as a Python does \(exit code 127: pyenv: python3"
    ):
        find_interpreter(str(shim), Asker(machine))


def test_what_was_asked_in_vain_is_told_where_it_might_have_been_the_one(
    machine: dict[str, str], tmp_path: Path
) -> None:
    asker = Asker(machine, own=str(tmp_path / "none"))
    program(tmp_path / "shims" / "python3.98", "exit 3")
    with pytest.raises(LaunchError) as caught:
        find_interpreter("3.98", asker)
    assert f"asked in vain: {tmp_path}/shims/python3.98 (exit code 3))" in str(caught.value)
    assert "python3.12 (" not in str(caught.value)
    found = survey("3.12", asker)
    assert [interpreter.version for interpreter in found.suiting] == ["3.12.1"]
    assert [silent.why for silent in found.silent] == ["exit code 127: pyenv: python3.12: command not found"]
    assert len(survey(None, asker).silent) == 3
    assert [found.version for found in survey(None, asker).suiting][:2] == ["3.13.0", "3.12.1"]


def test_programs_are_asked_where_the_rollout_will_run_them(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / ".python-version").write_text("3.12.1")
    program(tmp_path / "shims" / "python3", "test -f .python-version && cat .python-version && echo")
    environ = {"PATH": f"{tmp_path}/shims:/bin"}
    assert Asker(environ, tmp_path / "r").answer(f"{tmp_path}/shims/python3") == Interpreter(
        "3.12.1", f"{tmp_path}/shims/python3"
    )
    assert isinstance(Asker(environ, tmp_path).answer(f"{tmp_path}/shims/python3"), Silent)


def test_an_interpreter_that_is_asked_sees_no_secret_and_may_not_hang(
    machine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    own = program(tmp_path / "own" / "python", f"env > {seen}; echo 3.12.9")
    assert find_interpreter("3.12", Asker(machine, own=own)) == own
    assert "canary" not in seen.read_text()
    monkeypatch.setattr("osmosis_runner.interpreters.ANSWERS_WITHIN_S", 0.2)
    slow = program(tmp_path / "slow" / "python", "exec sleep 30")
    assert find_interpreter("3.13", Asker(machine, own=slow)).endswith("3.13.0/bin/python3")
