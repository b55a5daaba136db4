"""Bytes of a child's output to lines fit for a log. Pure.

Any size, any encoding, any split: a long line is cut and the rest of it skipped, so memory stays bounded and
reading never stops.
"""

from __future__ import annotations

import re

LINE_LIMIT = 8_192
"""Bytes of one line that are kept."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class LineCutter:
    """Collects chunks and hands out whole lines."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._skipped = 0

    def feed(self, chunk: bytes) -> list[str]:
        """Take a chunk in; the lines it completed, without their ends and without blank ones."""
        first, *others = chunk.split(b"\n")
        lines: list[str] = []
        self._append(first)
        for part in others:
            lines.append(self._take())
            self._append(part)
        return [line for line in lines if line]

    def finish(self) -> list[str]:
        """The unfinished last line, if there is one."""
        line = self._take()
        return [line] if line else []

    def _append(self, part: bytes) -> None:
        room = self._limit - len(self._kept)
        self._kept += part[:room]
        self._skipped += max(0, len(part) - room)

    def _take(self) -> str:
        text = clean(bytes(self._kept))
        if self._skipped:
            text += f" … [cut: {self._skipped} more bytes of this line]"
        self._kept.clear()
        self._skipped = 0
        return text


def clean(line: bytes) -> str:
    """The text of a line: bytes that are no UTF-8 and control characters escaped, colour codes removed."""
    text = _ESCAPES.sub("", line.decode("utf-8", "backslashreplace"))
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text.rstrip("\r\x00")).rstrip()
