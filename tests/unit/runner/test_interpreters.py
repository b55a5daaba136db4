from __future__ import annotations

from pathlib import Path

from osmosis_runner.interpreters import Interpreter, complaint, read_list, search_path


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
