"""Any exception as words fit to show."""

from __future__ import annotations

import click
import pytest

from osmosis_cli.errors import CLIError, Code, Exit
from osmosis_cli.failures import environment_redactor, told, trace


def test_an_error_of_ours_is_told_as_it_is() -> None:
    error = CLIError("No.", code=Code.CONFLICT)
    assert told(error) is error


def test_a_usage_error_exits_2() -> None:
    shown = told(click.UsageError("No such option '--x'."))
    assert (shown.exit_code, shown.code) == (Exit.USAGE, Code.VALIDATION)


def test_a_click_exception_exits_1() -> None:
    assert told(click.ClickException("No.")).exit_code == 1


def test_an_error_nobody_foresaw_is_internal_and_names_its_kind() -> None:
    shown = told(KeyError("x"))
    assert shown.code is Code.INTERNAL
    assert "KeyError" in shown.message
    assert "OSMOSIS_DEBUG=1" in shown.fix


def test_a_fault_of_the_machine_names_the_file() -> None:
    shown = told(PermissionError(13, "Permission denied", "/x/y"))
    assert (shown.message, shown.code, shown.fix) == ("/x/y: Permission denied.", Code.INTERNAL, "")


def test_a_group_with_one_error_is_told_as_that_error() -> None:
    inner = CLIError("No.")
    assert told(ExceptionGroup("tasks", [ExceptionGroup("more", [inner])])) is inner


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "my_password", "A_SECRET_THING"])
def test_values_of_variables_named_like_secrets_are_taken_out(name: str) -> None:
    redactor = environment_redactor({name: "canary-0123456789", "HOME": "/home/someone"})
    assert redactor.scrub_text("x canary-0123456789 in /home/someone") == "x [REDACTED] in /home/someone"


def test_a_short_value_is_not_taken_for_a_secret() -> None:
    assert environment_redactor({"API_KEY": "x=1"}).scrub_text("x=1") == "x=1"


def test_a_traceback_shows_no_secret() -> None:
    try:
        raise RuntimeError("canary-0123456789")
    except RuntimeError as error:
        text = trace(error, environment_redactor({"API_KEY": "canary-0123456789"}))
    assert "RuntimeError" in text
    assert "canary" not in text.splitlines()[-1]
