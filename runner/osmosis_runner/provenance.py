"""Where a run comes from, for its manifest: our version, the config, the state of the Git work tree.

Nothing of it pins the run. Git is asked with a short time limit; what it does not say is left out.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from osmosis_runner import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from osmosis_runner.config import EvalConfig
    from osmosis_runner.jsontext import JsonObject
    from osmosis_runner.options import RunOptions

GIT_WITHIN_S = 3.0


def provenance(config: EvalConfig, workspace: Path) -> JsonObject:
    """The manifest's `provenance` object."""
    found: JsonObject = {"sdk_version": __version__, "config_path": str(config.path)}
    if config.branch is not None:
        found["config_branch"] = config.branch
    if config.commit_sha is not None:
        found["config_commit_sha"] = config.commit_sha
    if config.advanced:
        found["advanced"] = dict(config.advanced)
    found.update(_git_state(workspace))
    return found


def launch_provenance(options: RunOptions) -> JsonObject:
    """What was said of how the rollout server is started, where that is not in the rollout's folder."""
    said: JsonObject = {
        "python": options.python,
        "rollout_command": list(options.rollout_command) if options.rollout_command else None,
        "rollout_url": options.rollout_url,
        "pass_provider_key": options.pass_provider_key or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _git_state(workspace: Path) -> JsonObject:
    # One process tells head, branch and whether anything differs.
    text = _git(workspace, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    if text is None:
        return {}
    state: JsonObject = {"git_dirty": any(line[:1] in "12u" for line in text.splitlines())}
    for line in text.splitlines():
        if line.startswith("# branch.oid ") and not line.endswith("(initial)"):
            state["git_head"] = line.rpartition(" ")[2]
        elif line.startswith("# branch.head ") and not line.endswith("(detached)"):
            state["git_branch"] = line.rpartition(" ")[2]
    return state


def _git(workspace: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(workspace), *arguments],
            capture_output=True,
            timeout=GIT_WITHIN_S,
            check=True,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
