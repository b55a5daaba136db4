"""A rollout with a `pyproject.toml`: its own environment, made and entered by uv.

An interpreter that is on this machine is used; none is downloaded unless the user's own settings say so. Knows
projects and uv; knows nothing of servers.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sysconfig
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from osmosis_runner.child import Command, Heard
from osmosis_runner.faults import LaunchError
from osmosis_runner.interpreters import (
    LISTED,
    Asker,
    Survey,
    complaint,
    in_vain,
    read_list,
    search_path,
    survey,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from osmosis_runner.child import Child, Nursery

SYNC_WITHIN_S = 900.0
ASK_WITHIN_S = 30.0
REASON_LIMIT = 600

UNSUITABLE = "incompatible with the project"
"""uv's words for an interpreter that the project does not allow."""

NO_DOWNLOAD = {"UV_PYTHON_DOWNLOADS": "never"}
"""An interpreter that is there is used; the user may say otherwise in the environment."""
RUN_VARIABLES = (
    "UV_PROJECT_ENVIRONMENT",
    "UV_CACHE_DIR",
    "UV_CONFIG_FILE",
    "UV_NO_CONFIG",
    "UV_OFFLINE",
    "UV_PYTHON_INSTALL_DIR",
    "UV_PYTHON_PREFERENCE",
)
"""Settings of uv that say which environment is meant; none of them is a credential."""


@dataclass(frozen=True, slots=True)
class Project:
    """One project and what uv is told about it."""

    folder: Path
    environ: Mapping[str, str] = field(repr=False)
    """All that uv sees while it installs."""
    python: str | None = None
    """Interpreter or version the user asked for."""

    @property
    def choice(self) -> list[str]:
        """The flag that says which interpreter is to be used."""
        return ["--python", self.python] if self.python else []


def find_uv() -> str:
    """Path of uv: beside our interpreter, else on PATH. Raises `LaunchError`."""
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        message = (
            "this rollout has a pyproject.toml and runs through uv, which is not installed: pip install uv"
        )
        raise LaunchError(message)
    return found


def run_command(project: Project, entrypoint: str) -> list[str]:
    """The command that runs the entrypoint in the project's environment; its folder must be the current one."""
    return [find_uv(), "run", "--no-sync", *project.choice, "--project", ".", "python", entrypoint]


def run_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """What uv must see to enter the environment that `sync_project` made."""
    return NO_DOWNLOAD | {name: environ[name] for name in RUN_VARIABLES if name in environ}


async def sync_project(project: Project, nursery: Nursery, heard: Heard) -> None:
    """Bring the project's own environment up to date; raises `LaunchError`."""
    seen = {**NO_DOWNLOAD, **project.environ, "PATH": search_path(project.environ)}
    uv = Uv(find_uv(), project.folder, seen, nursery)
    said: list[str] = []

    def listen(lines: list[str]) -> None:
        said.extend(lines)
        heard(lines)

    child = await uv.ended(["sync", *project.choice, "--project", "."], listen, SYNC_WITHIN_S)
    if child.returncode == 0:
        return
    request = [project.python] if project.python else []
    asked = await uv.ended(["python", "find", *request, "--project", "."])
    if asked.returncode == 0:
        why = reason(said) or child.describe_exit()
        message = f"the environment of {project.folder} could not be made: {why}"
        raise LaunchError(message)
    # uv may give up at a stand-in that fails where another program would do.
    asker = Asker(project.environ, project.folder)
    found = await asyncio.to_thread(survey, project.python, asker)
    if await _synced_with(project, uv, found, listen, said):
        return
    listed: list[str] = []
    await uv.ended(["python", "list", "--only-installed"], listed.extend)
    message = f"{project.folder}: {complaint(wanted(project), read_list(listed), found.silent)}"
    raise LaunchError(message)


async def _synced_with(project: Project, uv: Uv, found: Survey, listen: Heard, said: list[str]) -> bool:
    """Whether one of the interpreters will do; raises `LaunchError` where one does and the environment fails."""
    if not found.silent or (project.python and os.sep in project.python):
        return False
    for interpreter in found.suiting[:LISTED]:
        said.clear()
        child = await uv.ended(
            ["sync", "--python", interpreter.path, "--project", "."], listen, SYNC_WITHIN_S
        )
        if child.returncode == 0:
            listen([f"taken: {interpreter}{in_vain(found.silent)}"])
            return True
        why = reason(said) or child.describe_exit()
        if UNSUITABLE not in why:
            message = f"the environment of {project.folder} could not be made with {interpreter}: {why}"
            raise LaunchError(message)
    return False


@dataclass(frozen=True, slots=True)
class Uv:
    """uv, to be run in one folder."""

    path: str
    folder: Path
    environ: Mapping[str, str] = field(repr=False)
    nursery: Nursery

    async def ended(
        self, arguments: Sequence[str], heard: Heard = lambda _: None, within_s: float = ASK_WITHIN_S
    ) -> Child:
        """Run a subcommand to its end; raises `LaunchError` when it cannot be started or takes too long."""
        name = f"uv {arguments[0]}"
        command = Command([self.path, *arguments], self.folder, self.environ, name)
        try:
            child = self.nursery.start(command, heard)
        except OSError as error:
            message = f"{name} could not be started: {self.path}: {error.strerror}"
            raise LaunchError(message) from None
        try:
            async with asyncio.timeout(within_s):
                await child.exited.wait()
        except TimeoutError:
            message = f"{name} in {self.folder} did not end within {within_s:g} s"
            raise LaunchError(message) from None
        finally:
            await child.kill()
        return child


def reason(said: Sequence[str]) -> str:
    """Why uv failed, in its own words: from its last line that begins an error, on one line, bounded."""
    starts = [number for number, line in enumerate(said) if line.lstrip().startswith(("error:", "\u00d7"))]
    told = said[starts[-1] :] if starts else said[-1:]
    text = " ".join(" ".join(told).split()).removeprefix("error: ")
    return text if len(text) <= REASON_LIMIT else f"{text[:REASON_LIMIT]} …"


def wanted(project: Project) -> str:
    """The interpreter that is wanted, in words: what the user asked for, else what the project says."""
    if project.python:
        return f"{project.python!r} (asked for with --python)"
    pin = project.folder / ".python-version"
    try:
        if pin.is_file():
            return f"{pin.read_text('utf-8').strip()} (wanted by .python-version)"
        table = tomllib.loads((project.folder / "pyproject.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return "that suits"
    required = table.get("project", {}).get("requires-python")
    return f"{required} (requires-python in pyproject.toml)" if required else "that suits"
