"""The changelog: fragments are well named and become a release's section, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

import release_notes


def lay(root: Path, **fragments: str) -> None:
    (root / "changelog.d").mkdir()
    (root / "changelog.d/README.md").write_text("how\n")
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n{release_notes.MARKER}\n## 0.1.0 (2026-01-01)\n")
    for name, text in fragments.items():
        (root / "changelog.d" / name).write_text(text)


def test_the_fragments_of_this_project_are_well_named_and_say_something() -> None:
    folder = release_notes.ROOT / "changelog.d"
    assert release_notes.astray(folder) == []
    assert all(path.read_text().strip().endswith(".") for path in folder.glob("*.md"))
    assert release_notes.MARKER in (release_notes.ROOT / "CHANGELOG.md").read_text()


def test_a_release_lists_kinds_in_order_and_issues_by_number(tmp_path: Path) -> None:
    fragments = {
        "10.fix.md": "Ten.\n",
        "9.fix.md": "Nine\nlines.\n",
        "3.breaking.md": "Three.\n",
        "4-b.change.md": "Four.\n",
    }
    lay(tmp_path, **fragments)
    assert release_notes.release(tmp_path, "0.2.0", "2026-02-03") == 0
    assert (tmp_path / "CHANGELOG.md").read_text().split(release_notes.MARKER)[1] == (
        "\n## 0.2.0 (2026-02-03)\n"
        "\n### Breaking\n\n- Three. (#3)\n"
        "\n### Changed\n\n- Four. (#4)\n"
        "\n### Fixed\n\n- Nine lines. (#9)\n- Ten. (#10)\n"
        "\n## 0.1.0 (2026-01-01)\n"
    )
    assert [path.name for path in (tmp_path / "changelog.d").iterdir()] == ["README.md"]


@pytest.mark.parametrize("name", ["notes.md", "12.feature.md", "12.fix.txt", "x.fix.md"])
def test_a_fragment_with_another_name_stops_the_release(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lay(tmp_path, **{name: "Text.\n", "1.fix.md": "One.\n"})
    assert release_notes.release(tmp_path, "0.2.0", "2026-02-03") == 1
    assert name in capsys.readouterr().out
    assert (tmp_path / "changelog.d/1.fix.md").exists()


def test_nothing_to_release_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay(tmp_path)
    assert release_notes.release(tmp_path, "0.2.0", "2026-02-03") == 1
    assert "nothing to release" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["0.2.0"], ["0.2.0", "today"]])
def test_wrong_arguments_are_answered_with_the_usage(arguments: list[str]) -> None:
    assert release_notes.main(arguments) == 2
