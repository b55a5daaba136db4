from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from osmosis_runner.errors import DigestError
from osmosis_runner.source_files import git_ignored, is_source_name, is_tool_folder, list_source_files


def tree(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", str(root), "-c", "init.defaultBranch=main", *arguments], check=True, capture_output=True
    )


def test_tools_editors_systems_and_secrets_leave_no_source(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "r",
        "main.py", "pkg/a.py", "pkg/data.json", "uv.lock", "sub/poetry.lock", "pyproject.toml",
        ".env", ".env.local", ".envrc", ".DS_Store", "pkg/.DS_Store", "a.pyc", "a.py~", ".a.py.swp", ".#a.py", "._a",
        "__pycache__/a.pyc", ".git/config", ".venv/lib/x.py", "venv/x.py", "node_modules/x.js", "dist/x", "build/x",
        ".pytest_cache/x", ".ruff_cache/x", ".mypy_cache/x", ".idea/x.xml", ".vscode/x.json", "r.egg-info/PKG-INFO",
        "pkg/__pycache__/b.pyc", ".coverage",
    )  # fmt: skip
    listed = list_source_files(root)
    assert listed.files == ("main.py", "pkg/a.py", "pkg/data.json", "pyproject.toml")
    assert listed.lock_files == ("sub/poetry.lock", "uv.lock")


def test_the_output_folder_does_not_count_and_cannot_be_the_rollout(tmp_path: Path) -> None:
    root = tree(tmp_path / "r", "main.py", "out/run/metrics.json", "output.txt")
    assert list_source_files(root, [root / "out"]).files == ("main.py", "output.txt")
    assert list_source_files(root, [root / "output.txt", root / "out"]).files == ("main.py",)
    with pytest.raises(DigestError, match="cannot be the rollout's folder"):
        list_source_files(root, [root])


def test_git_ignored_files_do_not_count_unless_they_are_tracked(tmp_path: Path) -> None:
    root = tree(tmp_path / "w" / "r", "main.py", "cache.bin", "logs/a.log", "keep.log", "sub/x.tmp")
    git(tmp_path / "w", "init", "-q")
    (tmp_path / "w" / ".gitignore").write_text("*.log\n*.bin\n")
    (root / "sub" / ".gitignore").write_text("*.tmp\n")
    git(tmp_path / "w", "add", "-f", "r/keep.log")
    assert list_source_files(root).files == ("keep.log", "main.py", "sub/.gitignore")


def test_git_settings_of_the_person_and_the_environment_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "w", "main.py", "notes.txt")
    git(root, "init", "-q")
    (tmp_path / "ignore").write_text("*.txt\n")
    (tmp_path / ".gitconfig").write_text(f"[core]\nexcludesFile = {tmp_path / 'ignore'}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert list_source_files(root).files == ("main.py", "notes.txt")


def test_without_a_work_tree_or_without_git_nothing_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "r", "main.py", ".gitignore")
    (root / ".gitignore").write_text("*.py\n")
    assert git_ignored(root, ["main.py"]) == frozenset()
    git(root, "init", "-q")
    assert git_ignored(root, ["main.py"]) == {"main.py"}
    assert git_ignored(root, []) == frozenset()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_ignored(root, ["main.py"]) == frozenset()


def test_names_with_spaces_newlines_and_any_bytes_are_asked_about(tmp_path: Path) -> None:
    root = tmp_path / "r"
    root.mkdir()
    names = ["a b.log", "new\nline.log", "ü.log", os.fsdecode(b"raw\xff.log")]
    for name in names:
        (root / name).write_text("")
    (root / ".gitignore").write_text("*.log\n")
    git(root, "init", "-q")
    assert git_ignored(root, names) == set(names)
    assert list_source_files(root).files == (".gitignore",)


def test_links_to_files_are_followed_and_other_links_refused(tmp_path: Path) -> None:
    root = tree(tmp_path / "r", "main.py", "sub/a.py")
    (root / "link.py").symlink_to(root / "main.py")
    assert list_source_files(root).files == ("link.py", "main.py", "sub/a.py")
    (root / "folder").symlink_to(root / "sub")
    with pytest.raises(DigestError, match="link to a folder"):
        list_source_files(root)
    (root / "folder").unlink()
    (root / "gone").symlink_to(root / "nothing")
    with pytest.raises(DigestError, match="broken link"):
        list_source_files(root)
    (root / "gone").unlink()
    os.mkfifo(root / "pipe")
    with pytest.raises(DigestError, match="not a regular file"):
        list_source_files(root)


def test_a_link_that_git_ignores_is_no_problem(tmp_path: Path) -> None:
    root = tree(tmp_path / "r", "main.py", ".gitignore")
    (root / ".gitignore").write_text("/gone\n")
    (root / "gone").symlink_to(root / "nothing")
    git(root, "init", "-q")
    assert list_source_files(root).files == (".gitignore", "main.py")


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(DigestError, match="there is no folder"):
        list_source_files(tmp_path / "nothing")


def test_names_decide_without_the_disk() -> None:
    assert is_source_name("a/b.py")
    assert not is_source_name("a/.venv/b.py")
    assert not is_source_name("a/.env.production")
    assert is_tool_folder("x.dist-info")
    assert not is_tool_folder("environment")
