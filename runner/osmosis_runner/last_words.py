"""What the last output of a dead process tells of its end. Pure; lines come without their ends."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUOTED = 15
"""Lines of output that stand in a message."""

_FRAME = re.compile(r'\bFile "(?P<path>[^"]+)", line (?P<line>\d+)')
_LABEL = re.compile(r"\[(?:row \d+ run \d+|rollout [^\]]*)\] ?")
"""What our host puts before the lines of a rollout."""


def telling(lines: Sequence[str]) -> str:
    """The last line that has a word in it (a traceback of a group ends in a drawn one), or an empty text."""
    for line in reversed(lines):
        if any(letter.isalnum() for letter in _LABEL.sub("", line)):
            return line.lstrip(" |")
    return ""


def place_within(lines: Sequence[str], folder: Path) -> str | None:
    """The innermost line of a file of `folder` in the last traceback, as `main.py:7`, or None."""
    for line in reversed(lines):
        frame = _FRAME.search(line)
        path = os.path.relpath(folder / frame["path"], folder) if frame else ".."
        if frame and not path.startswith("..") and "site-packages" not in path:
            return f"{path}:{frame['line']}"
    return None


def quoted(lines: Sequence[str]) -> str:
    """The last lines, indented, under one another."""
    return "".join(f"\n    {line}" for line in lines[-QUOTED:])
