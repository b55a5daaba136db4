from __future__ import annotations

import pytest

from osmosis_runner.absent_module import Setting, absent_module, where_and_remedy


@pytest.mark.parametrize(
    ("lines", "module"),
    [
        (["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'numpy'"], "numpy"),
        (["ModuleNotFoundError: No module named 'a.b'; 'a' is not a package", "  | "], "a.b"),
        (["ModuleNotFoundError: No module named 'numpy'", "ValueError: something else after it"], None),
        (["it said: ModuleNotFoundError: No module named 'numpy'"], None),
        ([], None),
    ],
)
def test_the_module_is_read_off_the_last_words(lines: list[str], module: str | None) -> None:
    assert absent_module(lines) == module


def test_a_project_is_to_name_the_package_among_its_dependencies() -> None:
    setting = Setting(environment="/r/.venv", project_file="/r/pyproject.toml")
    where, remedy = where_and_remedy("osmosis_runner.rollout", setting)
    assert where == "the environment of the rollout's project, /r/.venv,"
    assert remedy == "add osmosis-bridge to the dependencies in /r/pyproject.toml"


def test_an_interpreter_that_was_asked_for_may_be_another() -> None:
    where, remedy = where_and_remedy("osmosis_ai", Setting(python="/usr/bin/python3", asked=True))
    assert where == "the interpreter /usr/bin/python3 (asked for with --python)"
    assert "leave --python out" in remedy
    assert "pyproject.toml with osmosis-ai among" in remedy


def test_the_interpreter_of_osmosis_is_called_that() -> None:
    where, remedy = where_and_remedy("numpy", Setting(python="/venv/bin/python"))
    assert where == "the interpreter /venv/bin/python, which runs osmosis itself,"
    assert "with the package of numpy among its dependencies" in remedy
    assert "with --python" in remedy


def test_of_a_command_only_its_words_are_known() -> None:
    where, remedy = where_and_remedy("osmosis_ai", Setting(command="python3 main.py"))
    assert where == "the Python that `python3 main.py` runs"
    assert remedy.startswith("install osmosis-ai there")
