"""What rollouts print, line by line with the row it belongs to: many run at once and share one output.

Told apart by the context the code runs in, so tasks and threads of a rollout are known too; what a subprocess
writes, or what goes to a file descriptor itself, is not.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO, cast

from osmosis_runner.rollout.execution import current_job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from osmosis_runner.rollout.admission import RolloutRequest

OPEN_LIMIT = 65_536
"""Characters of an unfinished line that are waited with."""


class Labelled:
    """A text stream in whose lines the rollout comes first; in all else it is the stream it was made of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._open: dict[tuple[int, str], str] = {}
        """Unfinished lines by thread and rollout: each has one writer, so a fork finds no lock taken."""

    def write(self, text: str) -> int:
        """Write what has become whole lines; the rest waits for its end."""
        job = current_job.get()
        if job is None:
            return self._stream.write(text)
        key = (threading.get_ident(), job.request.rollout_id)
        *lines, rest = (self._open.pop(key, "") + text).split("\n")
        if len(rest) > OPEN_LIMIT:
            lines, rest = [*lines, rest], ""
        if rest:
            self._open[key] = rest
        if lines:
            label = label_of(job.request)
            self._stream.write("".join(f"{label} {line}\n" if line else "\n" for line in lines))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several pieces."""
        for line in lines:
            self.write(line)

    def finish(self, request: RolloutRequest) -> None:
        """Write what a rollout that is over left unfinished."""
        for key in [key for key in list(self._open) if key[1] == request.rollout_id]:
            self._stream.write(f"{label_of(request)} {self._open.pop(key)}\n")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self._stream, name)


def label_output() -> tuple[Labelled, Labelled]:
    """Put labelled streams in the place of both outputs, also in loggers that are set up already."""
    output, errors = Labelled(sys.stdout), Labelled(sys.stderr)
    for handler in logging.root.handlers:
        stream = getattr(handler, "stream", None)
        for old, new in ((sys.stdout, output), (sys.stderr, errors)):
            if stream is old and isinstance(handler, logging.StreamHandler):
                cast("logging.StreamHandler[Any]", handler).setStream(new)
    sys.stdout, sys.stderr = cast("TextIO", output), cast("TextIO", errors)
    return output, errors


def label_of(request: RolloutRequest) -> str:
    """How a rollout is called in front of its lines: `[row 3 run 0]`, or by its id where there is no row."""
    extra = request.extra_fields or {}
    row, run = extra.get("row_index"), extra.get("run_index")
    if isinstance(row, int) and isinstance(run, int):
        return f"[row {row} run {run}]"
    return f"[rollout {request.rollout_id}]"
