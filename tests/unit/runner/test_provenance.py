from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

from osmosis_runner.config import parse_config
from osmosis_runner.options import RunOptions
from osmosis_runner.provenance import launch_provenance, provenance

TEXT = """
[experiment]
rollout = "t"
entrypoint = "main.py"
model_path = "m/x"
dataset = "d"
branch = "main"
[secrets]
required = []
[advanced]
speed = 3
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_the_config_and_its_extras_are_kept(tmp_path: Path) -> None:
    found = provenance(parse_config(TEXT, Path("c.toml")), tmp_path)
    assert found["config_path"] == "c.toml"
    assert (found["config_branch"], found["advanced"]) == ("main", {"speed": 3})
    assert found["sdk_version"] == version("osmosis-bridge")


def test_the_work_tree_is_described_and_a_change_noticed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-b", "trunk")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-m", "x")
    config = parse_config(TEXT, Path("c.toml"))
    clean = provenance(config, tmp_path)
    assert (clean["git_branch"], clean["git_dirty"]) == ("trunk", False)
    assert len(str(clean["git_head"])) == 40
    (tmp_path / "a").write_text("2")
    assert provenance(config, tmp_path)["git_dirty"] is True


def test_a_folder_that_is_no_work_tree_says_nothing(tmp_path: Path) -> None:
    found = provenance(parse_config(TEXT, Path("c.toml")), tmp_path / "missing")
    assert not any(name.startswith("git_") for name in found)


def test_how_the_server_was_started_is_kept_where_the_folder_does_not_say_it() -> None:
    plain = RunOptions(Path("c.toml"), Path("/w"), {})
    assert launch_provenance(plain) == {}
    typed = RunOptions(Path("c.toml"), Path("/w"), {}, rollout_command=("node", "x.js"), python="3.12")
    assert launch_provenance(typed) == {"python": "3.12", "rollout_command": ["node", "x.js"]}
