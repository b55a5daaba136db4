"""One evaluation, from top to bottom: checks, approval, the live half, the outcome.

It knows the order of things and no detail of any. Nothing but the lock file, which goes with the lock, is created in
the output root before the preflight has passed, so a run that cannot begin leaves nothing behind.
"""

from __future__ import annotations

import secrets as random_secrets
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from osmosis_bridge.redact import credentials_in
from osmosis_runner.bookkeeping import Bookkeeping, read_summary
from osmosis_runner.dispatch import Patience
from osmosis_runner.errors import StorageError
from osmosis_runner.events import Warned
from osmosis_runner.extension import widened
from osmosis_runner.faults import SecretsMissing
from osmosis_runner.live import Live, Setup
from osmosis_runner.options import RunOptions
from osmosis_runner.outcome import Ending, RunOutcome, UnscoredRow
from osmosis_runner.preparation import Prepared, prepare
from osmosis_runner.projection import Projector
from osmosis_runner.provenance import launch_provenance, provenance
from osmosis_runner.recorded import last_records
from osmosis_runner.redaction import run_redactor
from osmosis_runner.rundir import Manifest, RunDir
from osmosis_runner.signals import interrupts
from osmosis_runner.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from osmosis_runner.dispatch import Stop
    from osmosis_runner.events import Observer
    from osmosis_runner.journal import JournalRecord
    from osmosis_runner.jsontext import JsonObject

__all__ = ["Ending", "RunOptions", "RunOutcome", "UnscoredRow", "run_evaluation"]


async def run_evaluation(
    options: RunOptions, observer: Observer, patience: Patience | None = None
) -> RunOutcome:
    """Run what is pending of an evaluation and return how it ended.

    Raises `osmosis_runner.errors.RunnerError` (its subclasses name the cause) when the run could not begin; then
    nothing was created. Once dispatch has begun every trouble is an outcome, not an exception.
    """
    began = time.monotonic()
    prepared = prepare(options)
    options = replace(options, python=prepared.checked.python)
    with prepared.lock:
        rejudged = _threshold_changed(prepared, observer)
        if not prepared.counts.pending:
            if rejudged:
                _count_anew(prepared, observer)
            return _not_begun(prepared, None, None, began)
        secrets = options.secrets if options.approve is None else options.approve(prepared.plan)
        if secrets is None:
            return _not_begun(prepared, None, None, began)
        _check_secrets(prepared, secrets)
        return await _run_live(options, prepared, secrets, observer, patience or Patience(), began)


def _threshold_changed(prepared: Prepared, observer: Observer) -> bool:
    """Whether the run's figures were made with another pass threshold; it is no input of the run, and said."""
    before = read_summary(prepared.earlier).get("pass_threshold") if prepared.earlier else None
    now = prepared.checked.config.pass_threshold
    if not isinstance(before, int | float) or before == now:
        return False
    text = (
        f"the pass threshold is {now:g} now, the figures so far were made with {before:g}; they are made anew"
    )
    observer.warned(Warned("THRESHOLD_CHANGED", text))
    return True


def _count_anew(prepared: Prepared, observer: Observer) -> None:
    """Make the figures of a complete run again; raises `StorageError`."""
    if prepared.manifest is None:
        return

    def projector(run: RunDir) -> Projector:
        return Projector(run, prepared.plan.model_path, run_redactor({}, ()), lambda _: None)

    books = Bookkeeping(prepared, prepared.manifest, observer, projector)
    try:
        books.finish("complete")
    finally:
        books.close()


async def _run_live(
    options: RunOptions,
    prepared: Prepared,
    secrets: Mapping[str, str],
    observer: Observer,
    patience: Patience,
    began: float,
) -> RunOutcome:
    token = random_secrets.token_urlsafe(32)
    with interrupts() as signals:
        setup = Setup(
            options=options,
            prepared=prepared,
            manifest=_manifest(options, prepared),
            secrets=secrets,
            token=token,
            redactor=run_redactor(
                options.environ, [*secrets.values(), token, *credentials_in(options.api_base or "")]
            ),
            observer=observer,
            signals=signals,
            patience=patience,
        )
        live = Live(setup)
        try:
            stop = await live.run()
            return await _outcome(prepared, live.books, stop, signals.number, began)
        finally:
            live.close()


