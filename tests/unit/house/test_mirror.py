"""The mirror check: unit tests stand beside their sources, both ways."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

import check_mirror

CHAT = PurePosixPath("dialects/chat.py")


def test_the_project_mirrors_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    status = check_mirror.main(check_mirror.ROOT)
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize("test", ["test_chat", "test_dialects_chat", "dialects/test_chat", "test_chat_tools"])
def test_a_module_in_a_folder_is_mirrored_by_any_of_three_names_and_what_goes_on_from_them(test: str) -> None:
    assert check_mirror.complaints({CHAT: True}, [test], "bridge") == []


@pytest.mark.parametrize("test", ["test_chats", "test_chat2", "dialects/test_chats", "test_chap"])
def test_a_name_that_only_begins_alike_mirrors_nothing(test: str) -> None:
    assert len(check_mirror.complaints({CHAT: True}, [test], "bridge")) == 2


def test_a_module_without_a_test_is_told_where_to_write_it() -> None:
    (line,) = check_mirror.complaints({CHAT: True}, [], "bridge")
    assert line.startswith("bridge/osmosis_bridge/dialects/chat.py: no test file")
    assert "tests/unit/bridge/" in line


def test_a_test_whose_module_is_gone_is_named() -> None:
    (line,) = check_mirror.complaints({}, ["test_gone"], "runner")
    assert line.startswith("tests/unit/runner/test_gone.py: no module of osmosis_runner")


def test_a_module_that_needs_no_test_may_have_one() -> None:
    assert check_mirror.complaints({CHAT: False}, [], "bridge") == []
    assert check_mirror.complaints({CHAT: False}, ["test_chat"], "bridge") == []


def test_the_cases_of_the_conformance_suite_are_tests_themselves(tmp_path: Path) -> None:
    lay(
        tmp_path,
        "bridge/osmosis_bridge/conformance/cases/usage.py",
        "bridge/osmosis_bridge/conformance/usage.py",
    )
    (line,) = check_mirror.survey(tmp_path, "bridge")
    assert line.startswith("bridge/osmosis_bridge/conformance/usage.py")


@pytest.mark.parametrize(("module", "test"), [("__main__.py", "test_main"), ("_pool.py", "test_pool")])
def test_underscores_around_a_name_are_left_out(module: str, test: str) -> None:
    assert check_mirror.complaints({PurePosixPath(module): True}, [test], "bridge") == []


def test_a_package_is_mirrored_by_its_own_name() -> None:
    package = PurePosixPath("upstream/__init__.py")
    assert check_mirror.complaints({package: True}, ["test_upstream"], "bridge") == []


@pytest.mark.parametrize(
    "source",
    [
        "from a import b\nX = 1\n",
        "class Row:\n    index: int\n",
        'class Ledger(Protocol):\n    def keep(self):\n        """Keep it."""\n    def close(self): ...\n',
    ],
)
def test_names_values_and_protocols_alone_need_no_test(source: str) -> None:
    assert not check_mirror.decides_something(source)


@pytest.mark.parametrize(
    "source", ["async def f():\n    return 1\n", "class A:\n    def f(self):\n        return 1\n"]
)
def test_a_function_with_a_body_needs_one(source: str) -> None:
    assert check_mirror.decides_something(source)


def lay(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("def f() -> int:\n    return 1\n")


def test_a_project_is_walked_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay(
        tmp_path,
        "bridge/osmosis_bridge/sse.py",
        "bridge/osmosis_bridge/__main__.py",
        "tests/unit/bridge/test_sse.py",
    )
    assert check_mirror.main(tmp_path) == 0
    lay(tmp_path, "tests/unit/elsewhere/test_x.py")
    assert check_mirror.main(tmp_path) == 1
    assert "tests/unit/elsewhere: mirrors no package" in capsys.readouterr().out
