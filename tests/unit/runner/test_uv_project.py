from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from osmosis_runner import uv_project
from osmosis_runner.child import Nursery
from osmosis_runner.faults import LaunchError
from osmosis_runner.uv_project import (
    Project,
    find_uv,
    reason,
    run_command,
    run_environ,
    sync_project,
    wanted,
)

PROJECT = '[project]\nname = "p"\nversion = "0"\nrequires-python = ">=3.99"\n'


def test_uv_that_is_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("osmosis_runner.uv_project.sysconfig.get_path", lambda _name: str(tmp_path))
    monkeypatch.setattr("osmosis_runner.uv_project.shutil.which", lambda _name: None)
    with pytest.raises(LaunchError, match="pip install uv"):
        find_uv()
    (tmp_path / "uv").touch()
    assert find_uv() == str(tmp_path / "uv")


def test_an_interpreter_that_was_asked_for_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv_project, "find_uv", lambda: "uv")
    command = run_command(Project(Path("/p"), {}), "m.py")
    assert " ".join(command) == "uv run --no-sync --project . python m.py"
    assert "--python 3.13" in " ".join(run_command(Project(Path("/p"), {}, "3.13"), "m.py"))


def test_an_interpreter_is_downloaded_only_where_the_user_says_so() -> None:
    assert run_environ({"UV_OFFLINE": "1", "UV_PUBLISH_TOKEN": "t"}) == {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_OFFLINE": "1",
    }


class FakeUv:
    """A uv whose subcommands say and end as a test wants; keeps what it was asked and what it saw."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **answers: tuple[str, int]) -> None:
        self.asked = folder / "asked"
        branches = "\n".join(
            f'  "{words.replace("_", " ")}"*) printf "%s\\n" "{said}"; exit {status};;'
            for words, (said, status) in answers.items()
        )
        path = folder / "uv"
        path.write_text(
            f'#!/bin/sh\necho "$* $UV_PYTHON_DOWNLOADS $PATH" >> "{self.asked}"\ncase "$*" in\n{branches}\nesac\n'
        )
        path.chmod(0o755)
        monkeypatch.setattr(uv_project, "find_uv", lambda: str(path))

    def calls(self) -> list[str]:
        return self.asked.read_text().splitlines()


def sync(folder: Path, environ: dict[str, str] | None = None, python: str | None = None) -> list[str]:
    said: list[str] = []
    project = Project(folder, environ or {"PATH": "/usr/bin:/bin"}, python)
    asyncio.run(sync_project(project, Nursery(), said.extend))
    return said


def test_an_environment_is_made_with_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = FakeUv(tmp_path, monkeypatch, sync=("Resolved 2 packages", 0))
    assert sync(tmp_path, {"PATH": "/usr/bin:/bin"}, "3.12") == ["Resolved 2 packages"]
    (call,) = uv.calls()
    assert call.startswith("sync --python 3.12 --project . never /usr/bin:/bin:")
    assert call.endswith(f"{sys.base_prefix}/bin")


def test_a_download_that_the_user_allows_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = FakeUv(tmp_path, monkeypatch, sync=("", 0))
    sync(tmp_path, {"PATH": "/bin", "UV_PYTHON_DOWNLOADS": "automatic"})
    assert " automatic " in uv.calls()[0]


def test_an_interpreter_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    listed = (
        "warning: Failed to inspect\ncpython-3.13.0-linux-x86_64-gnu    /opt/py/bin/python3.13 -> python3.13"
    )
    FakeUv(
        tmp_path,
        monkeypatch,
        sync=("error: No interpreter", 2),
        python_find=("error", 2),
        python_list=(listed, 0),
    )
    with pytest.raises(LaunchError) as caught:
        sync(tmp_path)
    said = caught.value.message
    assert "no Python >=3.99 (requires-python in pyproject.toml) is installed" in said
    assert "found: 3.13.0 (/opt/py/bin/python3.13)" in said
    assert "--python" in said


def test_an_environment_that_cannot_be_made_is_explained_in_uvs_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    said = "Using CPython\nerror: No solution found\n  cause: Because zzz was not found"
    FakeUv(tmp_path, monkeypatch, sync=(said, 1), python_find=("/opt/py/bin/python3.13", 0))
    with pytest.raises(LaunchError, match="could not be made: No solution found cause: Because zzz was not"):
        sync(tmp_path)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A program first on PATH that is called like the interpreter running us, and fails."""
    path = tmp_path / "shims" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho 'shim: not switched on' >&2\nexit 127\n")
    path.chmod(0o755)
    return path


VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_where_uv_gives_up_at_a_stand_in_the_next_interpreter_that_answers_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: Path
) -> None:
    uv = FakeUv(
        tmp_path,
        monkeypatch,
        **{
            f"sync --python {VERSION} --": ("error: Failed to inspect", 2),
            "python find": ("error", 2),
            "sync --python /": ("", 0),
        },
    )
    said = sync(tmp_path, {"PATH": f"{stand_in.parent}:/usr/bin"}, VERSION)
    assert f"asked in vain: {stand_in} (exit code 127: shim: not switched on)" in said[-1]
    assert uv.calls()[-1].startswith(f"sync --python {sys.executable} --project .")


def test_where_none_will_do_it_is_told_which_were_asked_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: Path
) -> None:
    unsuitable = "error: The interpreter is incompatible with the project requirement"
    FakeUv(tmp_path, monkeypatch, sync=(unsuitable, 2), python_find=("error", 2), python_list=("", 0))
    with pytest.raises(LaunchError) as caught:
        sync(tmp_path, {"PATH": str(stand_in.parent)})
    assert f"asked in vain: {stand_in} (exit code 127: shim: not switched on)" in str(caught.value)


def test_an_environment_that_fails_with_the_next_interpreter_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: Path
) -> None:
    FakeUv(tmp_path, monkeypatch, sync=("error: zzz was not found", 2), python_find=("error", 2))
    with pytest.raises(LaunchError, match=r"could not be made with .*: zzz was not found"):
        sync(tmp_path, {"PATH": str(stand_in.parent)}, VERSION)


def test_uv_that_cannot_be_started_or_does_not_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uv_project, "find_uv", lambda: str(tmp_path / "nothing"))
    with pytest.raises(LaunchError, match="uv sync could not be started"):
        sync(tmp_path)
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\nsleep 60\n")
    uv.chmod(0o755)
    monkeypatch.setattr(uv_project, "find_uv", lambda: str(uv))
    monkeypatch.setattr(uv_project, "SYNC_WITHIN_S", 0.1)
    with pytest.raises(LaunchError, match=r"did not end within 0\.1 s"):
        sync(tmp_path)


def test_the_reason_is_the_last_error_and_bounded() -> None:
    assert reason(["warning: a", "error: first", "error: last", "  cause: it"]) == "last cause: it"
    assert reason(["only", "this"]) == "this"
    assert reason([]) == ""
    assert len(reason(["error: " + "x" * 5000])) < 700


def test_what_is_wanted_is_said_with_who_wants_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    assert wanted(Project(tmp_path, {})) == ">=3.99 (requires-python in pyproject.toml)"
    (tmp_path / ".python-version").write_text("3.98\n")
    assert wanted(Project(tmp_path, {})) == "3.98 (wanted by .python-version)"
    assert wanted(Project(tmp_path, {}, "3.97")) == "'3.97' (asked for with --python)"
    (tmp_path / ".python-version").unlink()
    (tmp_path / "pyproject.toml").write_text("nonsense")
    assert wanted(Project(tmp_path, {})) == "that suits"
