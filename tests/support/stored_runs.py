"""Run directories as the runner leaves them, written by the runner's own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from osmosis_runner.journal import Journal
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.jsontext import JsonObject
from osmosis_runner.metrics import Invocation, RunIdentity, RunStatus, metrics_payload
from osmosis_runner.report import Report
from osmosis_runner.rows import Row
from osmosis_runner.rundir import Manifest, RunDir, create_run


def record(row: int, **changes: Any) -> JournalRecord:
    """A record of an item that passed, unless told otherwise."""
    usual: dict[str, Any] = {
        "row_index": row,
        "run_index": 0,
        "rollout_id": f"{row:032x}",
        "status": "success",
        "duration_ms": 1500,
        "reward": 1.0,
        "tokens": 100,
        "max_context_tokens": 60,
    }
    return JournalRecord(**(usual | changes))


def stored(
    root: Path,
    name: str = "quick-otter-07",
    *records: JournalRecord,
    rows: int = 4,
    created: str = "2026-01-02T03:04:05Z",
) -> RunDir:
    """Make a run with these records and no metrics: what a kill leaves behind."""
    manifest = Manifest(
        local_run_id="a" * 32,
        run_name=name,
        created_at=created,
        inputs={"model_path": "local/tiny", "n": 1, "rollout": {"name": "quick", "entrypoint": "main.py"}},
        provenance={},
    )
    listed = [
        Row(index, index, [{"role": "user", "content": f"Question {index}?\nThink."}], "42", None)
        for index in range(rows)
    ]
    progress: JsonObject = {"total_runs": rows, "sampled_rows": rows, "total_dataset_rows": rows}
    run = create_run(root, manifest, listed, progress)
    with Journal.open(run.events) as journal:
        journal.append(records)
    return run


def ended(run: RunDir, status: RunStatus, *records: JournalRecord, rows: int = 4) -> None:
    """Give a run the metrics of one that ended in order, or of one that says it is running."""
    report = Report(rows, 1, 1.0)
    for one in records:
        report.add(one)
    identity = RunIdentity("a" * 32, run.name, "quick", "quick.jsonl", "local/tiny", "quick")
    past = [Invocation("2026-01-02T03:04:05Z", 61_000, len(records), 1.0, "complete")]
    payload = metrics_payload(identity, status, past, report.summary(), None)
    run.metrics.write_text(json.dumps(payload))
