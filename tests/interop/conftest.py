"""Tests with the real osmosis-ai. They are left out unless `-m interop` asks for them (`make interop`): they install
packages from the index into .cache/interop, which takes a while the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop_workspace import Bench, lay_workspace
from tool_provider import ToolProvider

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interop: runs the real osmosis-ai; needs the package index")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mine = [item for item in items if HERE in item.path.parents]
    for item in mine:
        item.add_marker("interop")
    if "interop" not in str(config.getoption("-m")):
        config.hook.pytest_deselected(items=mine)
        items[:] = [item for item in items if item not in mine]


@pytest.fixture(scope="session")
def workspace() -> Path:
    return lay_workspace()


@pytest.fixture
def provider() -> Iterator[ToolProvider]:
    with ToolProvider() as running:
        yield running


@pytest.fixture
def bench(workspace: Path, provider: ToolProvider, tmp_path: Path) -> Bench:
    return Bench(workspace, provider.url, tmp_path)
