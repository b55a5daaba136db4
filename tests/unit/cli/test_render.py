"""What is printed where, and what is asked."""

from __future__ import annotations

import io
import json

import pytest

from osmosis_cli.errors import CLIError, Code
from osmosis_cli.output import DetailResult, Format
from osmosis_cli.render import Output
from osmosis_typed import Stream, output

RESULT = DetailResult("Run", (("Name", "quick"),), {"name": "quick"}, exit_code=3)


def test_a_result_is_drawn_for_people_listed_for_scripts_and_encoded_for_programs() -> None:
    for form, said in (
        (Format.RICH, "drawn\n"),
        (Format.PLAIN, "Name: quick\n"),
        (Format.JSON, '{"schema_version": 1, "data": {"name": "quick"}}\n'),
    ):
        out, stdout, stderr = output(form)
        assert out.show(RESULT, "drawn\n") == 3
        assert (stdout.getvalue(), stderr.getvalue()) == (said, "")


def test_in_json_only_the_document_reaches_stdout() -> None:
    out, stdout, stderr = output(Format.JSON)
    out.say("hello")
    out.say_drawn("table")
    out.status("working")
    out.note("context")
    assert (stdout.getvalue(), stderr.getvalue()) == ("", "")
    out.warn("OLD", "Old.")
    assert stdout.getvalue() == ""
    assert json.loads(stderr.getvalue())["warning"] == {"code": "OLD", "message": "Old."}


def test_in_plain_what_is_no_result_goes_to_stderr() -> None:
    out, stdout, stderr = output(Format.PLAIN)
    out.say("hello")
    out.status("working")
    out.warn("OLD", "Old.")
    assert (stdout.getvalue(), stderr.getvalue()) == ("", "working\nWarning: Old.\n")


def test_an_error_says_what_and_then_how_to_fix_it() -> None:
    out, stdout, stderr = output()
    out.fail("eval run", CLIError("No\x1b[2J config.", fix="Make one."))
    assert (stdout.getvalue(), stderr.getvalue()) == ("", "Error: No[2J config.\nMake one.\n")


def test_an_error_in_json_is_one_line_with_the_fix_among_its_details() -> None:
    out, _, stderr = output(Format.JSON)
    out.fail("eval run", CLIError("No.", fix="Make one.", code=Code.NOT_FOUND, details={"path": "x"}))
    assert json.loads(stderr.getvalue()) == {
        "schema_version": 1,
        "command": "eval run",
        "cli_version": "9.9.9",
        "error": {"code": "NOT_FOUND", "message": "No.", "details": {"path": "x", "fix": "Make one."}},
    }


@pytest.mark.parametrize(
    ("typed", "default", "answer"),
    [
        ("y\n", False, True),
        ("YES\n", False, True),
        ("n\n", True, False),
        ("\n", True, True),
        ("\n", False, False),
        ("maybe\ny\n", False, True),
        ("", True, False),
    ],
)
def test_a_question_takes_yes_no_or_the_default_and_the_end_of_input_is_a_no(
    typed: str, default: bool, answer: bool
) -> None:
    out, stdout, _ = output(stdin=typed)
    assert out.ask("Go on?", default=default) is answer
    assert stdout.getvalue() == ""


@pytest.mark.parametrize(
    ("form", "terminal", "interactive"),
    [
        (Format.RICH, True, True),
        (Format.RICH, False, False),
        (Format.JSON, True, False),
        (Format.PLAIN, True, False),
    ],
)
def test_only_people_at_a_terminal_are_asked(form: Format, terminal: bool, interactive: bool) -> None:
    assert output(form, terminal=terminal)[0].interactive is interactive


def test_a_stream_that_cannot_hold_a_character_gets_its_escape() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Output(Format.RICH, Stream(), stream, stream, "9").say("→ \ud800 é")
    assert raw.getvalue() == b"-> \\ud800 \\xe9\n"


def test_words_are_wrapped_on_a_terminal_and_nowhere_else() -> None:
    text = "running 20 work items, up to 4 in flight, " * 5
    out, stdout, stderr = output(terminal=True)
    out.status(text)
    out.warn("SLOW", text)
    out.fail("eval run", CLIError(text))
    lines = (stdout.getvalue() + stderr.getvalue()).splitlines()
    assert len(lines) >= 9
    assert all(len(line) <= 80 for line in lines)
    assert "fligh " not in " ".join(lines)
    for form, terminal in ((Format.RICH, False), (Format.PLAIN, True)):
        out, _, stderr = output(form, terminal=terminal)
        out.warn("SLOW", text)
        assert stderr.getvalue().count("\n") == 1
