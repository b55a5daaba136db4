"""The grammar of dotenv files (SPEC.md b.4): `NAME=value`, `export `, `#` lines, one pair of outer quotes.

Pure: text in, values out. A line that does not fit is reported by its number only, since it may hold a secret.
"""

from __future__ import annotations

import re

import msgspec

_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=(.*)", re.DOTALL)


class Dotenv(msgspec.Struct, frozen=True):
    """What a dotenv text says: the last value of each name, and the numbers (from 1) of lines that do not fit."""

    values: dict[str, str]
    malformed: tuple[int, ...]


def parse(text: str) -> Dotenv:
    """Read `text`; a leading byte order mark and Windows line ends are accepted."""
    values: dict[str, str] = {}
    malformed: list[int] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or "\0" in line:
            malformed.append(number)
            continue
        values[match[1]] = _unquote(match[2].strip())
    return Dotenv(values, tuple(malformed))


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
