"""Where values of secrets come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_cli.errors import CLIError, Code
from osmosis_cli.output import Format
from osmosis_cli.render import Output
from osmosis_cli.secrets import read_secrets_file, resolve
from osmosis_typed import output


def test_the_file_wins_over_the_environment() -> None:
    out = output()[0]
    found = resolve(["A", "B"], {"A": "file"}, {"A": "process", "B": "process", "C": "unused"}, out)
    assert found == {"A": "file", "B": "process"}


def test_an_empty_value_counts_as_missing() -> None:
    with pytest.raises(CLIError) as caught:
        resolve(["A", "B", "C"], {"A": ""}, {"A": "", "B": "x"}, output(Format.JSON)[0])
    assert caught.value.code is Code.INTERACTIVE_REQUIRED
    assert caught.value.details == {"missing": ["A", "C"], "flags": ["--secrets-file"]}


def test_a_person_is_asked_without_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def typed(_: Output, prompt: str) -> str:
        asked.append(prompt)
        return "hunter2"

    monkeypatch.setattr(Output, "ask_hidden", typed)
    assert resolve(["A"], {}, {}, output(terminal=True)[0]) == {"A": "hunter2"}
    assert asked == ["Value of A"]


def test_an_empty_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Output, "ask_hidden", lambda _, __: "")
    with pytest.raises(CLIError, match="No value for the secrets A"):
        resolve(["A"], {}, {}, output(terminal=True)[0])


def test_a_secrets_file_may_be_a_path_or_stdin(tmp_path: Path) -> None:
    (tmp_path / "s.env").write_text("A=1\n")
    assert read_secrets_file("s.env", output()[0], tmp_path) == {"A": "1"}
    assert read_secrets_file("-", output(stdin="A=2\n")[0], tmp_path) == {"A": "2"}
    assert read_secrets_file(None, output()[0], tmp_path) == {}


def test_a_bad_line_is_told_by_its_number_and_never_by_its_text(tmp_path: Path) -> None:
    (tmp_path / "s.env").write_text("A=1\nsk-canary\n")
    with pytest.raises(CLIError) as caught:
        read_secrets_file("s.env", output()[0], tmp_path)
    told = f"{caught.value.message} {caught.value.fix} {caught.value.details}"
    assert "line 2" in told
    assert "canary" not in told
