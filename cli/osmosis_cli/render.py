"""The only file that prints and the only one that asks: streams in, words out, in the chosen format.

rich: results on stdout, warnings and errors on stderr. plain: result lines on stdout, everything else on stderr.
json: exactly one document on stdout, or one error line on stderr. It knows nothing of rich's own library: drawn
tables reach it as text.
"""

from __future__ import annotations

import getpass
import os
from typing import TextIO

import msgspec

from osmosis_cli.errors import CLIError
from osmosis_cli.output import (
    Format,
    Json,
    Result,
    document,
    encode,
    error_document,
    one_line,
    plain_lines,
    printable,
    warning_document,
)
from osmosis_cli.spelling import spelled, wrapped

USUAL_COLUMNS = 80
"""Of a terminal that does not say."""


class Output(msgspec.Struct, frozen=True):
    """Where a command's words go; `version` stands in envelopes."""

    format: Format
    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    version: str

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked: rich output and a terminal on stdin."""
        return self.format is Format.RICH and self.stdin.isatty()

    def show(self, result: Result, drawn: str = "") -> int:
        """Write `result` to stdout, `drawn` standing for it in rich format; returns its exit code."""
        match self.format:
            case Format.JSON:
                self._put(self.stdout, encode(document(result)))
            case Format.PLAIN:
                for line in plain_lines(result):
                    self._put(self.stdout, line)
            case Format.RICH:
                self._put(self.stdout, drawn.rstrip("\n"))
        return result.exit_code

    def say(self, text: str) -> None:
        """A line for people on stdout; nothing in the other formats."""
        if self.format is Format.RICH:
            self._tell(self.stdout, printable(text))

    def say_drawn(self, drawn: str) -> None:
        """What rich has drawn, on stdout; nothing in the other formats."""
        if self.format is Format.RICH:
            self._put(self.stdout, drawn.rstrip("\n"))

    def status(self, text: str) -> None:
        """What is going on now: `→ text` for people, a line on stderr in plain format, nothing in JSON."""
        if self.format is Format.RICH:
            self._tell(self.stdout, f"→ {one_line(text)}")
        elif self.format is Format.PLAIN:
            self._put(self.stderr, one_line(text))

    def warn(self, code: str, text: str) -> None:
        """A warning on stderr, in its envelope when the format is JSON."""
        if self.format is Format.JSON:
            self._put(self.stderr, encode(warning_document(self.version, code, text)))
        else:
            self._tell(self.stderr, f"{'⚠' if self.format is Format.RICH else 'Warning:'} {printable(text)}")

    def note(self, text: str) -> None:
        """Context for a person on stderr, as it stands; nothing in JSON."""
        if self.format is not Format.JSON:
            self._put(self.stderr, printable(text))

    def fail(self, command: str, error: CLIError) -> None:
        """An error on stderr: what went wrong and how to fix it, or its envelope when the format is JSON."""
        if self.format is Format.JSON:
            details: dict[str, Json] = dict(error.details)
            if error.fix:
                details["fix"] = error.fix
            told = (str(error.code), error.message)
            self._put(self.stderr, encode(error_document(command, self.version, told, details)))
            return
        self._tell(self.stderr, printable(f"Error: {error.message}"))
        if error.fix:
            self._tell(self.stderr, printable(error.fix))

    def ask(self, question: str, *, default: bool) -> bool:
        """Ask a yes-or-no question on stderr; the end of input is a no, an empty answer is `default`."""
        choices = "[Y/n]" if default else "[y/N]"
        while True:
            line = self._answer(f"{printable(question)} {choices}: ")
            if not line:
                return False
            answer = line.strip().lower()
            if answer in ("", "y", "yes", "n", "no"):
                return default if not answer else answer[0] == "y"
            self._put(self.stderr, "Answer y or n.")

    def ask_hidden(self, prompt: str) -> str:
        """Ask on the terminal without echo; the end of input is an empty answer."""
        try:
            return getpass.getpass(f"{one_line(prompt)}: ", stream=self.stderr)
        except EOFError:
            self._put(self.stderr, "")
            return ""

    def _answer(self, prompt: str) -> str:
        """One line typed after `prompt`, empty at the end of input; the cursor is left at the start of a line."""
        self._put(self.stderr, prompt, end="")
        line = ""
        try:
            line = self.stdin.readline()
        finally:
            if not line:
                self._put(self.stderr, "")
        return line

    def _tell(self, stream: TextIO, text: str) -> None:
        """Words for people, wrapped where they read them on a terminal."""
        width = columns(stream) if self.format is Format.RICH else None
        lines = [line for whole in text.split("\n") for line in wrapped(whole, width)]
        self._put(stream, "\n".join(lines))

    def _put(self, stream: TextIO, text: str, end: str = "\n") -> None:
        print(spelled(text, stream.encoding), end=end, file=stream, flush=True)


def columns(stream: TextIO) -> int | None:
    """How wide the terminal is that `stream` writes to; None where it is no terminal."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_COLUMNS
    except (OSError, ValueError):
        return USUAL_COLUMNS
