"""Runs the command line in this process, as a person or a program would type it, and keeps what it said."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osmosis_cli.environment import Environment
from osmosis_cli.main import run
from osmosis_cli.output import Format
from osmosis_cli.render import Output


class Stream(io.StringIO):
    """A text stream that may pretend to be a terminal."""

    def __init__(self, text: str = "", *, terminal: bool = False) -> None:
        super().__init__(text)
        self.terminal = terminal

    def isatty(self) -> bool:
        """Whether it pretends to be one."""
        return self.terminal


@dataclass(frozen=True, slots=True)
class Said:
    """What a command line answered."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """stdout, which must be one JSON document on one line."""
        assert self.stdout.count("\n") == 1
        return json.loads(self.stdout)

    @property
    def error(self) -> Any:
        """The error envelope on the last line of stderr."""
        return json.loads(self.stderr.splitlines()[-1])


def osmosis(
    *arguments: str, environ: Mapping[str, str] | None = None, stdin: str = "", terminal: bool = False
) -> Said:
    """Run `osmosis ARGUMENTS`; `terminal` makes stdin one."""
    stdout, stderr = Stream(), Stream()
    code = run(arguments, environ or {}, (Stream(stdin, terminal=terminal), stdout, stderr))
    return Said(code, stdout.getvalue(), stderr.getvalue())


def output(
    form: Format = Format.RICH, *, stdin: str = "", terminal: bool = False
) -> tuple[Output, Stream, Stream]:
    """An `Output` with the streams it writes to: itself, stdout, stderr."""
    stdout, stderr = Stream(terminal=terminal), Stream(terminal=terminal)
    return Output(form, Stream(stdin, terminal=terminal), stdout, stderr, "9.9.9"), stdout, stderr


def environment(**values: str) -> Environment:
    """An environment with just these variables."""
    return Environment(values)
