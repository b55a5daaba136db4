"""The directory of one run: its paths, its manifest, and its making and archiving in one step each.

`OUTPUT/NAME/` holds manifest.json, events.jsonl, index.jsonl, summary.jsonl, progress.json, metrics.json, rows.jsonl,
calls.jsonl, logs.txt, trajectories/, artifacts/, rollout_trials/. It appears whole, by rename, or not at all. Names are
in `names`, the lock in `lock`, what is written while the run goes on in `snapshots`. Whoever changes a run holds its
lock.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from osmosis_runner.errors import RunDirError, RunExists, StorageError
from osmosis_runner.files import replace_json, replace_lines, sync_folder, write_lines, write_new
from osmosis_runner.jsontext import JsonObject, JsonValue, pretty
from osmosis_runner.preview import row_preview
from osmosis_runner.rows import Row

__all__ = [
    "MANIFEST_SCHEMA",
    "Manifest",
    "RunDir",
    "archive_run",
    "create_run",
    "find_run",
    "is_run",
    "read_manifest",
    "row_preview",
    "run_names",
]

MANIFEST_SCHEMA = 1
_FOLDERS = ("trajectories", "artifacts", "rollout_trials")


class Manifest(msgspec.Struct, frozen=True):
    """manifest.json: written once, and again only when the run is extended."""

    local_run_id: str
    """32 hex characters."""
    run_name: str
    created_at: str
    inputs: JsonObject
    provenance: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    extensions: tuple[JsonObject, ...] = ()
    """What `n` and `selected_source_rows` were before each extension, and when it was made."""

    def to_json(self) -> JsonObject:
        """Return the file's content, `schema_version` first."""
        content: JsonObject = {
            "schema_version": MANIFEST_SCHEMA,
            "local_run_id": self.local_run_id,
            "run_name": self.run_name,
            "created_at": self.created_at,
            "inputs": self.inputs,
            "provenance": self.provenance,
        }
        return content | {"extensions": list(self.extensions)} if self.extensions else content


class _StoredManifest(msgspec.Struct):
    local_run_id: str
    run_name: str
    created_at: str
    inputs: dict[str, Any]
    provenance: dict[str, Any] = {}
    extensions: list[dict[str, Any]] = []


class _Versioned(msgspec.Struct):
    schema_version: int


class RunDir(msgspec.Struct, frozen=True):
    """The paths of one run's directory; makes no promise that any of them exists."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def manifest(self) -> Path:
        """What pins the run."""
        return self.path / "manifest.json"

    @property
    def events(self) -> Path:
        """The journal."""
        return self.path / "events.jsonl"

    @property
    def index(self) -> Path:
        """One line per recorded item."""
        return self.path / "index.jsonl"

    @property
    def summary(self) -> Path:
        """The same lines as `index`."""
        return self.path / "summary.jsonl"

    @property
    def progress(self) -> Path:
        """How many items there are."""
        return self.path / "progress.json"

    @property
    def metrics(self) -> Path:
        """The figures."""
        return self.path / "metrics.json"

    @property
    def rows(self) -> Path:
        """One line per selected row."""
        return self.path / "rows.jsonl"

    @property
    def calls(self) -> Path:
        """The bridge's ledger."""
        return self.path / "calls.jsonl"

    @property
    def logs(self) -> Path:
        """What happened, in text."""
        return self.path / "logs.txt"

    @property
    def trials(self) -> Path:
        """`rollout_trials/`: one folder per rollout id, written by the rollout server."""
        return self.path / "rollout_trials"

    def trial(self, rollout_id: str) -> Path:
        """Return the folder of one rollout."""
        return self.trials / rollout_id

    def trajectory(self, row_index: int, run_index: int) -> Path:
        """Return `trajectories/row_R_run_N.json`."""
        return self.path / "trajectories" / f"row_{row_index}_run_{run_index}.json"

    def artifacts(self, row_index: int, run_index: int) -> Path:
        """Return `artifacts/row_R_run_N/`."""
        return self.path / "artifacts" / f"row_{row_index}_run_{run_index}"


def find_run(output: Path, name: str) -> RunDir | None:
    """Return the run of that name, None when there is none. Raises `RunDirError` for a symlink or a file."""
    path = output / name
    if path.is_symlink():
        raise RunDirError(
            f"{path} is a symbolic link; a run's directory must be a real one", {"path": str(path)}
        )
    if not path.exists():
        return None
    if not path.is_dir():
        raise RunDirError(
            f"{path} is not a directory; remove it or choose another --name", {"path": str(path)}
        )
    return RunDir(path)


def run_names(output: Path) -> list[str]:
    """Return the names of the runs in an output folder, sorted; none where it cannot be listed."""
    try:
        # A name that begins with a dot is a folder of locks, or a directory in the making.
        return sorted(
            path.name for path in output.iterdir() if not path.name.startswith(".") and is_run(path)
        )
    except OSError:
        return []


