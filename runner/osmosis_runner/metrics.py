"""metrics.json and the lines of index.jsonl: what a run's figures look like on disk. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.jsontext import JsonObject, JsonValue

RunStatus = Literal["running", "finished", "incomplete"]

INDEX_FIELDS = (
    "row_index", "run_index", "rollout_id", "trajectory_filename", "status", "reward", "tokens", "duration_ms",
    "error_type", "error_phase", "error_message", "max_context_tokens", "calls", "prompt_tokens",
    "completion_tokens", "cached_tokens", "cost_usd", "provider_retries", "retry_wait_ms",
    "timed_out",
)  # fmt: skip

_ENCODER = msgspec.json.Encoder(order="sorted")


class Invocation(msgspec.Struct, frozen=True):
    """One start of a run; all of them are kept over resumes."""

    started_at: str
    active_ms: int
    """Wall time from start to end, or to the last snapshot of one that was killed."""
    dispatched: int
    pass_threshold: float
    ended: str | None = None
    """`complete`, `interrupted`, `halted`, or None while it runs or when it was killed."""


class RunIdentity(msgspec.Struct, frozen=True):
    """What metrics.json says about the run itself."""

    id: str
    name: str
    dataset_name: str
    dataset_file: str
    model_name: str
    rollout_name: str


def metrics_payload(
    identity: RunIdentity,
    status: RunStatus,
    invocations: Sequence[Invocation],
    summary: Mapping[str, JsonValue],
    completed_at: str | None,
) -> JsonObject:
    """Return metrics.json: first start, active time over all invocations, and the summary."""
    run: JsonObject = {
        "id": identity.id,
        "status": status,
        "name": identity.name,
        "dataset_name": identity.dataset_name,
        "dataset_file": identity.dataset_file,
        "model_name": identity.model_name,
        "rollout_name": identity.rollout_name,
        "duration_ms": sum(invocation.active_ms for invocation in invocations),
        "started_at": invocations[0].started_at if invocations else None,
    }
    if completed_at is not None:
        run["completed_at"] = completed_at
    run["invocations"] = [_invocation_json(invocation) for invocation in invocations]
    return {"eval_run": run, "summary": dict(summary)}


def past_invocations(metrics: JsonValue) -> list[Invocation]:
    """Return the invocations that a metrics.json names; none for a file of another shape."""
    run = metrics.get("eval_run") if isinstance(metrics, Mapping) else None
    listed = run.get("invocations") if isinstance(run, Mapping) else None
    if not isinstance(listed, list):
        return []
    try:
        return msgspec.convert(cast("object", listed), list[Invocation])
    except msgspec.ValidationError:
        return []


def index_line(record: JournalRecord, *, resumed: bool) -> bytes:
    """Return the record's line of index.jsonl and summary.jsonl: sorted keys, nulls left out, newline at the end."""
    values = {name: getattr(record, name) for name in INDEX_FIELDS}
    line: dict[str, object] = {name: value for name, value in values.items() if value is not None}
    if resumed:
        line["resumed"] = True
    return _ENCODER.encode(line) + b"\n"


def _invocation_json(invocation: Invocation) -> JsonObject:
    found: JsonObject = {
        "started_at": invocation.started_at,
        "active_ms": invocation.active_ms,
        "dispatched": invocation.dispatched,
        "pass_threshold": invocation.pass_threshold,
    }
    if invocation.ended is not None:
        found["ended"] = invocation.ended
    return found
