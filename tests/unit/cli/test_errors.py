"""Errors and their exit codes."""

from __future__ import annotations

from osmosis_cli.errors import CLIError, Code, Declined, Exit


def test_an_error_is_a_validation_error_that_exits_1_unless_told_otherwise() -> None:
    error = CLIError("No.")
    assert (error.message, error.fix, error.code, error.exit_code) == ("No.", "", Code.VALIDATION, 1)


def test_a_declined_prompt_is_no_failure() -> None:
    assert Declined().exit_code == 0
    assert Declined().message == "Cancelled."


def test_exit_codes_after_signals_are_128_and_the_number() -> None:
    assert (Exit.HANGUP, Exit.INTERRUPTED, Exit.TERMINATED) == (128 + 1, 128 + 2, 128 + 15)
