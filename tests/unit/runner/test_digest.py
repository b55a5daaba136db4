from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from osmosis_runner.digest import (
    DIGEST_VERSION,
    FileChanges,
    compare_files,
    digest_contents,
    digest_source,
    digest_version,
)
from osmosis_runner.errors import DigestError


def tree(root: Path, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def test_the_digest_is_the_framed_definition(tmp_path: Path) -> None:
    files = {"main.py": b"print(1)\n", "pkg/a.py": b"", "pkg-b/a.py": b"\x00\xff" * 3_000_000}
    found = digest_source(tree(tmp_path / "r", files))
    assert found.digest == digest_contents(files)
    combined = hashlib.sha256()
    for path in (b"main.py", b"pkg-b/a.py", b"pkg/a.py"):
        content = files[path.decode()]
        combined.update(len(path).to_bytes(8, "big") + path + len(content).to_bytes(8, "big") + content)
    assert found.digest == f"{DIGEST_VERSION}:{combined.hexdigest()}"
    assert found.files == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def test_paths_and_contents_cannot_be_mistaken_for_each_other() -> None:
    assert digest_contents({"ab": b"c"}) != digest_contents({"a": b"bc"})
    assert digest_contents({"a": b"", "b": b""}) != digest_contents({"a": b"b"})
    assert digest_contents({"a": b"x", "b": b"y"}) == digest_contents({"b": b"y", "a": b"x"})


def test_lock_files_are_digested_apart(tmp_path: Path) -> None:
    root = tree(tmp_path / "r", {"main.py": b"x", "uv.lock": b"one"})
    before = digest_source(root)
    (root / "uv.lock").write_bytes(b"two")
    after = digest_source(root)
    assert before.digest == after.digest
    assert before.lock_files != after.lock_files
    assert set(after.lock_files) == {"uv.lock"}


def test_an_ignored_file_changes_nothing(tmp_path: Path) -> None:
    root = tree(tmp_path / "r", {"main.py": b"x"})
    before = digest_source(root)
    tree(root, {".env": b"SECRET=1", "__pycache__/main.pyc": b"y", ".DS_Store": b"z"})
    assert digest_source(root) == before


def test_the_files_that_differ_are_named() -> None:
    changes = compare_files({"a": "1", "b": "2", "c": "3"}, {"b": "9", "c": "3", "d": "4"})
    assert changes == FileChanges(changed=("b",), added=("d",), removed=("a",))
    assert str(changes) == "changed b; added d; removed a"
    assert not compare_files({"a": "1"}, {"a": "1"})
    many = compare_files({}, {f"f{i:02}": "" for i in range(15)})
    assert str(many).endswith("f09 and 5 more")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path / "r", {"main.py": b"x"})
    real = Path.open

    def refuse(path: Path, *arguments, **options):
        if path.name == "main.py":
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DigestError, match=r"cannot read .*main\.py: Permission denied"):
        digest_source(root)


@pytest.mark.parametrize(
    ("digest", "version"),
    [
        ("sha256-v2:" + "a" * 64, "sha256-v2"),
        ("sha256-v3:" + "a" * 64, "sha256-v3"),
        ("a" * 64, "sha256-v1"),
        ("a" * 63, ""),
        ("sha256-v2:zz", ""),
        ("", ""),
    ],
)
def test_the_algorithm_of_a_recorded_digest_is_recognised(digest: str, version: str) -> None:
    assert digest_version(digest) == version
