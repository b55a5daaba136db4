"""What a run directory says: how the run stands, its items, its figures.

The journal is what counts; the snapshots beside it may be a second behind, more when the run was killed. Nothing is
written but figures that are made anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

import msgspec

from osmosis_cli.figures import counted, cut
from osmosis_cli.measures import number
from osmosis_runner.atif import owner_of
from osmosis_runner.errors import RunDirError, StorageError
from osmosis_runner.failure_words import failure_words
from osmosis_runner.files import replace_json
from osmosis_runner.journal import read_records, repair_command, torn_bytes
from osmosis_runner.journal_index import JournalIndex
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.jsontext import JsonObject
from osmosis_runner.lock import Owner, lock_holder
from osmosis_runner.report import Report
from osmosis_runner.rundir import Manifest, RunDir, read_manifest

MOST_ITEMS = 10_000_000
"""Items that figures are made of where nothing but the journal says how many there are."""
PREVIEW = 60
"""Characters of a row's prompt that are shown beside an item."""


class StoredRun(msgspec.Struct, frozen=True):
    """One run as its directory tells it. `damage` says what is wrong with its files; little else may be known then."""

    directory: RunDir
    manifest: Manifest | None
    metrics: Mapping[str, object]
    """metrics.json, empty where there is none."""
    progress: Mapping[str, object]
    """progress.json, empty where there is none."""
    owner: Owner | None
    """Who is running it now."""
    damage: str = ""
    torn: bool = False
    """Whether the journal's last line is not whole, which `osmosis eval repair` mends."""

    @property
    def name(self) -> str:
        """The run's name."""
        return self.directory.name

    @property
    def status(self) -> str:
        """finished, incomplete, running, killed (ended without a word) or damaged."""
        if self.damage:
            return "damaged"
        if self.owner is not None:
            return "running"
        told = _text(self.metrics, "eval_run", "status")
        return told if told in ("finished", "incomplete") else "killed"

    @property
    def summary(self) -> Mapping[str, object]:
        """The figures of metrics.json; empty where there are none."""
        return _mapping(self.metrics.get("summary"))

    @property
    def total_items(self) -> int:
        """Work items of the run, 0 where it is not known."""
        return int(number(self.progress, "total_runs") or 0)

    def text(self, *path: str) -> str:
        """A text of `manifest.inputs` at `path`, empty where there is none."""
        return _text(self.manifest.inputs, *path) if self.manifest else ""


def read_run(path: Path) -> StoredRun:
    """What the run directory at `path` says; damage is told in the value, not raised."""
    directory = RunDir(path)
    manifest, damage = None, ""
    try:
        manifest = read_manifest(directory)
    except RunDirError as error:
        damage = error.message
    owner = lock_holder(path.parent, path.name)
    # Of a run that goes on, a line may be on its way.
    torn = 0 if owner is not None else _torn(directory)
    if torn and not damage:
        damage = (
            f"the last line of {directory.events.name} is torn ({counted(torn, 'byte')} without an end), so its item "
            f"does not count; `{repair_command(path)}` mends the journal, and going on with the run does the item again"
        )
    return StoredRun(
        directory=directory,
        manifest=manifest,
        metrics=_read_object(directory.metrics),
        progress=_read_object(directory.progress),
        owner=owner,
        damage=damage,
        torn=bool(torn),
    )


def current_summary(run: StoredRun, journal: JournalIndex) -> Mapping[str, object]:
    """The run's figures: those of metrics.json when they are of what the journal holds, else counted anew from it.

    Raises `JournalCorrupt`, `RunDirError` and `StorageError`.
    """
    if run.status in ("finished", "incomplete") and _agree(run.summary, journal):
        return run.summary
    return counted_anew(run, journal)


