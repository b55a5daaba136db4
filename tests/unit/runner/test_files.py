from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from osmosis_runner.errors import StorageError
from osmosis_runner.files import replace_file, replace_json, write_new
from osmosis_runner.jsontext import NotJson


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_with_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text("old")
    path.chmod(0o644)
    replace_json(path, {"a": 1})
    assert path.read_text() == '{\n  "a": 1\n}\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["metrics.json"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_at_any_step_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "metrics.json"
    path.write_text("old")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, refuse)
        with pytest.raises(StorageError, match="was left as it was"):
            replace_file(path, b"new")
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["metrics.json"]


def test_content_is_synced_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(
        os,
        "fsync",
        lambda fd: (steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"), real_sync(fd)),
    )
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("rename"), real_replace(*names)))
    replace_file(tmp_path / "a", b"x")
    assert steps == ["file", "rename", "folder"]
    steps.clear()
    replace_file(tmp_path / "a", b"y", durable=False)
    assert steps == ["rename"]


def test_a_value_that_is_no_json_touches_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotJson):
        replace_json(tmp_path / "a.json", {"x": float("nan")})
    assert names_in(tmp_path) == []


def test_a_new_file_does_not_overwrite(tmp_path: Path) -> None:
    write_new(tmp_path / "a", b"1")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "a", b"2")


def test_a_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        replace_file(tmp_path / "no" / "a", b"x")