def _manifest(options: RunOptions, prepared: Prepared) -> Manifest:
    """The earlier manifest, with what is added to the run; a new one for a run that begins."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    earlier = prepared.manifest
    if earlier is not None:
        if prepared.extension is None:
            return earlier
        inputs = widened(earlier.inputs, prepared.checked.inputs)
        added = prepared.extension.to_json(now)
        return msgspec.structs.replace(earlier, inputs=inputs, extensions=(*earlier.extensions, added))
    return Manifest(
        local_run_id=uuid.uuid4().hex,
        run_name=prepared.name,
        created_at=now,
        inputs=prepared.checked.inputs,
        provenance=provenance(prepared.checked.config, options.workspace) | launch_provenance(options),
    )


def _check_secrets(prepared: Prepared, secrets: Mapping[str, str]) -> None:
    missing = [name for name in prepared.plan.secret_names if not secrets.get(name)]
    if missing:
        message = f"no value for {', '.join(missing)}, which [secrets] requires"
        raise SecretsMissing(message, {"missing": [*missing]})


async def _outcome(
    prepared: Prepared, books: Bookkeeping | None, stop: Stop | None, number: int | None, began: float
) -> RunOutcome:
    """Close the books and say how it ended."""
    if books is None:
        return _not_begun(prepared, stop, number, began)
    live = books.books.report.live()
    pending = books.recorder.pending
    # A signal that came when the last item was already being recorded stopped nothing.
    ended: Ending = stop.kind if stop is not None and pending else "complete"
    reason = stop.reason if stop is not None and pending else None
    summary: JsonObject = {}
    try:
        summary = await books.recorder.on_disk_thread(books.finish, ended)
    except StorageError as error:
        ended, reason = "halted", reason or error.message
    tallies = books.recorder.tallies
    return RunOutcome(
        ended=ended,
        reason=reason,
        signal=number if ended == "interrupted" else None,
        plan=prepared.plan,
        local_run_id=books.manifest.local_run_id,
        dispatched=tallies.dispatched,
        succeeded=live.succeeded,
        failed=live.failed,
        skipped=live.skipped,
        resumed=tallies.resumed,
        cancelled=tallies.cancelled,
        pending=pending,
        duration_ms=round((time.monotonic() - began) * 1000),
        metrics=dict(summary),
        failed_rows=_told(books.run, books.unscored("failed")),
        skipped_rows=_told(books.run, books.unscored("skipped")),
    )


def _not_begun(prepared: Prepared, stop: Stop | None, number: int | None, began: float) -> RunOutcome:
    """The outcome of an invocation that changed nothing."""
    recorded, run, counts = prepared.recorded, prepared.earlier, prepared.counts
    standing = recorded.counts()
    failed = recorded.items(Standing.FAILED, Standing.THWARTED) if run else []
    skipped = recorded.items(Standing.SKIPPED) if run else []
    if stop is not None:
        ended: Ending = stop.kind
    else:
        ended = "declined" if counts.pending else "already_complete"
    return RunOutcome(
        ended=ended,
        reason=stop.reason if stop else None,
        signal=number if ended == "interrupted" else None,
        plan=prepared.plan,
        local_run_id=prepared.manifest.local_run_id if prepared.manifest else None,
        dispatched=0,
        succeeded=standing[Standing.SUCCESS],
        failed=standing[Standing.FAILED] + standing[Standing.THWARTED],
        skipped=standing[Standing.SKIPPED],
        resumed=counts.recorded,
        cancelled=0,
        pending=standing[Standing.PENDING],
        duration_ms=round((time.monotonic() - began) * 1000),
        metrics=dict(read_summary(run)) if run else {},
        failed_rows=_told(run, last_records(run.events, failed)) if run else (),
        skipped_rows=_told(run, last_records(run.events, skipped)) if run else (),
    )


def _told(run: RunDir, records: Iterable[JournalRecord]) -> tuple[UnscoredRow, ...]:
    return tuple(_unscored(run, record) for record in records)


def _unscored(run: RunDir, record: JournalRecord) -> UnscoredRow:
    return UnscoredRow(
        row_index=record.row_index,
        run_index=record.run_index,
        rollout_id=record.rollout_id,
        status="skipped" if record.status == "skipped" else "failed",
        rollout_dir=str(run.trial(record.rollout_id)),
        source_row_index=record.source_row_index,
        error_type=record.error_type,
        error_phase=record.error_phase,
        error_message=record.error_message,
    )
