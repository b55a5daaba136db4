"""One line of the journal: its fields, its exact text, and what makes a line bad. Pure."""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

Status = Literal["success", "failed", "skipped"]
"""How a recorded item ended; these three are final."""

AttemptStatus = Literal["success", "failed", "skipped", "cancelled"]
"""A `cancelled` attempt is recorded for what it spent; its item stays pending."""

ErrorPhase = Literal["launch", "admission", "agent", "grader", "result", "server", "provider"]
"""Where a failed attempt broke."""

KIND_LIMIT = 100
MESSAGE_LIMIT = 1_000
TRACEBACK_LIMIT = 8_000

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class BadRecord(ValueError):
    """A line that is no record; the message says why."""


class JournalRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt that ended. Absent = unknown, never zero; times are ISO 8601 UTC, durations in milliseconds."""

    row_index: int
    run_index: int
    rollout_id: str
    status: AttemptStatus
    duration_ms: int
    source_row_index: int | None = None
    reward: float | None = None
    tokens: int | None = None
    error_type: str | None = None
    """Short code; cut to `KIND_LIMIT` characters."""
    error_phase: ErrorPhase | None = None
    error_message: str | None = None
    """Redacted by the caller; one line, cut to `MESSAGE_LIMIT` characters."""
    error_traceback: str | None = None
    """Redacted by the caller; cut to its last `TRACEBACK_LIMIT` characters."""
    attempt: int = 1
    """1 for the first attempt at this item, counting superseded and cancelled ones."""
    started_at: str | None = None
    finished_at: str | None = None
    max_context_tokens: int | None = None
    calls: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    ttft_ms: float | None = None
    """Median time to first token of the rollout's calls."""
    provider_retries: int | None = None
    """Calls that the provider turned away for a while (429, 5xx) and that were asked again."""
    retry_wait_ms: int | None = None
    """Time its clients waited before they asked again."""
    timed_out: bool | None = None
    """True: the agent's time ran out, and what it had left was graded."""
    trajectory_filename: str | None = None
    """`trajectory.json` when a valid trajectory of this rollout was kept."""

    @property
    def item(self) -> tuple[int, int]:
        """(row_index, run_index)."""
        return (self.row_index, self.run_index)


_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(JournalRecord)


def bounded_record(record: JournalRecord) -> JournalRecord:
    """Return the record with its texts cut to their limits, the message on one line, half characters escaped."""
    message, trace, kind = record.error_message, record.error_traceback, record.error_type
    if message is None and trace is None and kind is None:
        return record
    return msgspec.structs.replace(
        record,
        error_type=None if kind is None else _writable(kind)[:KIND_LIMIT],
        error_message=None if message is None else _one_line(_writable(message)),
        error_traceback=None if trace is None else _writable(trace)[-TRACEBACK_LIMIT:],
    )


def encode_record(record: JournalRecord) -> bytes:
    """Return the record's line, keys sorted, newline included. Raises `BadRecord`."""
    _check(record)
    try:
        return _ENCODER.encode(record) + b"\n"
    except UnicodeEncodeError:
        raise BadRecord("a text of the record holds half a surrogate pair") from None


def decode_record(line: bytes) -> JournalRecord:
    """Return the record of one line; unknown keys are ignored. Raises `BadRecord`."""
    if not line.strip(b" \t\r\0"):
        raise BadRecord("the line is blank")
    try:
        record = _DECODER.decode(line)
    except msgspec.ValidationError as error:
        raise BadRecord(f"not a record: {error}") from None
    except msgspec.DecodeError as error:
        raise BadRecord(f"invalid JSON: {str(error).removeprefix('JSON is malformed: ')}") from None
    _check(record)
    return record


def _check(record: JournalRecord) -> None:
    if not _SAFE_ID.fullmatch(record.rollout_id):
        raise BadRecord(f"rollout_id {record.rollout_id[:80]!r} cannot be a folder's name")
    if record.row_index < 0 or record.run_index < 0:
        raise BadRecord(f"negative index: row {record.row_index}, run {record.run_index}")
    for name in ("reward", "cost_usd", "ttft_ms"):
        value = getattr(record, name)
        if value is not None and not math.isfinite(value):
            raise BadRecord(f"{name} is {value}, which JSON cannot hold")


def _writable(text: str) -> str:
    """Escape halves of surrogate pairs: an error text from anywhere must not keep its record from being written."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 3] + "..."
