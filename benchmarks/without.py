"""Our bridge with some of its defaults taken out, to measure what each of them costs. Not a way to run it.

python -m benchmarks.without PARTS serve ...    PARTS of ledger, log, redaction, metrics, joined by commas

The parts are replaced where the bridge puts itself together, so that everything else is the code that is shipped.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import FilteringBoundLogger

from osmosis_bridge import server
from osmosis_bridge.__main__ import bridge
from osmosis_bridge.metrics import Metrics
from osmosis_bridge.redact import Redactor


class _Reveal(Redactor):
    """A redactor that finds nothing."""

    def scrub(self, content: bytes) -> bytes:
        """The same bytes."""
        return content

    def scrub_text(self, text: str) -> str:
        """The same text."""
        return text


class _Unwatched(Metrics):
    """Metrics that do not measure the event loop."""

    def watch_loop(self) -> None:
        """Nothing."""


def silent(*_arguments: object, **_options: object) -> FilteringBoundLogger:
    """A logger that drops every line before it is made."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        None, processors=[], wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )
    return logger


def take_out(part: str, arguments: list[str]) -> list[str]:
    """Take one part out; returns the arguments that are left."""
    if part == "ledger":
        at = arguments.index("--ledger")
        return arguments[:at] + arguments[at + 2 :]
    replaced = {
        "log": ("open_log", silent),
        "redaction": ("Redactor", _Reveal),
        "metrics": ("Metrics", _Unwatched),
    }
    name, other = replaced[part]
    # A part that has been renamed must fail here, not be measured as if it were out.
    getattr(server, name)
    setattr(server, name, other)
    return arguments


def main(arguments: list[str]) -> None:
    """Serve without the parts that the first argument names."""
    rest = arguments[1:]
    for part in arguments[0].split(","):
        rest = take_out(part, rest)
    bridge(rest, prog_name="osmosis bridge")


if __name__ == "__main__":
    main(sys.argv[1:])
