"""logs.txt: one line per event of a run, secrets taken out, kept in memory until the run has a directory.

Line: `TIME LEVEL [STEP] MESSAGE {DETAILS}`, time ISO 8601 UTC in microseconds. Appended with one write per batch and
without fsync: a log is for people, results are in the journal. A log that cannot be written does not end a run;
`trouble` says so once.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.events import LogLine, Observer, Warned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from osmosis_runner.jsontext import JsonValue

BUFFERED_LINES = 2_000


class RunLog:
    """The log of one invocation. `scrub` replaces secrets in a text."""

    def __init__(self, observer: Observer, scrub: Callable[[str], str]) -> None:
        self._observer = observer
        self._scrub = scrub
        self._waiting: list[bytes] = []
        self._fd: int | None = None
        self._path: Path | None = None
        self.trouble: str | None = None
        """Why lines are no longer written; None while they are."""

    def open(self, path: Path) -> None:
        """Write what has gathered to `path` and everything from now on as it comes."""
        self._path = path
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._give_up(path, error)
        waiting, self._waiting = self._waiting, []
        self._write(b"".join(waiting))

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def info(self, step: str, message: str, details: Mapping[str, JsonValue] | None = None) -> None:
        """An ordinary event."""
        self._add([LogLine("INFO", step, self._scrub(message))], details)

    def warning(self, step: str, message: str, details: Mapping[str, JsonValue] | None = None) -> None:
        """Something worth a look."""
        self._add([LogLine("WARNING", step, self._scrub(message))], details)

    def error(self, step: str, message: str, details: Mapping[str, JsonValue] | None = None) -> None:
        """Something that failed."""
        self._add([LogLine("ERROR", step, self._scrub(message))], details)

    def output(self, step: str, lines: Iterable[str]) -> None:
        """Lines of a child's output."""
        self._add([LogLine("INFO", step, self._scrub(line)) for line in lines], None)

    def _add(self, lines: list[LogLine], details: Mapping[str, JsonValue] | None) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        tail = " " + self._scrub(msgspec.json.encode(details).decode()) if details else ""
        text = "".join(f"{now} {line.level} [{line.step}] {line.message}{tail}\n" for line in lines)
        self._write(text.encode("utf-8", "backslashreplace"))
        for line in lines:
            self._observer.logged(line)

    def _write(self, text: bytes) -> None:
        if self.trouble is not None or not text:
            return
        if self._fd is None:
            self._waiting.append(text)
            del self._waiting[:-BUFFERED_LINES]
            return
        try:
            os.write(self._fd, text)
        except OSError as error:
            self._give_up(self._path, error)

    def _give_up(self, path: Path | None, error: OSError) -> None:
        """A log is a comfort: the run goes on without it, and says so once."""
        self.trouble = f"cannot write {path}: {error.strerror}; the run goes on without its log"
        self._observer.warned(Warned("NO_LOG", self.trouble))
