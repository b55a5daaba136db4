"""Any exception as a `CLIError` fit to show: in words, with a fix, without secrets.

It knows click's errors and ours; the rooms below have their own errors, turned into ours where they are called.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping

import click

from osmosis_bridge.redact import Redactor
from osmosis_cli.errors import CLIError, Code, Exit

SECRET_MARKS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
SECRET_LENGTH = 8
"""Shorter values are passed over: they would hit ordinary words."""


def told(error: Exception) -> CLIError:
    """`error` as one of ours; what nobody foresaw becomes an INTERNAL error."""
    error = _alone(error)
    match error:
        case CLIError():
            return error
        case click.exceptions.NoArgsIsHelpError():
            return CLIError("A command is missing.", fix=_hint(error), exit_code=Exit.USAGE)
        case click.UsageError():
            return CLIError(error.format_message(), fix=_hint(error), exit_code=Exit.USAGE)
        case click.ClickException():
            return CLIError(error.format_message())
        case OSError() if error.strerror:
            place = f"{error.filename}: " if error.filename else ""
            return CLIError(f"{place}{error.strerror}.", code=Code.INTERNAL)
        case _:
            return CLIError(
                f"Unexpected {type(error).__name__}: {error}",
                fix="This is a fault of osmosis itself; OSMOSIS_DEBUG=1 shows where it happened.",
                code=Code.INTERNAL,
            )


def environment_redactor(environ: Mapping[str, str]) -> Redactor:
    """Takes the values of all variables that look like secrets by their name out of text."""
    named = (value for name, value in environ.items() if any(mark in name.upper() for mark in SECRET_MARKS))
    return Redactor(value for value in named if len(value) >= SECRET_LENGTH)


def trace(error: Exception, redactor: Redactor) -> str:
    """The traceback of `error`, without secrets."""
    return redactor.scrub_text("".join(traceback.format_exception(error))).rstrip("\n")


def _alone(error: Exception) -> Exception:
    """The one error inside groups of one, as a TaskGroup raises it."""
    inner: tuple[Exception, ...] = getattr(error, "exceptions", ())
    return _alone(inner[0]) if len(inner) == 1 else error


def _hint(error: click.UsageError) -> str:
    return f"Type '{error.ctx.command_path} --help' to see what there is." if error.ctx else ""
