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
OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes of children's output that one invocation keeps. What the run itself says is always kept."""


class RunLog:
    """The log of one invocation. `scrub` replaces secrets in a text."""

    def __init__(self, observer: Observer, scrub: Callable[[str], str]) -> None:
        self._observer = observer
        self._scrub = scrub
        self._waiting: list[bytes] = []
        self._fd: int | None = None
        self._output_bytes = 0
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
        """Lines of a child's output; from `OUTPUT_LIMIT` on they are shown to who watches and not written."""
        told = [LogLine("INFO", step, self._scrub(line)) for line in lines]
        if self._output_bytes >= OUTPUT_LIMIT:
            self._show(told)
            return
        self._output_bytes += self._add(told, None)
        if self._output_bytes >= OUTPUT_LIMIT:
            size = f"{OUTPUT_LIMIT // (1024 * 1024)} MB"
            self.warning(
                "run", f"(cut) {size} of output are in this log; what is printed from here on is not"
            )

    def _add(self, lines: list[LogLine], details: Mapping[str, JsonValue] | None) -> int:
        """Write and show; returns the bytes."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        tail = " " + self._scrub(msgspec.json.encode(details).decode()) if details else ""
        text = "".join(f"{now} {line.level} [{line.step}] {line.message}{tail}\n" for line in lines)
        content = text.encode("utf-8", "backslashreplace")
        self._write(content)
        self._show(lines)
        return len(content)

    def _show(self, lines: list[LogLine]) -> None:
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
