"""ARCHITECTURE.md and the other pages: what they name is there, and what is there is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import codemap

ROOT = Path(__file__).resolve().parents[3]
ROOTS = [ROOT / "bridge", ROOT / "runner", ROOT / "cli"]
PAGES = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
]
# What a run, or a person's own project, holds: named on these pages and not kept here.
MADE_ELSEWHERE = re.compile(
    r"\.osmosis/.*|\.tools/|\.venv/|\.cache/.*"
    r"|(.*/)?((?:main|host)\.py|rollout\.toml|trajectory\.json)|rollouts/NAME/.*|data/NAME.*|(.*/)?NAME\.toml"
    r"|(.*/)?(artifacts|rollout_trials|trajectories)/.*|\w+\.jsonl|(manifest|progress|metrics)\.json"
)


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    named = [name for name in codemap.files(text_of(page)) if not MADE_ELSEWHERE.fullmatch(name.text)]
    assert [name.text for name in named if codemap.place(name, ROOT) is None] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_symbol_that_a_page_names_exists(page: str) -> None:
    assert [name for name in codemap.symbols(text_of(page)) if not codemap.defines(name, ROOTS)] == []


@pytest.mark.parametrize("package", ["bridge/osmosis_bridge", "runner/osmosis_runner", "cli/osmosis_cli"])
def test_every_module_and_folder_of_a_package_stands_on_the_map(package: str) -> None:
    found = {codemap.place(name, ROOT) for name in codemap.files(text_of("ARCHITECTURE.md"))}
    folder = ROOT / package
    modules = {path for path in folder.glob("*.py") if not path.name.startswith("__")}
    folders = {path.parent for path in folder.glob("*/*.py")}
    assert sorted(path.name for path in (modules | folders) - found) == []


def test_the_map_fits_on_a_page_or_two() -> None:
    assert len(text_of("ARCHITECTURE.md").splitlines()) <= 160


def test_a_file_is_looked_for_below_its_heading_and_then_from_the_root(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/in.py").touch()
    (tmp_path / "top.md").touch()
    page = "# Title\n`in.py` is not here\n## `a/b`\n`in.py`, `top.md`, `gone.py`, `a/b/`\n```\n`fenced.py`\n```\n"
    found = [(name.text, codemap.place(name, tmp_path) is not None) for name in codemap.files(page)]
    assert found == [("in.py", False), ("in.py", True), ("top.md", True), ("gone.py", False), ("a/b/", True)]


def test_a_symbol_is_a_module_or_what_stands_at_its_top_or_in_its_class(tmp_path: Path) -> None:
    (tmp_path / "osmosis_cli").mkdir()
    (tmp_path / "osmosis_cli/m.py").write_text(
        "X: int = 1\nclass A:\n    y = 1\n    def f(self): ...\ndef g(): ...\n"
    )
    names = ["osmosis_cli.m", "osmosis_cli.m.X", "osmosis_cli.m.A.f", "osmosis_cli.m.A.y", "osmosis_cli.m.g"]
    assert codemap.symbols(" ".join(f"`{name}`" for name in names)) == names
    assert all(codemap.defines(name, [tmp_path]) for name in names)
    gone = ["osmosis_cli.m.Y", "osmosis_cli.n", "osmosis_cli.m.A.g", "osmosis_cli.m.g.x"]
    assert not any(codemap.defines(name, [tmp_path]) for name in gone)