def is_run(path: Path) -> bool:
    """Whether a folder is a run directory: it holds a manifest or a journal."""
    return any((path / name).is_file() for name in ("manifest.json", "events.jsonl"))


def create_run(
    output: Path, manifest: Manifest, rows: Iterable[Row], progress: Mapping[str, JsonValue]
) -> RunDir:
    """Make the run's directory with manifest.json, rows.jsonl, progress.json and an empty events.jsonl, by one rename.

    Raises `RunExists`, `RunDirError` and `StorageError`; nothing half-made is left.
    """
    name = manifest.run_name
    if find_run(output, name) is not None:
        raise RunExists(
            f"{output / name} exists already; choose another --name or pass --fresh", {"name": name}
        )
    try:
        output.mkdir(parents=True, exist_ok=True)
        _sweep(output, name)
        making = output / f".{name}.making-{secrets.token_hex(4)}"
        try:
            _fill(making, manifest, rows, progress)
            making.rename(output / name)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        sync_folder(output)
    except OSError as error:
        raise StorageError.of(str(output / name), error, "nothing was created") from None
    return RunDir(output / name)


def read_manifest(run: RunDir) -> Manifest:
    """Read manifest.json; raises `RunDirError` for a damaged one or one of another schema."""
    try:
        content = run.manifest.read_bytes()
        version = msgspec.json.decode(content, type=_Versioned).schema_version
        if version != MANIFEST_SCHEMA:
            raise RunDirError(
                f"{run.manifest} has schema {version}, this release reads {MANIFEST_SCHEMA}; use the release that "
                "recorded it, or start anew with --fresh",
                {"file": str(run.manifest), "schema_version": version},
            )
        stored = msgspec.json.decode(content, type=_StoredManifest)
    except FileNotFoundError:
        raise _no_run(run, "has no manifest.json and is no run") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_run(run, f"has a damaged manifest.json ({error})") from None
    except OSError as error:
        raise _no_run(run, f"has a manifest.json that cannot be read ({error.strerror})") from None
    return Manifest(
        stored.local_run_id,
        stored.run_name,
        stored.created_at,
        stored.inputs,
        stored.provenance,
        tuple(stored.extensions),
    )


def rewrite_run(
    run: RunDir, manifest: Manifest, rows: Iterable[Row], progress: Mapping[str, JsonValue]
) -> None:
    """Replace manifest.json, rows.jsonl and progress.json of an extended run, the manifest last.

    Whatever happens the manifest fits the journal; the other two are made again by `heal_run`. Raises `StorageError`.
    """
    replace_lines(run.rows, map(row_preview, rows))
    replace_json(run.progress, progress)
    replace_json(run.manifest, manifest.to_json())


def heal_run(run: RunDir, rows: Iterable[Row], progress: Mapping[str, JsonValue]) -> None:
    """Make rows.jsonl and progress.json again where progress.json does not say what it should.

    So it is when an extension was cut short. Raises `StorageError`.
    """
    try:
        as_it_should = run.progress.read_bytes() == pretty(progress)
    except OSError:
        as_it_should = False
    if not as_it_should:
        replace_lines(run.rows, map(row_preview, rows))
        replace_json(run.progress, progress)


def archive_run(run: RunDir, now: datetime) -> Path:
    """Rename the directory to `NAME.archive-YYYYMMDDTHHMMSSZ[-k]` beside it and return where it is; deletes nothing.

    Raises `StorageError`.
    """
    stamped = run.path.with_name(f"{run.name}.archive-{now:%Y%m%dT%H%M%SZ}")
    target, number = stamped, 1
    while target.exists() or target.is_symlink():
        number += 1
        target = stamped.with_name(f"{stamped.name}-{number}")
    try:
        run.path.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        raise StorageError.of(
            str(run.path), error, "it could not be archived and was left as it is"
        ) from None
    return target


def _fill(making: Path, manifest: Manifest, rows: Iterable[Row], progress: Mapping[str, JsonValue]) -> None:
    making.mkdir(mode=0o700)
    for folder in _FOLDERS:
        (making / folder).mkdir(mode=0o700)
    write_new(making / "manifest.json", pretty(manifest.to_json()))
    write_new(making / "progress.json", pretty(progress))
    write_new(making / "events.jsonl", b"")
    write_lines(making / "rows.jsonl", map(row_preview, rows))
    sync_folder(making)


def _sweep(output: Path, name: str) -> None:
    """Remove what a killed maker of this run left; the lock says that nobody is making it now."""
    for leftover in output.glob(f".{name}.making-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _no_run(run: RunDir, reason: str) -> RunDirError:
    return RunDirError(
        f"{run.path} {reason}; choose another --name, or archive it with --fresh", {"path": str(run.path)}
    )
