"""What one finished attempt leaves in the run directory: its trajectory with the true model and usage, its artifacts.

Source is the attempt's folder under `rollout_trials`, written by the rollout server and trusted with nothing: links
and special files are passed over, nothing outside the folder is read. A server that leaves no trajectory there is
taken at its word. Blocking file work; runs in the disk thread.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from osmosis_runner import __version__
from osmosis_runner.failure_words import failure_words
from osmosis_runner.trajectory import Attempt, build_trajectory, enrich, validate_trajectory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from osmosis_bridge.redact import Redactor
    from osmosis_runner.journal import JournalRecord
    from osmosis_runner.jsontext import JsonObject
    from osmosis_runner.ledger_tail import Call
    from osmosis_runner.rundir import RunDir

RESERVED = "manifest.json"
TRAJECTORY = "trajectory.json"
ERROR = "error.txt"
TRAJECTORY_LIMIT = 256 * 1024 * 1024


class Transcript(msgspec.Struct, frozen=True):
    """What a rollout said, as its server tells it in the result; JSON that nobody has looked into yet."""

    messages: msgspec.Raw
    metrics: msgspec.Raw | None = None
    extra_fields: msgspec.Raw | None = None
    label: str | None = None
    metadata: Mapping[str, Any] | None = None
    partial: bool = False
    """The bridge's view of a rollout whose server told nothing: the messages of its last call and the reply."""


class Projector(msgspec.Struct, frozen=True):
    """Copies attempts into one run directory. `warn` is told, in words, what was passed over."""

    run: RunDir
    model_path: str
    redactor: Redactor
    warn: Callable[[str], None]

    def prepare(self) -> None:
        """Make the folders; raises OSError."""
        for folder in (self.run.trials, self.run.path / "trajectories", self.run.path / "artifacts"):
            folder.mkdir(exist_ok=True)

    def project(
        self, record: JournalRecord, calls: Sequence[Call], transcript: Transcript | None = None
    ) -> bool:
        """Replace what an earlier attempt at the item left; returns whether there is a valid trajectory.

        Of a failed one there is always a folder, with `error.txt` in it.
        Raises OSError when the run directory cannot be written.
        """
        if record.attempt > 1:
            self._clear(record)
        trial = self.run.trial(record.rollout_id)
        if record.status == "failed":
            _leave_error(trial, record)
        self._copy_artifacts(trial / "artifacts", self.run.artifacts(*record.item))
        value = self._left(trial / TRAJECTORY, record)
        if value is None and transcript is not None:
            value = self._told(transcript, record)
        if value is None:
            return False
        kept = msgspec.json.encode(enrich(value, calls, self.model_path))
        self.run.trajectory(*record.item).write_bytes(kept)
        return True

    def keep_void(
        self, record: JournalRecord, calls: Sequence[Call], transcript: Transcript | None = None
    ) -> bool:
        """Keep what an attempt that does not count had said, in its own folder; returns whether there is anything.

        Raises OSError when it cannot be written.
        """
        kept = self.run.trial(record.rollout_id) / TRAJECTORY
        if self._left(kept, record) is not None:
            return True
        value = self._told(transcript, record) if transcript is not None and not kept.exists() else None
        if value is None:
            return False
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(msgspec.json.encode(enrich(value, calls, self.model_path)))
        return True

    def _left(self, source: Path, record: JournalRecord) -> JsonObject | None:
        """The trajectory that the server left, if it is one of this rollout."""
        content = _read_regular(source)
        if content is None:
            return None
        scrubbed = self.redactor.scrub(content)
        try:
            if scrubbed is not content:
                source.write_bytes(scrubbed)
            value = msgspec.json.decode(scrubbed)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self.warn(f"the trajectory of rollout {record.rollout_id} is no JSON and was left where it is")
            return None
        problems = validate_trajectory(value, record.rollout_id)
        if problems:
            self.warn(f"the trajectory of rollout {record.rollout_id} was left where it is: {problems[0]}")
            return None
        return cast("JsonObject", value)

    def _told(self, transcript: Transcript, record: JournalRecord) -> JsonObject | None:
        """The trajectory of the messages in the result."""
        messages = self._decoded(transcript.messages)
        if not isinstance(messages, list) or not messages:
            return None
        listed = cast("list[object]", messages)
        if not all(isinstance(message, dict) for message in listed):
            self.warn(f"the messages of rollout {record.rollout_id} are no list of objects and were not kept")
            return None
        attempt = Attempt(
            rollout_id=record.rollout_id,
            row_index=record.row_index,
            run_index=record.run_index,
            label=transcript.label,
            reward=record.reward,
            metrics=_object(self._decoded(transcript.metrics)),
            extra_fields=_object(self._decoded(transcript.extra_fields)),
            metadata=transcript.metadata,
            notes=_notes(record, transcript),
            partial=transcript.partial,
        )
        value = build_trajectory(cast("list[JsonObject]", listed), attempt, __version__)
        problems = validate_trajectory(value, record.rollout_id)
        if problems:
            self.warn(f"what rollout {record.rollout_id} said makes no trajectory: {problems[0]}")
            return None
        # The row's own fields are in it too.
        return cast("JsonObject | None", self._decoded(msgspec.Raw(msgspec.json.encode(value))))

    def _decoded(self, raw: msgspec.Raw | None) -> object:
        if raw is None:
            return None
        try:
            return msgspec.json.decode(self.redactor.scrub(bytes(raw)))
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None

    def _copy_artifacts(self, source: Path, target: Path) -> None:
        if not source.is_dir() or source.is_symlink():
            return
        for folder, subfolders, names in os.walk(source, followlinks=False):
            here = Path(folder)
            place = target / here.relative_to(source)
            for name in sorted(subfolders):
                if (here / name).is_symlink():
                    self.warn(f"artifact {here / name} is a link and was not copied")
            for name in sorted(names):
                if here == source and name == RESERVED:
                    self.warn(f"artifact {here / name} has a reserved name and was not copied")
                elif not stat.S_ISREG((here / name).lstat().st_mode):
                    self.warn(f"artifact {here / name} is no regular file and was not copied")
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(here / name, place / name, follow_symlinks=False)

    def _clear(self, record: JournalRecord) -> None:
        shutil.rmtree(self.run.artifacts(*record.item), ignore_errors=True)
        with suppress(FileNotFoundError):
            self.run.trajectory(*record.item).unlink()


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _leave_error(trial: Path, record: JournalRecord) -> None:
    """Write for people what the record says of the failure: it is redacted there already."""
    words = failure_words(record.error_type, record.error_phase)
    lines = [
        f"{words}: {record.error_message or 'no message'}",
        f"row {record.row_index} run {record.run_index}, attempt {record.attempt}, rollout {record.rollout_id}",
    ]
    if record.error_traceback:
        lines += ["", record.error_traceback.rstrip("\n")]
    path = trial / ERROR
    trial.mkdir(exist_ok=True)
    # The rollout may have put a link there: it is never written through.
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))


def _notes(record: JournalRecord, transcript: Transcript) -> str | None:
    """What is said of the whole trajectory: why the attempt failed, and that not all of it is here."""
    said = [f"failed: {record.error_message}"] if record.error_message else []
    if record.status == "cancelled":
        said.append("cancelled")
    if transcript.partial:
        said.append("partial: the messages of its last call and the reply, as the bridge saw them")
    return "; ".join(said) or None


def _read_regular(path: Path) -> bytes | None:
    """The file's bytes; None when there is no regular file of a sane size."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_size > TRAJECTORY_LIMIT:
            return None
        return file.read()
