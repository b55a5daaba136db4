"""The bridge's log: structlog to standard error, one line a call at its end.

Every line passes the redactor, tracebacks included; a line is text for people or one JSON object. A log that
cannot be written is no reason for a call to fail. Knows nothing of calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Literal, TextIO

import orjson

from osmosis_bridge.redact import Redactor
from osmosis_bridge.timestamps import iso_time


@contextlib.contextmanager
def _without(library: str) -> Generator[None]:
    """As if a library were not installed, unless it is loaded already."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # pyright: ignore[reportArgumentType] - what the import system takes for "not there"
    try:
        yield
    finally:
        del sys.modules[library]


# structlog loads rich where it finds it, to draw tracebacks that no bridge draws: a third of a bridge's start.
with _without("rich"):
    import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

    _Line = Callable[[WrappedLogger, str, EventDict], str]

_NOISY = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")


def open_log(
    form: Literal["console", "json"], redactor: Redactor, stream: TextIO | None = None
) -> FilteringBoundLogger:
    """A logger that writes redacted lines to `stream`, standard error if None."""
    target = sys.stderr if stream is None else stream

    render: Processor = (
        _as_json if form == "json" else structlog.dev.ConsoleRenderer(colors=target.isatty(), pad_event_to=0)
    )

    def line(wrapped: WrappedLogger, method: str, event: EventDict) -> str:
        """One step instead of one for each part: every call has a line."""
        if method == "info":
            event["level"] = method
        else:
            structlog.processors.add_log_level(wrapped, method, event)
        event["timestamp"] = iso_time(time.time())
        if "exc_info" in event:
            event = structlog.processors.format_exc_info(wrapped, method, event)
        # The redactor is last: it sees the line as it will be read, whatever its values were.
        return redactor.scrub_text(str(render(wrapped, method, event)))

    logger: FilteringBoundLogger = structlog.wrap_logger(
        _Lines(target),
        processors=[line],
        wrapper_class=_Logger,
        cache_logger_on_first_use=True,
    ).bind()
    _join_standard_logging(logger)
    return logger


if TYPE_CHECKING:
    _Filtering = structlog.BoundLoggerBase
else:
    _Filtering = structlog.make_filtering_bound_logger(logging.INFO)


class _Logger(_Filtering):
    """structlog's, with a short way for the line that every call has."""

    def info(self, event: str, **fields: object) -> None:
        """See `FilteringBoundLogger.info`."""
        if self._context:
            self._proxy_to_logger("info", event, **fields)
            return
        fields["event"] = event
        # One processor, as `open_log` has it, and nothing bound: no copy, no search for the method to call.
        (line,) = self._processors
        self._logger.later(line, fields)


class _Lines:
    """Writes lines, as long as there is somebody to read them.

    What is only information waits until the replies of this turn of the event loop have left, and is made into lines
    and written with the rest of the turn.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._waiting: list[tuple[_Line, EventDict]] = []

    def msg(self, message: str) -> None:
        """Write a line now, after those that wait."""
        self._write(message)

    def later(self, line: _Line, event: EventDict) -> None:
        """Write what `line` makes of an event after this turn of the event loop, at once where there is none."""
        if not self._waiting:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self._write(line(self, "info", event))
                return
            # What is sent at this turn's end may have been asked for after this: a turn more, and it is out.
            loop.call_soon(loop.call_soon, self._write)
        self._waiting.append((line, event))

    def _write(self, *further: str) -> None:
        waiting, self._waiting = self._waiting, []
        lines = [*[line(self, "info", event) for line, event in waiting], *further]
        if not lines:
            return
        # Closed, full or gone: there is no other place to say so.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


class _Forward(logging.Handler):
    """Passes what libraries log through the same processors, so that nothing escapes the redactor."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        details = {"error": repr(record.exc_info[1])} if record.exc_info and record.exc_info[1] else {}
        self._logger.log(record.levelno, record.getMessage(), logger=record.name, **details)


def _join_standard_logging(logger: FilteringBoundLogger) -> None:
    handler = _Forward(logger)
    for name in _NOISY:
        library = logging.getLogger(name)
        library.handlers = [handler]
        library.propagate = False
        library.setLevel(logging.WARNING)


def _as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    try:
        return orjson.dumps(event, default=repr).decode()
    except TypeError:
        # A lone surrogate or an integer beyond 64 bits.
        return json.dumps(event, default=repr)
