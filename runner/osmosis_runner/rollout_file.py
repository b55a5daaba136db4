"""`rollouts/NAME/rollout.toml`: how a rollout that is no Python file is started.

    command = ["node", "main.js"]    # words, not a shell's line; run in the rollout's folder

    [env]                            # optional; [env] of a run file wins
    LOG_LEVEL = "info"

Knows the file and nothing of processes.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, cast

import msgspec

from osmosis_runner.config_fields import FieldReader, nearest
from osmosis_runner.errors import ConfigIssue, RolloutFileError
from osmosis_runner.toml_text import read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE_NAME = "rollout.toml"
KEYS = ("command", "env")

_EXAMPLE = 'write it as a list of words, such as command = ["node", "main.js"]'


class RolloutFile(msgspec.Struct, frozen=True):
    """What the file says; without a file, nothing."""

    command: tuple[str, ...] | None = None
    """None: the entrypoint is a Python file."""
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


def read_rollout_file(folder: Path) -> RolloutFile:
    """Read `folder/rollout.toml`, if there is one; raises `RolloutFileError` with everything that is wrong."""
    path = folder / FILE_NAME
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return RolloutFile()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise RolloutFileError(str(path), [ConfigIssue("", f"cannot be read: {why}")]) from None
    return parse_rollout_file(text, str(path))


def parse_rollout_file(text: str, path: str) -> RolloutFile:
    """Return what `text` says; `path` is only named in errors. Raises `RolloutFileError`."""
    toml = read_toml(text)
    if toml.table is None:
        raise RolloutFileError(path, toml.issues)
    reader = FieldReader(toml.table, toml.lines)
    for key in toml.table:
        if key not in KEYS:
            reader.problem(key, f"unknown key{nearest(key, KEYS) or '; known are ' + ' and '.join(KEYS)}")
    command = toml.table.get("command")
    wrong = command_problem(command)
    if wrong:
        reader.problem("command", wrong)
    env = reader.env()
    issues = toml.all_issues(reader.issues)
    if issues:
        raise RolloutFileError(path, issues)
    return RolloutFile(tuple(cast("list[str]", command)), env)


def command_problem(command: object) -> str | None:
    """What is wrong with a command, or None."""
    if command is None:
        return f"missing; {_EXAMPLE}"
    if isinstance(command, str):
        return f"must be a list of words, not a line: {_as_list(command)}"
    words = cast("list[object]", command) if isinstance(command, list) else []
    if not words:
        return f"must be a list with at least one word; {_EXAMPLE}"
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            return f"every word must be a string without NUL characters; {_EXAMPLE}"
    return None if str(words[0]).strip() else "must begin with the program to run"


def _as_list(line: str) -> str:
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    quoted = ", ".join(f'"{word}"' for word in words)
    return f"command = [{quoted}]"
