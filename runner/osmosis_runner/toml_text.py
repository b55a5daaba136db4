"""A TOML text read as far as it goes: its table, where its keys stand, and what is wrong with its syntax. Pure.

The parser stops at the first mistake. One that is confined to its line is told, and the rest is read without that line,
so that a file's mistakes are all told at once. After one that may reach further (a section's head, a list that is not
closed) nothing is guessed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence

import msgspec

from osmosis_runner.errors import ConfigIssue
from osmosis_runner.toml_lines import TomlLines, scan_lines

MOST_MISTAKES = 20

_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)")
_BARE = re.compile(r"([A-Za-z0-9_-]+)\s*=\s*([A-Za-z][A-Za-z0-9_./-]{0,60})")
_NAME = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)""")


class TomlText(msgspec.Struct, frozen=True):
    """What could be read of a text."""

    table: Mapping[str, object] | None
    """Without the lines that are wrong; None where it could not be read past a mistake."""
    lines: TomlLines
    issues: tuple[ConfigIssue, ...] = ()
    """Mistakes of syntax, in the order of their lines."""
    left_out: frozenset[str] = frozenset()
    """First words of the lines that are wrong: the names of keys which are therefore not in `table`."""

    def all_issues(self, others: Sequence[ConfigIssue]) -> list[ConfigIssue]:
        """Mistakes of syntax with other problems, in order of their lines; a key that was left out is not missing."""
        kept = [issue for issue in others if not self._follows(issue)]
        return sorted([*self.issues, *kept], key=_line) if self.issues else kept

    def _follows(self, issue: ConfigIssue) -> bool:
        return issue.message.startswith("missing") and issue.key.rpartition(".")[2] in self.left_out


def read_toml(text: str) -> TomlText:
    """Read `text`, past a byte order mark and past mistakes that keep to their line."""
    text = text.removeprefix("\ufeff")
    lines, kept = scan_lines(text), text.split("\n")
    issues: list[ConfigIssue] = []
    left_out: set[str] = set()
    while True:
        try:
            table = tomllib.loads("\n".join(kept))
        except tomllib.TOMLDecodeError as error:
            found, number = _mistake(str(error), lines, kept)
            issues += found
            if number is None or len(issues) >= MOST_MISTAKES:
                return TomlText(None, lines, tuple(issues))
            name = _NAME.match(kept[number - 1])
            left_out.update([name[1]] if name else [])
            kept[number - 1] = ""
        except RecursionError:
            issues.append(ConfigIssue("", "is nested too deeply"))
            return TomlText(None, lines, tuple(issues))
        else:
            return TomlText(table, lines, tuple(issues), frozenset(left_out))


def _mistake(message: str, lines: TomlLines, kept: Sequence[str]) -> tuple[list[ConfigIssue], int | None]:
    """What the parser found, and the line to go on without; None where it may reach beyond its line."""
    if lines.repeats and re.search(r"overwrite|twice|redefine|mutate", message):
        return _repeats(lines), None
    place = _PLACE.search(message)
    if place is None:
        what = message.removesuffix(" (at end of document)")
        return [
            ConfigIssue(
                "", f"invalid TOML: {what} at the end of the file: a list, a table or a text is not closed"
            )
        ], None
    number, what = int(place[1]), message.replace(place[0], "")
    line = kept[number - 1].strip()
    issue = ConfigIssue("", f"invalid TOML: {what} at column {place[2]}{_advice(what, line)}", number)
    confined = bool(line) and not line.startswith("[") and not _is_toml(line) and not _opens(line)
    return [issue], number if confined else None


def _advice(what: str, line: str) -> str:
    if what.startswith("Illegal character") and "\\n" in what:
        return "; the text on this line is not closed"
    bare = _BARE.fullmatch(line)
    return (
        f'; text stands in double quotes: {bare[1]} = "{bare[2]}"' if bare and what == "Invalid value" else ""
    )


def _line(issue: ConfigIssue) -> tuple[bool, int]:
    return issue.line is None, issue.line or 0


def _repeats(lines: TomlLines) -> list[ConfigIssue]:
    return [
        ConfigIssue(key, f"stands twice, first in line {lines.lines[key]}; keep one", line)
        for key, line in lines.repeats
    ]


def _is_toml(line: str) -> bool:
    """Whether a line alone is in order: then the mistake is before it."""
    try:
        tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return True


def _opens(line: str) -> bool:
    """Whether a line alone breaks off at its end: then what follows may belong to it."""
    try:
        tomllib.loads(line + "\n")
    except tomllib.TOMLDecodeError as error:
        return "end of document" in str(error) or line.count('"""') % 2 == 1 or line.count("'''") % 2 == 1
    except RecursionError:
        return True
    return False
