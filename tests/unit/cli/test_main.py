"""The root: formats, exit codes, envelopes, the environment."""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
from pathlib import Path

import click
import pytest

from osmosis_cli import main
from osmosis_cli.errors import CLIError, Code
from osmosis_cli.invocation import Invocation
from osmosis_cli.output import Format
from osmosis_typed import Stream, osmosis


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").touch()
    return tmp_path


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> list[Invocation]:
    """Adds a command `probe` that keeps its invocation and raises what its argument names."""
    kept: list[Invocation] = []
    raised = {
        "ok": None,
        "interrupt": KeyboardInterrupt(),
        "abort": click.Abort(),
        "pipe": BrokenPipeError(),
        "ours": CLIError("No.", code=Code.CONFLICT, fix="Do."),
        "bug": RuntimeError("canary-0123456789 is wrong"),
        "exit": click.exceptions.Exit(143),
    }

    @click.command("probe")
    @click.argument("what")
    @click.pass_obj
    def command(invocation: Invocation, what: str) -> None:
        kept.append(invocation)
        error = raised[what]
        if error is not None:
            raise error

    monkeypatch.setitem(main.root.commands, "probe", command)
    return kept


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_goes_to_stdout(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert osmosis(flag).code == 0
    text = capsys.readouterr().out
    assert "Usage: osmosis [OPTIONS] COMMAND" in text
    assert "--workspace" not in text


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("-V", "--version"):
        assert osmosis(flag).code == 0
        assert capsys.readouterr().out == f"osmosis {importlib.metadata.version('osmosis-bridge')}\n"


def test_help_as_a_command_is_pointed_to_the_flag_once() -> None:
    said = osmosis("help")
    assert said.code == 2
    assert said.stderr.count("--help") == 1


def test_no_command_is_a_usage_error_that_shows_the_help() -> None:
    said = osmosis()
    assert (said.code, said.stdout) == (2, "")
    assert said.stderr.startswith("Usage: osmosis")
    assert osmosis("--json", "bridge").error["error"]["message"] == "A command is missing."


def test_both_formats_at_once_is_a_usage_error() -> None:
    said = osmosis("eval", "--json", "--plain")
    assert said.code == 2
    assert said.error["error"]["code"] == "VALIDATION"


def test_an_unknown_command_suggests_the_closest_and_is_kept_in_the_envelope() -> None:
    said = osmosis("eval", "rum", "--json")
    assert said.code == 2
    assert said.stdout == ""
    assert said.error["command"] == "eval rum"
    assert "Did you mean 'run'?" in said.error["error"]["message"]
    assert osmosis("--json", "--bogus").error["command"] == "<root>"


def test_a_bad_flag_is_a_usage_error_and_names_the_command() -> None:
    said = osmosis("eval", "run", "c.toml", "--bogus", "--json")
    assert (said.code, said.error["command"]) == (2, "eval run")


def test_an_error_of_ours_exits_with_its_code(probe: list[Invocation]) -> None:
    assert osmosis("probe", "ours").stderr == "Error: No.\nDo.\n"
    said = osmosis("probe", "ours", "--json")
    assert (said.code, said.stdout) == (1, "")
    assert said.error["error"] == {"code": "CONFLICT", "message": "No.", "details": {"fix": "Do."}}


@pytest.mark.parametrize("what", ["interrupt", "abort"])
def test_an_interrupt_exits_130_with_its_own_code(probe: list[Invocation], what: str) -> None:
    said = osmosis("probe", what, "--json")
    assert (said.code, said.error["error"]["code"]) == (130, "INTERRUPTED")


def test_a_reader_that_left_is_no_crash(probe: list[Invocation]) -> None:
    said = osmosis("probe", "pipe")
    assert (said.code, said.stderr) == (1, "")


def test_a_command_may_choose_its_exit_code(probe: list[Invocation]) -> None:
    assert osmosis("probe", "exit").code == 143
    assert osmosis("probe", "ok").code == 0


def test_a_fault_of_ours_shows_no_traceback_and_no_secret(probe: list[Invocation]) -> None:
    said = osmosis("probe", "bug", environ={"OPENAI_API_KEY": "canary-0123456789"})
    assert said.code == 1
    assert said.stderr.startswith("Error: Unexpected RuntimeError: [REDACTED] is wrong\n")
    assert "Traceback" not in said.stderr
    assert osmosis("probe", "bug", "--json").error["error"]["code"] == "INTERNAL"


def test_a_traceback_is_shown_when_asked_for_and_without_secrets(probe: list[Invocation]) -> None:
    said = osmosis("probe", "bug", environ={"OSMOSIS_DEBUG": "1", "A_TOKEN": "canary-0123456789"})
    assert "Traceback (most recent call last)" in said.stderr
    assert "RuntimeError: [REDACTED] is wrong" in said.stderr
    assert "Traceback" not in osmosis("probe", "ours", environ={"OSMOSIS_DEBUG": "1"}).stderr


def test_the_nearest_dotenv_is_read_and_the_process_wins(
    here: Path, monkeypatch: pytest.MonkeyPatch, probe: list[Invocation]
) -> None:
    (here / ".env").write_text("A=file\nB=file\nOSMOSIS_ENV_FILE=/nowhere\n")
    (here / "deep").mkdir()
    monkeypatch.chdir(here / "deep")
    assert osmosis("probe", "ok", environ={"A": "process"}).code == 0
    assert dict(probe[0].environ) == {"A": "process", "B": "file"}


def test_a_named_dotenv_is_read_instead(here: Path, probe: list[Invocation]) -> None:
    (here / ".env").write_text("A=nearest\n")
    (here / "other.env").write_text("B=named\n")
    osmosis("--env-file", "other.env", "probe", "ok")
    osmosis("probe", "ok", environ={"OSMOSIS_ENV_FILE": "other.env"})
    assert probe[0].environ.get("B") == probe[1].environ.get("B") == "named"
    assert "A" not in probe[0].environ


def test_a_named_dotenv_must_exist_and_fit_the_grammar(here: Path, probe: list[Invocation]) -> None:
    assert "does not exist" in osmosis("--env-file", "none.env", "probe", "ok").stderr
    (here / "bad.env").write_text("A=1\nsk-canary\n")
    said = osmosis("--env-file", "bad.env", "probe", "ok")
    assert said.code == 1
    assert "line 2" in said.stderr
    assert "canary" not in said.stderr
    assert probe == []


def test_a_bad_line_of_a_dotenv_that_just_lies_there_is_a_warning(
    here: Path, probe: list[Invocation]
) -> None:
    (here / ".env").write_text("A=1\nsk-canary\n")
    said = osmosis("probe", "ok", "--json")
    assert said.code == 0
    assert json.loads(said.stderr)["warning"]["code"] == "DOTENV_LINE_IGNORED"
    assert "canary" not in said.stderr
    assert probe[0].environ.get("A") == "1"


def test_the_format_reaches_the_command(probe: list[Invocation]) -> None:
    for flags, form in (((), Format.RICH), (("--plain",), Format.PLAIN), (("--json",), Format.JSON)):
        osmosis("probe", "ok", *flags)
        assert probe[-1].out.format is form


def test_a_closed_stream_leads_nowhere_and_an_open_one_fails_at_no_character(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr("sys.stderr", None)
    _, stdout, stderr = main.standard_streams()
    assert sys.stderr is stderr
    stderr.write("é")
    stderr.close()
    stdout.write("é")
    stdout.flush()
    assert raw.getvalue() == b"\\xe9"


def test_the_console_script_exits_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["osmosis", "bogus"])
    monkeypatch.setattr("sys.stderr", Stream())
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
