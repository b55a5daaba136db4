"""The wheel: what people install holds the three packages whole, typed, and starts without the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {"osmosis_bridge": "bridge", "osmosis_runner": "runner", "osmosis_cli": "cli"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def sources(package: str) -> set[str]:
    folder = ROOT / PACKAGES[package]
    files = (
        path for path in (folder / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    return {path.relative_to(folder).as_posix() for path in files}


@pytest.mark.parametrize("package", list(PACKAGES))
def test_the_wheel_holds_every_file_of_the_package_and_says_it_is_typed(wheel: Path, package: str) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(f"{package}/")}
    assert held == sources(package)
    assert f"{package}/py.typed" in held


def test_the_wheel_holds_nothing_else_but_its_own_description(wheel: Path) -> None:
    roots = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert roots == {*PACKAGES, f"osmosis_bridge-{PROJECT['version']}.dist-info"}


def test_the_wheel_carries_its_licence_and_its_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    names = {name.split("/", maxsplit=1)[1]: name for name in archive.namelist() if ".dist-info/" in name}
    assert b"Apache License" in archive.read(names["licenses/LICENSE"])
    assert b"osmosis = osmosis_cli.main:main" in archive.read(names["entry_points.txt"])
    metadata = archive.read(names["METADATA"]).decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_the_wheel_runs_without_the_sources(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    where = "import osmosis_cli.main as main; print(main.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()).is_relative_to(tmp_path)
    version = subprocess.run(
        [sys.executable, "-m", "osmosis_cli", "--version"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert version.returncode == 0, version.stderr
    assert PROJECT["version"] in version.stdout
