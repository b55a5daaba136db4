"""Variables that stand still once they were read."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_cli.environment import Environment, find_dotenv, malformed_lines, read_dotenv
from osmosis_cli.errors import CLIError, Code


def test_the_process_wins_over_the_file() -> None:
    environ = Environment({"A": "process"})
    environ.supply({"A": "file", "B": "file"})
    assert dict(environ) == {"A": "process", "B": "file"}


def test_a_name_that_was_found_absent_can_no_longer_be_set() -> None:
    environ = Environment({})
    assert environ.get("A") is None
    environ.supply({"B": "1"})
    with pytest.raises(RuntimeError, match="A"):
        environ.supply({"A": "1"})


@pytest.mark.parametrize("read", [dict, len, list])
def test_an_environment_read_as_a_whole_can_no_longer_be_added_to(read: type) -> None:
    environ = Environment({"A": "1"})
    read(environ)
    environ.supply({"A": "2"})
    with pytest.raises(RuntimeError, match="B"):
        environ.supply({"B": "1"})


def test_its_repr_shows_no_value() -> None:
    assert "hunter2" not in repr(Environment({"PASSWORD": "hunter2"}))


def test_the_nearest_dotenv_upward_is_found(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_dotenv(deep) != tmp_path / ".env"
    (tmp_path / ".env").write_text("A=1")
    assert find_dotenv(deep) == tmp_path / ".env"
    (deep / ".env").mkdir()
    assert find_dotenv(deep) == tmp_path / ".env"


def test_a_missing_file_is_named() -> None:
    with pytest.raises(CLIError, match="Secrets file /nowhere/x does not exist") as caught:
        read_dotenv(Path("/nowhere/x"), what="Secrets file")
    assert caught.value.code is Code.NOT_FOUND


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"A=\xff")
    with pytest.raises(CLIError, match="not UTF-8"):
        read_dotenv(path, what="Secrets file")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CLIError, match="cannot be read"):
        read_dotenv(tmp_path, what="Secrets file")


def test_malformed_lines_are_told_by_number() -> None:
    told = malformed_lines("Secrets file", "x", (2, 5))
    assert "line 2, 5" in told.message
    assert told.details == {"lines": (2, 5)}