def counted_anew(run: StoredRun, journal: JournalIndex) -> JsonObject:
    """The run's figures as its journal tells them; raises `JournalCorrupt`, `RunDirError` and `StorageError`."""
    attempts = int(number(run.manifest.inputs if run.manifest else None, "n") or 1)
    threshold = number(run.summary, "pass_threshold")
    rows, runs = journal.extent
    if rows * runs > max(run.total_items, MOST_ITEMS):
        raise RunDirError(
            f"{run.directory.events} tells of row {rows - 1} run {runs - 1}, which is no item of this run; "
            "start it anew with --fresh"
        )
    report = Report(
        max(run.total_items // attempts, rows), max(attempts, runs), 1.0 if threshold is None else threshold
    )
    for record in read_records(run.directory.events):
        report.add(record)
    return report.summary()


def standing(run: StoredRun, journal: JournalIndex) -> str:
    """The run's status, as far as its journal bears it out: one that lacks items is not finished."""
    lacking = run.status == "finished" and len(journal) < run.total_items
    return "incomplete" if lacking else run.status


def remake_metrics(run: StoredRun) -> None:
    """Make metrics.json say what the journal says, where there is one; raises as `counted_anew` does."""
    if not run.metrics:
        return
    with JournalIndex(run.directory.events) as journal:
        about = dict(_mapping(run.metrics.get("eval_run")))
        if len(journal) < run.total_items and about.get("status") == "finished":
            about["status"] = "incomplete"
            about.pop("completed_at", None)
        summary = counted_anew(run, journal)
    replace_json(
        run.directory.metrics, cast("JsonObject", {**run.metrics, "eval_run": about, "summary": summary})
    )


def _agree(summary: Mapping[str, object], journal: JournalIndex) -> bool:
    """Whether figures count as many items of each kind as the journal records."""
    counts = journal.counts()
    wanted = {
        "total_samples": len(journal),
        "failed": counts["failed"],
        "skipped": counts["skipped"],
    }
    return all(number(summary, name) == count for name, count in wanted.items())


def item_line(record: JournalRecord, prompt: str = "") -> str:
    """One item for people."""
    missing = ", no reward" if record.status == "success" else ""
    reward = missing if record.reward is None else f", reward {record.reward:.4g}"
    tokens = "" if record.tokens is None else f", {record.tokens:,} tokens"
    largest = "" if record.max_context_tokens is None else f", max context {record.max_context_tokens:,}"
    message = cut(record.error_message or "")
    words = failure_words(record.error_type, record.error_phase) if record.status == "failed" else ""
    error = ": ".join(part for part in (words, message) if part)
    facts = f"{record.status}{reward}{tokens}{largest}, {record.duration_ms / 1000:.1f}s"
    told = f"row {record.row_index} run {record.run_index}: {facts}"
    return told + (f": {error}" if error else "") + (f" | {prompt}" if prompt else "")


def prompts_of(run: StoredRun, wanted: Collection[int]) -> dict[int, str]:
    """The beginnings of the prompts of `wanted` rows, by row; rows that rows.jsonl does not tell are left out."""
    try:
        with run.directory.rows.open("rb") as file:
            rows = (_object_of(line) for line in file)
            told = ((number(row, "row_index"), _text(row, "prompt")) for row in rows)
            return {
                int(index): cut(prompt, PREVIEW)
                for index, prompt in told
                if index is not None and index in wanted
            }
    except OSError:
        # The preview is a comfort; the items are shown without it.
        return {}


def trajectory_of(run: StoredRun, record: JournalRecord) -> tuple[Path | None, Mapping[str, object]]:
    """The trajectory of the rollout that `record` tells of, and its file; None and empty where none was kept.

    Reads no other item's.
    """
    trial = run.directory.trial(record.rollout_id)
    for path in (run.directory.trajectory(*record.item), trial / "trajectory.json"):
        found = _read_object(path)
        if found and owner_of(cast("JsonObject", found)) == record.rollout_id:
            return path, found
    return None, {}


def folders_of(run: StoredRun, record: JournalRecord) -> tuple[tuple[str, Path], ...]:
    """The folders an item left files in, by what they are."""
    places = (
        ("Artifacts", run.directory.artifacts(*record.item)),
        ("Rollout Folder", run.directory.trial(record.rollout_id)),
    )
    return tuple((label, path) for label, path in places if holds_files(path))


def holds_files(folder: Path | str) -> bool:
    """Whether a folder exists and is not empty."""
    try:
        return any(Path(folder).iterdir())
    except OSError:
        return False


def _torn(directory: RunDir) -> int:
    try:
        return torn_bytes(directory.events)
    except StorageError:
        # Whoever reads the journal says why it cannot be read.
        return 0


def _read_object(path: Path) -> Mapping[str, object]:
    try:
        return _object_of(path.read_bytes())
    except OSError:
        return {}


def _object_of(text: bytes) -> Mapping[str, object]:
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _text(source: object, *path: str) -> str:
    for name in path:
        source = _mapping(source).get(name)
    return source if isinstance(source, str) else ""
