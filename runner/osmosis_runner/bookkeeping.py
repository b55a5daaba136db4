"""The run directory while a run goes on: opened with what it already holds, kept current, closed with all figures.

Knows files and figures, nothing of processes. Blocking, except where a method says otherwise.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from osmosis_runner.errors import StorageError
from osmosis_runner.files import replace_json
from osmosis_runner.journal import Journal, read_records
from osmosis_runner.ledger_spend import RolloutSet, unrecorded_spend
from osmosis_runner.metrics import Invocation, RunIdentity, RunStatus, metrics_payload, past_invocations
from osmosis_runner.recorded import MOST_TOLD, last_records
from osmosis_runner.recorder import Books, Recorder
from osmosis_runner.report import Report
from osmosis_runner.rundir import Manifest, RunDir, archive_run, create_run, heal_run, rewrite_run
from osmosis_runner.snapshots import IndexWriter

if TYPE_CHECKING:
    from pathlib import Path

    from osmosis_runner.events import Observer
    from osmosis_runner.journal import JournalRecord
    from osmosis_runner.jsontext import JsonObject
    from osmosis_runner.preparation import Prepared
    from osmosis_runner.projection import Projector


class Bookkeeping:
    """One run directory in use."""

    def __init__(
        self,
        prepared: Prepared,
        manifest: Manifest,
        observer: Observer,
        projector: Callable[[RunDir], Projector],
    ) -> None:
        """Create the directory or open the earlier one, and count what it holds; raises `RunnerError`."""
        config, rows = prepared.checked.config, prepared.checked.rows
        self._archive = archive_run(prepared.archived, datetime.now(UTC)) if prepared.archived else None
        self._made = prepared.earlier is None
        self._prepared = prepared
        self.run = _opened(prepared, manifest) if prepared.earlier else _created(prepared, manifest)
        self.manifest = manifest
        self._identity = _identity(prepared, manifest)
        self._past = past_invocations(_read_json(self.run.metrics))
        self._started_at = _now()
        self._began = time.monotonic()
        self._threshold = config.pass_threshold
        self.books = Books(
            journal=Journal.open(self.run.events),
            index=IndexWriter(self.run, len(rows.rows), config.n),
            report=Report(len(rows.rows), config.n, config.pass_threshold),
            projector=projector(self.run),
            pass_threshold=config.pass_threshold,
        )
        self.recorder = Recorder(self.books, observer, lambda summary: self.write_metrics(summary, "running"))
        self._take_in_earlier(prepared)

    def write_metrics(self, summary: JsonObject, status: RunStatus, ended: str | None = None) -> None:
        """Write metrics.json; raises `StorageError`."""
        invocation = Invocation(
            started_at=self._started_at,
            active_ms=round((time.monotonic() - self._began) * 1000),
            dispatched=self.recorder.tallies.dispatched,
            pass_threshold=self._threshold,
            ended=ended,
        )
        completed = _now() if status == "finished" else None
        payload = metrics_payload(self._identity, status, [*self._past, invocation], summary, completed)
        replace_json(self.run.metrics, payload, durable=ended is not None)

    def finish(self, ended: str) -> JsonObject:
        """Write everything a last time, whole and sorted; the summary. Raises `StorageError`."""
        summary = self.books.report.summary(full=True)
        self.books.index.finish()
        self.write_metrics(summary, "finished" if ended == "complete" else "incomplete", ended)
        return summary

    def undo(self) -> None:
        """Leave the output root as it was before this invocation, which recorded nothing."""
        self.close()
        if self._made:
            shutil.rmtree(self.run.path, ignore_errors=True)
            if self._archive is not None:
                self._archive.rename(self.run.path)
        elif self._prepared.extension is not None:
            _taken_back(self._prepared, self.run)

    def unscored(self, status: Literal["failed", "skipped"]) -> list[JournalRecord]:
        """The last records of the first items that failed, or were skipped; `MOST_TOLD` of them at most."""
        items = list(islice(self.books.report.items_with(status), MOST_TOLD))
        return last_records(self.run.events, items)

    def close(self) -> None:
        """Let go of every file; idempotent."""
        self.recorder.close()
        self.books.index.close()
        self.books.journal.close()

    def _take_in_earlier(self, prepared: Prepared) -> None:
        """Count the records of earlier invocations."""
        try:
            self.books.projector.prepare()
        except OSError as error:
            raise StorageError.of(str(self.run.path), error, "nothing was started") from None
        recorded = RolloutSet()
        for record in read_records(self.run.events):
            self.recorder.take_in(record)
            self.books.index.add(record, resumed=True)
            recorded.add(record.rollout_id)
        recorded.seal()
        report = self.books.report
        report.add_spend(unrecorded_spend(self.run.calls, recorded, report.spent))
        self.recorder.tallies.resumed = prepared.counts.recorded
        self.recorder.tallies.planned = prepared.counts.pending
        self.write_metrics(self.books.report.summary(full=False), "running")


def read_summary(run: RunDir) -> JsonObject:
    """The figures that metrics.json holds; empty when it is not there."""
    summary = (_read_json(run.metrics) or {}).get("summary")
    return dict(summary) if isinstance(summary, Mapping) else {}


def _created(prepared: Prepared, manifest: Manifest) -> RunDir:
    rows = prepared.checked.rows
    return create_run(prepared.checked.output, manifest, rows.rows, _progress(prepared))


def _opened(prepared: Prepared, manifest: Manifest) -> RunDir:
    """The earlier directory, with what is added to the run."""
    run, rows = cast("RunDir", prepared.earlier), prepared.checked.rows.rows
    if prepared.extension is not None:
        rewrite_run(run, manifest, rows, _progress(prepared))
    else:
        heal_run(run, rows, _progress(prepared))
    return run


def _taken_back(prepared: Prepared, run: RunDir) -> None:
    """Leave an extended run as it was before it was extended."""
    before, manifest = prepared.extension, prepared.manifest
    if before is None or manifest is None:
        return
    progress = {
        **_progress(prepared),
        "total_runs": before.rows_before * before.attempts_before,
        "sampled_rows": before.rows_before,
    }
    rewrite_run(run, manifest, islice(prepared.checked.rows.rows, before.rows_before), progress)


def _progress(prepared: Prepared) -> JsonObject:
    rows = prepared.checked.rows
    return {
        "total_runs": prepared.counts.total,
        "sampled_rows": len(rows.rows),
        "total_dataset_rows": rows.total_rows,
    }


def _identity(prepared: Prepared, manifest: Manifest) -> RunIdentity:
    config = prepared.checked.config
    return RunIdentity(
        id=manifest.local_run_id,
        name=prepared.name,
        dataset_name=config.dataset,
        dataset_file=str(prepared.checked.rows.file),
        model_name=config.model_path,
        rollout_name=config.rollout,
    )


def _read_json(path: Path) -> JsonObject | None:
    """A JSON file of ours; None when it is not there or damaged (it can be made again)."""
    try:
        return cast("JsonObject", msgspec.json.decode(path.read_bytes()))
    except (OSError, msgspec.DecodeError, ValueError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
