"""A module that a rollout's interpreter does not have: which interpreter that is, and how it gets there. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.last_words import telling

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGES = {"osmosis_runner": "osmosis-bridge", "osmosis_ai": "osmosis-ai"}
"""What has to be installed for the modules that rollouts are written with."""

_ABSENT = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[^']+)'")


class Setting(msgspec.Struct, frozen=True):
    """What a rollout runs in, as far as its author can change it; one of the three is given."""

    command: str | None = None
    """The user's own command."""
    environment: str | None = None
    """The environment that uv made for a project."""
    python: str | None = None
    """The interpreter of a rollout without a project."""
    asked: bool = False
    """It was named with `--python`."""
    project_file: str = "pyproject.toml"


def absent_module(lines: Sequence[str]) -> str | None:
    """The module that a process died for want of, by its last output; None when it died of something else."""
    found = _ABSENT.match(telling(lines))
    return found["name"] if found else None


def where_and_remedy(module: str, setting: Setting) -> tuple[str, str]:
    """Which interpreter has no such module, in words, and what to do."""
    top = module.partition(".")[0]
    package = PACKAGES.get(top, f"the package of {top}")
    if setting.command is not None:
        where = f"the Python that `{setting.command}` runs"
        return where, f"install {package} there, or name a Python that has it in the command"
    if setting.environment is not None:
        where = f"the environment of the rollout's project, {setting.environment},"
        return where, f"add {package} to the dependencies in {setting.project_file}"
    project = f"give the rollout a pyproject.toml with {package} among its dependencies"
    if setting.asked:
        where = f"the interpreter {setting.python} (asked for with --python)"
        return where, f"leave --python out, name one that has it, or {project}"
    where = f"the interpreter {setting.python}, which runs osmosis itself,"
    return where, f"{project}, or name an interpreter that has it with --python"
