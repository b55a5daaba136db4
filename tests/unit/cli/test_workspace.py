"""Finding workspaces, configs and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_cli.errors import CLIError, Code
from osmosis_cli.workspace import find_config, find_run, find_workspace, output_root, runs_of
from osmosis_runner.rundir import is_run


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "configs" / "eval").mkdir(parents=True)
    (tmp_path / "configs" / "eval" / "quickstart.toml").touch()
    return tmp_path


def make_run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


def test_the_workspace_is_the_nearest_folder_with_rollouts_and_configs(workspace: Path) -> None:
    assert find_workspace(workspace / "configs" / "eval") == workspace


def test_the_place_of_the_config_decides_before_the_current_folder(workspace: Path) -> None:
    inner = workspace / "inner"
    for mark in ("rollouts", "configs"):
        (inner / mark).mkdir(parents=True)
    assert find_workspace(inner / "configs", workspace) == inner
    assert find_workspace(Path("/"), workspace) == workspace


def test_no_workspace_is_an_error_that_says_what_one_is(tmp_path: Path) -> None:
    with pytest.raises(CLIError) as caught:
        find_workspace(tmp_path)
    assert caught.value.code is Code.WORKSPACE_REQUIRED
    assert "rollouts/" in caught.value.fix


def test_a_config_resolves_against_the_current_folder(workspace: Path) -> None:
    config = workspace / "configs" / "eval" / "quickstart.toml"
    assert find_config(Path("quickstart.toml"), config.parent) == config
    assert find_config(Path("configs/eval/quickstart.toml"), workspace) == config
    assert find_config(config, Path("/")) == config


def test_a_config_named_without_its_folder_is_found_for_the_advice(workspace: Path) -> None:
    (workspace / "pyproject.toml").touch()
    for given, advice in (
        ("quickstart.toml", "Did you mean configs/eval/quickstart.toml?"),
        ("x.toml", "Give the path"),
    ):
        with pytest.raises(CLIError) as caught:
            find_config(Path(given), workspace)
        assert caught.value.fix.startswith(advice)


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        ("configs/eval/quickstart", "does not end in .toml", Code.VALIDATION),
        ("configs/eval/quikstart.toml", "does not exist", Code.NOT_FOUND),
    ],
)
def test_a_config_that_is_none_is_refused_with_the_closest_name(
    workspace: Path, given: str, said: str, code: Code
) -> None:
    with pytest.raises(CLIError, match=said) as caught:
        find_config(Path(given), workspace)
    assert caught.value.code is code
    assert caught.value.fix == "Did you mean configs/eval/quickstart.toml?"


def test_a_folder_named_like_a_config_is_refused(workspace: Path) -> None:
    (workspace / "x.toml").mkdir()
    with pytest.raises(CLIError, match="is not a file"):
        find_config(Path("x.toml"), workspace)


def test_runs_are_kept_in_the_workspace_unless_told_otherwise(workspace: Path) -> None:
    assert output_root(workspace, None, Path("/")) == workspace / ".osmosis" / "evals"
    assert output_root(workspace, Path("out"), workspace) == workspace / "out"


def test_a_run_is_found_by_name_and_by_path(workspace: Path) -> None:
    run = make_run(workspace / ".osmosis" / "evals" / "quick")
    assert find_run("quick", workspace / "configs", None) == run
    assert find_run(".osmosis/evals/quick", workspace, None) == run
    assert find_run(str(run), Path("/"), None) == run
    assert find_run("quick", run.parent, None) == run
    assert find_run(".", run, None) == run
    assert find_run("quick", Path("/"), run.parent) == run


def test_a_run_that_is_none_is_refused_with_the_closest_name(workspace: Path) -> None:
    make_run(workspace / ".osmosis" / "evals" / "quick-otter-07")
    with pytest.raises(CLIError, match="There is no run 'quick-oter-07'") as caught:
        find_run("quick-oter-07", workspace, None)
    assert caught.value.code is Code.NOT_FOUND
    assert caught.value.fix == "Did you mean 'quick-otter-07'?"


def test_only_run_directories_are_listed(workspace: Path) -> None:
    root = workspace / ".osmosis" / "evals"
    assert runs_of(root) == []
    b, a = make_run(root / "b"), make_run(root / "a")
    (root / ".locks").mkdir()
    make_run(root / ".c.making-0")
    (root / "file").touch()
    assert runs_of(root) == [a, b]
    assert not is_run(root)
    with pytest.raises(CLIError, match="cannot be listed"):
        runs_of(root / "file")
