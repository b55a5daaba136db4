"""What one finished attempt leaves in the run directory: its trajectory with the true model and usage, its artifacts.

Source is the attempt's folder under `rollout_trials`, written by the rollout server and trusted with nothing: links
and special files are passed over, nothing outside the folder is read. Blocking file work; runs in the disk thread.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.trajectory import enrich, validate_trajectory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from osmosis_bridge.redact import Redactor
    from osmosis_runner.journal import JournalRecord
    from osmosis_runner.ledger_tail import Call
    from osmosis_runner.rundir import RunDir

RESERVED = "manifest.json"
TRAJECTORY = "trajectory.json"
TRAJECTORY_LIMIT = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Projector:
    """Copies attempts into one run directory. `warn` is told, in words, what was passed over."""

    run: RunDir
    model_path: str
    redactor: Redactor
    warn: Callable[[str], None]

    def prepare(self) -> None:
        """Make the folders; raises OSError."""
        for folder in (self.run.trials, self.run.path / "trajectories", self.run.path / "artifacts"):
            folder.mkdir(exist_ok=True)

    def project(self, record: JournalRecord, calls: Sequence[Call]) -> bool:
        """Replace what an earlier attempt at the item left; returns whether there is a valid trajectory.

        Raises OSError when the run directory cannot be written.
        """
        if record.attempt > 1:
            self._clear(record)
        trial = self.run.trial(record.rollout_id)
        self._copy_artifacts(trial / "artifacts", self.run.artifacts(*record.item))
        return self._keep_trajectory(trial / TRAJECTORY, record, calls)

    def _keep_trajectory(self, source: Path, record: JournalRecord, calls: Sequence[Call]) -> bool:
        content = _read_regular(source)
        if content is None:
            return False
        scrubbed = self.redactor.scrub(content)
        try:
            if scrubbed is not content:
                source.write_bytes(scrubbed)
            value = msgspec.json.decode(scrubbed)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self.warn(f"the trajectory of rollout {record.rollout_id} is no JSON and was left where it is")
            return False
        problems = validate_trajectory(value, record.rollout_id)
        if problems:
            self.warn(f"the trajectory of rollout {record.rollout_id} was left where it is: {problems[0]}")
            return False
        kept = msgspec.json.encode(enrich(value, calls, self.model_path))
        target = self.run.trajectory(*record.item)
        target.write_bytes(kept)
        return True

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
