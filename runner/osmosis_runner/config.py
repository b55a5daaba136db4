"""The run file (`configs/eval/NAME.toml`) as one frozen value, with every mistake of it told at once.

Knows the fields, their rules and their lines; knows nothing of datasets, folders of rollouts or providers.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from osmosis_runner.config_fields import (
    FieldReader,
    any_rule,
    branch_rule,
    commit_rule,
    dataset_rule,
    entrypoint_rule,
    model_rule,
    n_rule,
    positive_rule,
    rollout_rule,
)
from osmosis_runner.errors import ConfigError, ConfigIssue, ConfigNotFound
from osmosis_runner.jsontext import JsonValue
from osmosis_runner.toml_text import read_toml

DEFAULT_AGENT_TIMEOUT_S = 450.0
DEFAULT_GRADER_TIMEOUT_S = 150.0


class EvalConfig(msgspec.Struct, frozen=True):
    """One run file, valid; times in seconds."""

    path: Path
    rollout: str
    """Name of the folder under `rollouts/`."""
    entrypoint: str
    """File inside that folder, with forward slashes."""
    model_path: str
    dataset: str
    branch: str | None = None
    commit_sha: str | None = None
    limit: int | None = None
    """First N rows; None = every row (also for a written value <= 0)."""
    n: int = 1
    """Attempts per row."""
    batch_size: int | None = None
    """Concurrent rollouts; None = not given, or given as <= 0."""
    pass_threshold: float = 1.0
    agent_timeout_s: float = DEFAULT_AGENT_TIMEOUT_S
    grader_timeout_s: float = DEFAULT_GRADER_TIMEOUT_S
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    required_secrets: tuple[str, ...] = ()
    advanced: Mapping[str, JsonValue] = msgspec.field(default_factory=dict[str, JsonValue])
    explicit: frozenset[str] = frozenset()
    """`section.field` of every field the file wrote out."""


def load_config(path: Path, workspace: Path) -> EvalConfig:
    """Read the run file at `path`, which must lie under `workspace/configs/eval` and end `.toml`.

    Raises `ConfigNotFound` (naming files that exist) and `ConfigError`.
    """
    folder = workspace / "configs" / "eval"
    _check_place(path, folder)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), [ConfigIssue("", f"cannot be read: {error.strerror}")]) from None
    return parse_config(_decode(content, path), path)


def parse_config(text: str, path: Path) -> EvalConfig:
    """Return the config that `text` says; `path` is only named in it and in errors. Raises `ConfigError`."""
    toml = read_toml(text)
    if toml.table is None:
        raise ConfigError(str(path), toml.issues)
    reader = FieldReader(toml.table, toml.lines)
    config = _read(reader, path)
    issues = toml.all_issues(reader.issues)
    if issues:
        raise ConfigError(str(path), issues)
    return config


def rollout_directory(config: EvalConfig, workspace: Path) -> Path:
    """Return `workspace/rollouts/ROLLOUT` after checking that it and the entrypoint exist inside it.

    Raises `ConfigError` naming the folder or file that is missing and what does exist.
    """
    rollouts = workspace / "rollouts"
    folder = rollouts / config.rollout
    if not folder.is_dir():
        there = _names(rollouts, folders=True)
        raise _field_error(config, "rollout", f"no folder {folder}; there are: {there}")
    entrypoint = folder / config.entrypoint
    if not entrypoint.resolve().is_relative_to(folder.resolve()):
        raise _field_error(config, "entrypoint", f"{config.entrypoint} leads out of {folder} by a link")
    if not entrypoint.is_file():
        there = _names(folder, folders=False)
        raise _field_error(config, "entrypoint", f"no file {entrypoint}; there are: {there}")
    return folder


def _read(reader: FieldReader, path: Path) -> EvalConfig:
    reader.missing_sections()
    reader.unknown_names()
    for name in ("experiment", "evaluation", "secrets"):
        reader.section(name)
    limit = reader.whole("evaluation.limit", any_rule)
    batch_size = reader.whole("evaluation.batch_size", any_rule)
    threshold = reader.number("evaluation.pass_threshold", any_rule)
    branch = reader.text("experiment.branch", branch_rule)
    commit_sha = reader.text("experiment.commit_sha", commit_rule)
    explicit = reader.explicit()
    if {"experiment.branch", "experiment.commit_sha"} <= explicit:
        reader.problem("experiment.commit_sha", "cannot stand beside experiment.branch; keep one of them")
    return EvalConfig(
        path=path,
        rollout=reader.text("experiment.rollout", rollout_rule) or "",
        entrypoint=reader.text("experiment.entrypoint", entrypoint_rule) or "",
        model_path=reader.text("experiment.model_path", model_rule) or "",
        dataset=reader.text("experiment.dataset", dataset_rule) or "",
        branch=branch,
        commit_sha=commit_sha,
        limit=limit if limit is not None and limit > 0 else None,
        n=reader.whole("evaluation.n", n_rule) or 1,
        batch_size=batch_size if batch_size is not None and batch_size > 0 else None,
        pass_threshold=1.0 if threshold is None else threshold,
        agent_timeout_s=reader.number("evaluation.agent_workflow_timeout_s", positive_rule)
        or DEFAULT_AGENT_TIMEOUT_S,
        grader_timeout_s=reader.number("evaluation.grader_timeout_s", positive_rule)
        or DEFAULT_GRADER_TIMEOUT_S,
        env=reader.env(),
        required_secrets=reader.required_secrets() if "secrets.required" in explicit else (),
        advanced=reader.advanced(),
        explicit=explicit,
    )


def _check_place(path: Path, folder: Path) -> None:
    if path.suffix != ".toml":
        raise ConfigError(str(path), [ConfigIssue("", "the name of a run file must end .toml")])
    if not path.exists():
        known = [entry.name for entry in sorted(folder.glob("*.toml"))] if folder.is_dir() else []
        close = difflib.get_close_matches(path.name, known, n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"{folder} holds: {', '.join(known) or 'no run file'}"
        )
        raise ConfigNotFound(str(path), [ConfigIssue("", f"does not exist; {hint}")])
    if not path.is_file():
        raise ConfigError(str(path), [ConfigIssue("", "is not a file")])
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(str(path), [ConfigIssue("", f"a run file must lie under {folder}")])


def _decode(content: bytes, path: Path) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(str(path), [ConfigIssue("", "is UTF-16; save it as UTF-8")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{content[error.start]:02X} is not UTF-8; save the file as UTF-8"
        raise ConfigError(str(path), [ConfigIssue("", found, line)]) from None


def _field_error(config: EvalConfig, field_name: str, message: str) -> ConfigError:
    return ConfigError(str(config.path), [ConfigIssue(f"experiment.{field_name}", message)])


def _names(folder: Path, *, folders: bool) -> str:
    if not folder.is_dir():
        return "none"
    found = sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() == folders and not entry.name.startswith(".")
    )
    return ", ".join(found[:20]) or "none"
