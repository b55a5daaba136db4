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


def group_of(item: pytest.Item) -> str:
    """Which of two groups, about as long as each other, a test runs in; `make interop` runs them side by side.

    Tests of one rollout stand in one group: the first of them makes its environment, in the workspace that all share.
    """
    callspec = getattr(item, "callspec", None)
    agents = callspec is not None and callspec.params.get("rollout") == "openai-agents"
    return "second" if agents or item.path.stem == "test_supervisor_of_osmosis_ai" else "first"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interop: runs the real osmosis-ai; needs the package index")


def pytest_itemcollected(item: pytest.Item) -> None:
    # Once all are collected is too late: by then xdist has looked.
    item.add_marker(pytest.mark.xdist_group(group_of(item)))


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
