"""What a run says while it goes on: each thing to its log and to whoever watches, and what it waits for while it waits.

Knows nothing of what is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from osmosis_runner.events import Warned
from osmosis_runner.waiting import waiting

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from osmosis_runner.events import Observer
    from osmosis_runner.redaction import RunRedactor
    from osmosis_runner.runlog import RunLog


class Narrator:
    """Tells the stages, warnings and child output of one run."""

    def __init__(self, log: RunLog, observer: Observer, redactor: RunRedactor) -> None:
        self._log = log
        self._observer = observer
        self._redactor = redactor
        self._last_said = ""

    def stage(self, text: str) -> None:
        """Tell what is done now."""
        self._log.info("run", text)
        self._observer.stage(text)

    def warn(self, code: str, text: str) -> None:
        """Tell what the user should know."""
        self._log.warning("run", text)
        self._observer.warned(Warned(code, text))

    def heard(self, step: str, lines: list[str]) -> None:
        """Take in what a child printed."""
        self._log.output(step, lines)
        if lines:
            self._last_said = self._redactor.message(lines[-1])

    def waiting(
        self, what: str, within_s: float, after_s: float | None = None
    ) -> AbstractContextManager[None]:
        """While inside, tell now and then that it takes long, with the last output since."""
        self._last_said = ""
        return waiting(self.stage, what, within_s, lambda: self._last_said, after_s)
