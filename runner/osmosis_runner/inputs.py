"""The inputs that pin a run (`manifest.inputs`), and how they differ from what is asked for now.

Names of secrets count, their values never enter; a variable of [env] whose name sounds like a secret enters as a
digest. Not pinned: run name, output folder, concurrency, pass threshold, branch and commit, dataset name and path.
Pure.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from osmosis_runner.config import EvalConfig
from osmosis_runner.digest import SourceDigest, compare_files, digest_version
from osmosis_runner.errors import Change, ResumeMismatch
from osmosis_runner.extension import Extension, extension_of, widened
from osmosis_runner.jsontext import JsonObject, JsonValue
from osmosis_runner.rows import RowSet

ROLLOUT_PROTOCOL = "0.4"
DATASET_NORMALIZATION = 1
STATE_SCHEMA = 1

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|COOKIE|PRIVATE|DSN")
_HIDDEN = "hidden sha256:"
_SHOWN = 100


def build_inputs(
    config: EvalConfig,
    rows: RowSet,
    source: SourceDigest | None,
    endpoint: Mapping[str, JsonValue] | None = None,
) -> JsonObject:
    """Return `manifest.inputs`; `source` is None for a rollout server that somebody else started.

    `endpoint` is what `endpoint_of` tells; None leaves it out.
    """
    rollout: JsonObject = {"name": config.rollout, "entrypoint": config.entrypoint}
    if source is not None:
        rollout["source_digest"] = source.digest
        rollout["files"] = dict(source.files)
        rollout["lock_files"] = dict(source.lock_files)
    pinned: JsonObject = {"endpoint": dict(endpoint)} if endpoint is not None else {}
    return pinned | {
        "model_path": config.model_path,
        "dataset": {"sha256": rows.sha256, "selected_source_rows": rows.selection.compact()},
        "n": config.n,
        "rollout": rollout,
        "env": {name: pinned_value(name, value) for name, value in sorted(config.env.items())},
        "secret_names": sorted(config.required_secrets),
        "timeouts": {
            "agent_timeout_sec": config.agent_timeout_s,
            "grader_timeout_sec": config.grader_timeout_s,
        },
        "versions": {
            "rollout_protocol": ROLLOUT_PROTOCOL,
            "dataset_normalization": DATASET_NORMALIZATION,
            "state_schema": STATE_SCHEMA,
        },
    }


def pinned_value(name: str, value: str) -> str:
    """Return how the variable `name` of [env] is recorded: as it is, or as a digest when it sounds like a secret."""
    if not _SECRET_NAME.search(name):
        return value
    return _HIDDEN + hashlib.sha256(f"{name}={value}".encode()).hexdigest()[:16]


def compare_inputs(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> list[Change]:
    """Return every difference, value by value, in order of path; empty when the run may be resumed."""
    changes = list(_rollout_changes(_object(old, "rollout"), _object(new, "rollout")))
    apart = {"rollout"}
    # A run that was recorded before endpoints were, or a route that cannot be planned, says nothing of one.
    if "endpoint" not in old or "endpoint" not in new:
        apart.add("endpoint")
    for key in sorted((old.keys() | new.keys()) - apart):
        changes += _differences(key, old.get(key), new.get(key))
    return sorted(changes, key=lambda change: change.path)


def check_resumable(
    run_name: str,
    command: str,
    old: Mapping[str, JsonValue],
    new: Mapping[str, JsonValue],
    *,
    extend: bool = False,
) -> Extension | None:
    """Raise `ResumeMismatch` with the differences and the commands that help, if there are any.

    `command` is what was typed, without a name and without flags that say what becomes of an earlier run. With
    `extend` attempts and rows may be added; what is added is returned, None when nothing is.
    """
    extension = extension_of(old, new)
    if extend and extension is not None:
        changes = compare_inputs(widened(old, new), new)
    else:
        changes = compare_inputs(old, new)
    if changes:
        only_adds = extension is not None and not compare_inputs(widened(old, new), new)
        extensible = None if extend else only_adds
        raise ResumeMismatch(mismatch_text(run_name, command, changes, extensible=extensible), changes)
    return extension


def mismatch_text(
    run_name: str, command: str, changes: Sequence[Change], *, extensible: bool | None = False
) -> str:
    """Return the message of `check_resumable`.

    `extensible` says whether the differences only add to the run; None that it was to be extended and they do not.
    """
    only_format = all(change.path == _FORMAT_PATH for change in changes)
    reason = "was recorded by another version" if only_format else "was started with other inputs"
    lines = [f"Run {run_name!r} {reason}; nothing was changed:"]
    lines += [f"  - {change.message}" for change in changes]
    if extensible is None:
        lines.append(
            "--extend adds attempts, and rows behind those that the run has; it changes nothing else."
        )
    elif extensible:
        lines.append(f"Add to this run:         {command} --name {shlex.quote(run_name)} --extend")
    lines.append(f"Start another run:       {command} --name NEW")
    lines.append(f"or archive this one:     {command} --name {shlex.quote(run_name)} --fresh")
    return "\n".join(lines)


_FORMAT_PATH = "rollout.source_digest.format"


def _rollout_changes(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> Iterator[Change]:
    for key in ("name", "entrypoint"):
        yield from _differences(f"rollout.{key}", old.get(key), new.get(key))
    if old.get("name") != new.get("name"):
        return
    yield from _source_changes(old, new)
    yield from _lock_file_changes(_object(old, "lock_files"), _object(new, "lock_files"))


def _source_changes(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> Iterator[Change]:
    before, now = old.get("source_digest"), new.get("source_digest")
    if before == now:
        return
    if not isinstance(before, str) or not isinstance(now, str):
        started = "by the runner" if now is not None else "by --rollout-url"
        yield Change("rollout.source_digest", before, now, f"rollout: its server is started {started} now")
        return
    versions = (digest_version(before), digest_version(now))
    if versions[0] != versions[1]:
        text = (
            f"rollout: the source digest format changed ({versions[0] or 'unknown'} -> {versions[1]}), "
            "not necessarily your code: this run was recorded by another release"
        )
        yield Change(_FORMAT_PATH, before, now, text)
        return
    known = _texts(old, "files")
    files = compare_files(known, _texts(new, "files")) if known else None
    yield Change("rollout.source_digest", before, now, f"rollout source: {files or 'changed'}")


def _lock_file_changes(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> Iterator[Change]:
    """A lock file that appears is no change: the first dependency sync writes it."""
    for path in sorted(old.keys() & new.keys()):
        if old[path] != new[path]:
            text = f"rollout dependencies: {path} changed"
            yield Change(f"rollout.lock_files.{path}", old[path], new[path], text)


def _differences(path: str, old: JsonValue, new: JsonValue) -> Iterator[Change]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(f"{path}.{key}", old.get(key), new.get(key))
    elif old != new:
        yield Change(path, old, new, _difference_text(path, old, new))


def _difference_text(path: str, old: JsonValue, new: JsonValue) -> str:
    if path.startswith("env.") and any(str(value).startswith(_HIDDEN) for value in (old, new)):
        verb = "was added" if old is None else "was removed" if new is None else "has another value"
        return f"{path} {verb} (values of secrets are not shown)"
    if path == "secret_names":
        return f"secrets.required: {_names(old)} -> {_names(new)}"
    if path == "endpoint.origin":
        return (
            f"endpoint: {_shown(old)} -> {_shown(new)} (--api-base, or the provider's variable, says which)"
        )
    if path == "dataset.sha256":
        return f"dataset content: sha256 {str(old)[:12]} -> {str(new)[:12]}"
    if path == "dataset.selected_source_rows":
        return f"selected rows: {_shown(old)} -> {_shown(new)}"
    return f"{path}: {_shown(old)} -> {_shown(new)}"


def _names(value: JsonValue) -> str:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return _shown(value)
    return ", ".join(str(name) for name in value) or "none"


def _shown(value: JsonValue) -> str:
    if value is None:
        return "absent"
    text = value if isinstance(value, str) and value else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _object(value: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
    part = value.get(key)
    return part if isinstance(part, Mapping) else {}


def _texts(value: Mapping[str, JsonValue], key: str) -> Mapping[str, str]:
    return cast("Mapping[str, str]", _object(value, key))
