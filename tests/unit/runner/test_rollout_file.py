from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.errors import RolloutFileError
from osmosis_runner.rollout_file import RolloutFile, command_problem, parse_rollout_file, read_rollout_file


def problems(text: str) -> list[str]:
    with pytest.raises(RolloutFileError) as caught:
        parse_rollout_file(text, "rollouts/r/rollout.toml")
    assert caught.value.message.startswith("Invalid rollout file: rollouts/r/rollout.toml\n")
    return [str(issue) for issue in caught.value.issues]


def test_a_folder_without_the_file_says_nothing(tmp_path: Path) -> None:
    assert read_rollout_file(tmp_path) == RolloutFile()


def test_a_command_and_variables_are_read(tmp_path: Path) -> None:
    (tmp_path / "rollout.toml").write_text('command = ["node", "main.js"]\n[env]\nLOG_LEVEL = "info"\n')
    assert read_rollout_file(tmp_path) == RolloutFile(("node", "main.js"), {"LOG_LEVEL": "info"})


def test_everything_that_is_wrong_is_told_with_its_line() -> None:
    text = 'command = []\ncwd = "x"\n[env]\nlower = "1"\n_OSMOSIS_X = "1"\n'
    said = problems(text)
    assert len(said) == 4
    assert said[0].startswith("cwd: unknown key; known are command and env (line 2)")
    assert "at least one word" in said[1]
    assert "capitals" in said[2]
    assert "runner's own" in said[3]


def test_an_unknown_key_is_answered_with_the_nearest_and_a_mistake_of_syntax_with_its_column() -> None:
    assert problems('comand = ["a"]\ncommand = ["b"]\nenv = x\n') == [
        "comand: unknown key; did you mean 'command'? (line 1)",
        'invalid TOML: Invalid value at column 7; text stands in double quotes: env = "x" (line 3)',
    ]


def test_a_line_is_answered_with_the_list_it_should_be() -> None:
    assert problems("command = \"node 'my file.js'\"\n") == [
        'command: must be a list of words, not a line: command = ["node", "my file.js"] (line 1)'
    ]
    assert '["it\'s"]' in str(command_problem("it's"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (None, "missing"),
        (7, "at least one word"),
        (["a", 1], "must be a string"),
        (["a\0b"], "NUL"),
        ([" "], "must begin with the program"),
        (["a", ""], None),
    ],
)
def test_a_command_is_words_that_begin_with_a_program(command: object, words: str | None) -> None:
    said = command_problem(command)
    assert said is None if words is None else words in str(said)


def test_a_file_that_is_no_toml_or_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "line 1" in problems("command = \n")[0]
    (tmp_path / "rollout.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RolloutFileError, match="not UTF-8"):
        read_rollout_file(tmp_path)
    (tmp_path / "rollout.toml").unlink()
    (tmp_path / "rollout.toml").mkdir()
    with pytest.raises(RolloutFileError, match="cannot be read: Is a directory"):
        read_rollout_file(tmp_path)
