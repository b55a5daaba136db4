"""The record of a call in the making: from its first moment to the one line that is kept.

Promise: an entry keeps the first end it is given, so that every call is recorded exactly once, whatever happens on the
way. Knows no transport and no HTTP server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from structlog.typing import FilteringBoundLogger

from osmosis_bridge.accounts import Accounts
from osmosis_bridge.call import Admitted, Call, Outcome, Record
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.stream import Reading
from osmosis_bridge.errors import BridgeError, LedgerFailed, Refused
from osmosis_bridge.ledger import Ledger
from osmosis_bridge.redact import Redactor
from osmosis_bridge.replay import Attempt
from osmosis_bridge.timestamps import iso_time

Headers = tuple[tuple[bytes, bytes], ...]

_NAMES_KEPT = 64
_NAME_LENGTH = 100
_ALIAS_KEPT = 200
_record_line = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Where entries go, and what all of them say alike."""

    provider: str
    model: str
    ledger: Ledger
    accounts: Accounts
    redactor: Redactor
    log: FilteringBoundLogger
    clock: Callable[[], float]


class Entry:
    """The one record of a call in the making; the first end it is given stands."""

    __slots__ = (
        "_recorder", "_settled", "admitted", "asked", "attempt", "call", "dialect", "ended_well", "headers",
        "outcome_hint", "reading", "status", "ttft", "upstream_request_id",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, call: Call, dialect: Dialect) -> None:
        self._recorder = recorder
        self.dialect = dialect
        self._settled = False
        self.call = call
        self.admitted: Admitted | None = None
        self.asked = False
        self.attempt: Attempt | None = None
        self.ended_well = False
        self.headers: Headers = ()
        self.outcome_hint: Outcome | None = None
        self.reading: Reading | None = None
        self.status: str | None = None
        self.ttft: float | None = None
        self.upstream_request_id: str | None = None

    def settle(self, outcome: Outcome) -> None:
        """Keep the record of the call; raises `LedgerFailed` where it cannot be kept."""
        if self._settled:
            return
        record = self._record(outcome)
        keep = self._recorder
        line = keep.redactor.scrub(_record_line(record))
        self._settled = True
        try:
            keep.ledger.append(line)
        except LedgerFailed as failed:
            keep.accounts.drop(self.call.rollout_id)
            keep.log.error("record lost", call_id=record.call_id, error=failed.message)
            raise
        keep.accounts.add(self.call.rollout_id, outcome)
        _log_call(keep.log, record)
        self.ended_well = outcome.status == "ok"

    def keep(self, piece: bytes) -> None:
        """Remember a piece of the reply for a client that may ask again."""
        if self.attempt is not None:
            self.attempt.add(piece)

    def settle_failure(self, error: BridgeError) -> BridgeError:
        """Record a call that failed; the error to show, which is another one where the record cannot be kept."""
        status = "refused" if isinstance(error, Refused) else (self.status or "upstream_error")
        code = str(error.code or error.type)
        if self.reading is not None:
            outcome = self.reading.outcome("upstream_error", error.status, code)
        elif self.outcome_hint is not None:
            outcome = self.outcome_hint
        else:
            outcome = Outcome(status="upstream_error")
        if outcome.usage is None:
            # A reply that broke off may have been paid for; an error was not an answer.
            outcome = msgspec.structs.replace(
                outcome, usage_source="missing" if status == "truncated" else None
            )
        outcome = msgspec.structs.replace(outcome, status=status, http_status=error.status, error_code=code)
        try:
            self.settle(outcome)
        except LedgerFailed as failed:
            return failed
        return error

    def settle_cancelled(self) -> None:
        """Record a call whose client left."""
        reading = self.reading
        outcome = (
            Outcome(status="cancelled", usage_source="missing" if self.asked else None)
            if reading is None
            else reading.outcome("cancelled", None)
        )
        self._settle_quietly(outcome)

    def settle_lost(self) -> None:
        """The net below every path: a call that nothing else recorded failed through a fault of ours."""
        if not self._settled:
            self._settle_quietly(
                Outcome(status="upstream_error", http_status=500, error_code="internal_error")
            )

    def _settle_quietly(self, outcome: Outcome) -> None:
        try:
            self.settle(outcome)
        except LedgerFailed:
            # Logged by `settle`; there is nobody left to tell.
            return

    def _record(self, outcome: Outcome) -> Record:
        call, admitted, keep = self.call, self.admitted, self._recorder
        known = admitted is not None
        return Record(
            call_id=call.call_id,
            rollout_id=call.rollout_id,
            seq=call.seq,
            started_at=iso_time(call.started_at),
            duration_ms=round((self._recorder.clock() - call.received) * 1000, 3),
            ttft_ms=None if self.ttft is None else round(self.ttft * 1000, 3),
            status=outcome.status,
            dialect=call.dialect,
            lane="wire",
            model=keep.model,
            provider=keep.provider,
            alias=keep.redactor.scrub_text(admitted.alias)[:_ALIAS_KEPT] if known else None,
            stream=admitted.stream if known else None,
            http_status=outcome.http_status,
            error_code=outcome.error_code,
            finish_reasons=outcome.finish_reasons,
            usage=outcome.usage,
            usage_source=outcome.usage_source,
            cost_usd=outcome.cost_usd,
            stripped=_bounded(admitted.stripped, keep.redactor) if known else (),
            forwarded=_bounded(admitted.forwarded, keep.redactor) if known else (),
            upstream_request_id=self.upstream_request_id,
            replay_of=outcome.replay_of,
        )


def _bounded(names: tuple[str, ...], redactor: Redactor) -> tuple[str, ...]:
    # A name that is cut is scrubbed before: half a secret would not be known again.
    return tuple(
        [
            name if len(name) <= _NAME_LENGTH else redactor.scrub_text(name)[:_NAME_LENGTH]
            for name in names[:_NAMES_KEPT]
        ]
    )


def _log_call(log: FilteringBoundLogger, record: Record) -> None:
    usage = record.usage
    said: dict[str, object] = {
        "call_id": record.call_id,
        "rollout_id": record.rollout_id,
        "status": record.status,
        "http_status": record.http_status,
        "duration_ms": record.duration_ms,
        "stream": record.stream,
    }
    if record.ttft_ms is not None:
        said["ttft_ms"] = record.ttft_ms
    if usage is not None:
        said["tokens"] = usage.total
    if record.error_code is not None:
        said["error_code"] = record.error_code
    if record.stripped:
        said["stripped"] = list(record.stripped)
    log.info("call", **said)
