"""What can go wrong at the command line, as one error with a code, a fix and an exit code.

CLIError            the user's or the machine's doing; shown as a message and how to fix it, never as a traceback
  Declined          a prompt was answered with no; not a failure, exits 0
  Interrupted       Ctrl-C where no run was going on that would have told how it ended

Exit codes: 0 done; 1 any error; 2 the command was typed wrongly; 3 a run ended partial; 130, 143 and 129 after
SIGINT, SIGTERM and SIGHUP. This file knows nothing of how an error is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from osmosis_cli.output import Json


class Exit(IntEnum):
    """Exit codes, as CONTRACT.md 4 fixes them."""

    OK = 0
    ERROR = 1
    USAGE = 2
    PARTIAL = 3
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class Code(StrEnum):
    """What kind of error it is, as the JSON envelope names it (SPEC.md a.2)."""

    VALIDATION = "VALIDATION"
    NOT_FOUND = "NOT_FOUND"
    CONFLICT = "CONFLICT"
    NETWORK = "NETWORK"
    INTERNAL = "INTERNAL"
    INTERRUPTED = "INTERRUPTED"
    INTERACTIVE_REQUIRED = "INTERACTIVE_REQUIRED"
    WORKSPACE_REQUIRED = "WORKSPACE_REQUIRED"


class CLIError(Exception):
    """A failure told to the user as `message`, then as `fix`: one sentence each, without a final newline.

    `details` go into the JSON envelope only; they must be JSON values and hold no secret.
    """

    def __init__(
        self,
        message: str,
        *,
        fix: str = "",
        code: Code = Code.VALIDATION,
        exit_code: Exit = Exit.ERROR,
        details: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.code = code
        self.exit_code = exit_code
        self.details: Mapping[str, Json] = details or {}


class Declined(CLIError):
    """The user answered a prompt with no: nothing was done and nothing went wrong."""

    def __init__(self) -> None:
        super().__init__("Cancelled.", exit_code=Exit.OK)


class Interrupted(CLIError):
    """The user pressed Ctrl-C where no run was going on that would have told how it ended."""

    def __init__(self) -> None:
        super().__init__("Interrupted.", code=Code.INTERRUPTED, exit_code=Exit.INTERRUPTED)
