"""Where in an author's code something happened, in words, and tracebacks without the frames that are ours. Pure."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

OWN_FOLDER = str(Path(__file__).parent) + os.sep
"""Frames from here say nothing to an author."""

THREAD_ENTRIES = (f"asyncio{os.sep}threads.py", f"concurrent{os.sep}futures{os.sep}thread.py")
"""How a plain `def run` is reached."""

PART_LIMIT = 2_000
"""Characters of one frame or message: a message of megabytes would leave no room for the frames."""


def is_library(path: str) -> bool:
    """Whether a source file is of an installed package, of Python or of this project."""
    return "site-packages" in path or "/lib/python" in path or path.startswith(("<", OWN_FOLDER))


def named_place(path: str, line: int, function: str) -> str:
    """A place as it stands in messages: `main.py:8 in run`."""
    return f"{Path(path).name}:{line} in {function}"


def standing_at(frame: FrameType | None) -> str:
    """Where the author's code stands: the innermost frame that is of no installed package, else the innermost."""
    first = frame
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    shown = frame or first
    if shown is None:
        return "an unknown place"
    return named_place(shown.f_code.co_filename, shown.f_lineno, shown.f_code.co_name)


def raised_at(error: BaseException) -> str | None:
    """The innermost place of the author's own code that an exception went through; None when there is none."""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not is_library(code.co_filename):
            place = (code.co_filename, line, code.co_name)
    return named_place(*place) if place else None


def author_traceback(error: BaseException) -> str:
    """The traceback of an exception and of all it came from, without frames that are ours."""
    told = traceback.TracebackException.from_exception(error)
    waiting: list[traceback.TracebackException | None] = [told]
    while waiting:
        one = waiting.pop()
        if one is not None:
            one.stack = traceback.StackSummary.from_list([frame for frame in one.stack if not _ours(frame)])
            waiting += [one.__cause__, one.__context__, *(one.exceptions or ())]
    return "".join(part if len(part) <= PART_LIMIT else f"{part[:PART_LIMIT]}…\n" for part in told.format())


def _ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(OWN_FOLDER) or frame.filename.endswith(THREAD_ENTRIES)
