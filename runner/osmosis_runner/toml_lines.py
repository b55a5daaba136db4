"""Where the keys of a TOML text stand, for messages that name a line.

Only a scanner of `[section]` and `key =` lines: the TOML parser decides what the text means, this tells where. What it
cannot place (keys inside inline tables) has no line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_PART = re.compile(_NAME)
_TRIPLES = ('"""', "'''")


class TomlLines(msgspec.Struct, frozen=True):
    """Dotted keys and sections of one text, each with the 1-based line of its first appearance."""

    lines: dict[str, int]
    repeats: tuple[tuple[str, int], ...]
    """Keys and sections that appear again, with the line of each repetition."""

    def of(self, key: str) -> int | None:
        """Return the line of `section.key`, else that of its section, else None."""
        return self.lines.get(key) or self.lines.get(key.partition(".")[0])


def scan_lines(text: str) -> TomlLines:
    """Return where the keys of `text` stand."""
    lines: dict[str, int] = {}
    repeats: list[tuple[str, int]] = []
    sections: set[str] = set()
    section = ""
    for number, line in _outside_strings(text):
        if header := _HEADER.match(line):
            section = _plain(header[1])
            if section in sections:
                repeats.append((section, number))
            sections.add(section)
            lines.setdefault(section, number)
        elif match := _KEY.match(line):
            key = ".".join(part for part in (section, _plain(match[1])) if part)
            if key in lines:
                repeats.append((key, number))
            lines.setdefault(key, number)
            lines.setdefault(key.partition(".")[0], number)
    return TomlLines(lines, tuple(repeats))


def _plain(dotted: str) -> str:
    return ".".join(part.strip("\"'") for part in _PART.findall(dotted))


def _outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that do not begin inside a multi-line string."""
    closing = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not closing:
            yield number, line
            if line.lstrip().startswith("#"):
                continue
        closing = _open_after(line, closing)


def _open_after(line: str, closing: str) -> str:
    place = 0
    while True:
        if closing:
            end = line.find(closing, place)
            if end < 0:
                return closing
            place, closing = end + 3, ""
        found = [(line.find(triple, place), triple) for triple in _TRIPLES if line.find(triple, place) >= 0]
        if not found:
            return ""
        start, closing = min(found)
        place = start + 3
