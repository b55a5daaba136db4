"""One attempt at one item: hand the rollout over, wait for its end, close it on the bridge, write down what happened.

A bad rollout is a value, not an exception. Knows nothing of queues, journals or other attempts.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from osmosis_runner.faults import LedgerUnavailable, SidecarError
from osmosis_runner.journal import AttemptStatus, ErrorPhase, JournalRecord
from osmosis_runner.ledger_tail import Call, LedgerTail, median_ttft_ms, provider_trouble, retries_of
from osmosis_runner.projection import Transcript
from osmosis_runner.protocol import (
    AdmissionRefused,
    ResultReply,
    RolloutClient,
    RolloutInit,
    ServerLost,
)
from osmosis_runner.totals import totals_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from osmosis_runner.child import Child
    from osmosis_runner.config import EvalConfig
    from osmosis_runner.plan import WorkItem
    from osmosis_runner.redaction import RunRedactor
    from osmosis_runner.rows import Row
    from osmosis_runner.sidecar import Sidecar, Spoken
    from osmosis_runner.totals import Totals

DEADLINE_MARGIN_S = 60.0
"""How long a server may take beyond both time limits before we stop waiting for it."""


PHASES: dict[str, ErrorPhase] = {"workflow": "agent", "grader": "grader"}
"""The host's words for where a rollout broke, in the journal's."""


class Fault(msgspec.Struct, frozen=True):
    """Why an attempt has no good end."""

    kind: str
    """`error_type` of the record."""
    phase: ErrorPhase | None
    """None when the server does not say."""
    message: str
    traceback: str | None = None


class Ended(msgspec.Struct, frozen=True):
    """One attempt that is over, closed on the bridge and not yet recorded."""

    item: WorkItem
    record: JournalRecord
    calls: Sequence[Call] = ()
    provider_trouble: str | None = None
    """Why the provider is to blame, for a failed attempt."""
    lost: bool = False
    """The server went away under it; the record only says what it spent."""
    blocked_ms: int | None = None
    blocked_at: str | None = None
    transcript: Transcript | None = None
    """What the rollout said, as its server tells it, or as the bridge saw it."""
    orphaned: bool = False
    """The bridge died before it was closed."""

    @property
    def provider_answered(self) -> bool:
        """Whether its last call shows a provider that works."""
        return bool(self.calls) and self.calls[-1].get("status") == "ok"


class Rollout(msgspec.Struct):
    """One attempt on its way."""

    item: WorkItem
    number: int
    """1 for the first attempt at the item."""
    row: Row
    rollout_id: str
    started_at: datetime
    began: float
    finished: float = 0.0
    reply: ResultReply | None = None
    fault: Fault | None = None
    lost: bool = False
    """The server went away under it."""
    bridge: Child | None = None
    """The bridge that knows it."""
    void: bool = False
    """It ended through no fault of its own; its item runs again."""

    @classmethod
    def of(cls, item: WorkItem, number: int, row: Row) -> Rollout:
        """A new attempt with an id of its own."""
        return cls(item, number, row, uuid.uuid4().hex, datetime.now(UTC), time.monotonic())


class Attempts(msgspec.Struct, frozen=True):
    """What every attempt of a run shares."""

    config: EvalConfig
    sidecar: Sidecar
    tail: LedgerTail
    redactor: RunRedactor

    async def carry_out(self, rollout: Rollout, client: RolloutClient) -> None:
        """Run the rollout on the server to its end; what went wrong is left on it."""
        self.tail.expect(rollout.rollout_id)
        rollout.bridge = self.sidecar.child
        limit = self.config.agent_timeout_s + self.config.grader_timeout_s + DEADLINE_MARGIN_S
        try:
            async with asyncio.timeout(limit):
                admission = await client.admit(self._request(rollout))
                rollout.reply = await client.result(rollout.rollout_id, admission)
        except AdmissionRefused as refusal:
            rollout.fault = Fault("rollout_protocol_error", "admission", str(refusal))
        except ServerLost as lost:
            rollout.lost = rollout.void = True
            rollout.fault = Fault("server_lost", "server", str(lost))
        except TimeoutError:
            await client.cancel([rollout.rollout_id])
            text = f"the rollout server did not end the rollout within {limit:g} s"
            rollout.fault = Fault("timeout", "server", text)
        rollout.finished = time.monotonic()

    async def settle(self, rollout: Rollout, *, unsynced: bool = False) -> Ended:
        """Close the rollout on the bridge and make its record; once more where that failed. Raises `SidecarError`.

        `unsynced`: the ledger stays unwritable, so what the bridge knows of it has to do.
        """
        transcript = _transcript(rollout.reply, rollout.row)
        if transcript is None and not _succeeded(rollout):
            # Once it is closed the bridge has forgotten what it said.
            transcript = _heard(await self.sidecar.spoken(rollout.rollout_id), rollout.row)
        totals = await self._closed(rollout, unsynced=unsynced)
        calls = self.tail.take(rollout.rollout_id)
        orphaned = totals is None
        if orphaned and not _succeeded(rollout):
            # It had nobody to ask; what it said and did after that says nothing about it.
            rollout.void = True
            why = "its calls could not be recorded" if unsynced else "the bridge died under it"
            rollout.fault = Fault("bridge_lost", "provider", why)
        if unsynced and totals is None:
            totals = await self.sidecar.totals(rollout.rollout_id)
        status, fault = judge(rollout, calls)
        trouble = provider_trouble(calls) if status == "failed" else None
        reply = rollout.reply
        return Ended(
            rollout.item,
            self._record(rollout, totals or totals_of(calls), calls, status, fault),
            calls,
            trouble,
            rollout.lost,
            reply.blocked_ms if reply else None,
            reply.blocked_at if reply else None,
            transcript,
            orphaned,
        )

    async def _closed(self, rollout: Rollout, *, unsynced: bool) -> Totals | None:
        """The totals of a rollout, or None when its bridge is dead: then its ledger tells. Raises `SidecarError`.

        None too where its records are not on disk and need not be.
        """
        bridge = self.sidecar.child
        if bridge is not rollout.bridge or bridge.exited.is_set():
            return None
        try:
            return await self.sidecar.close(rollout.rollout_id)
        except LedgerUnavailable:
            if unsynced:
                return None
            raise
        except SidecarError:
            if await bridge.dies():
                return None
            raise

    def _request(self, rollout: Rollout) -> RolloutInit:
        row, rollout_id = rollout.row, rollout.rollout_id
        return RolloutInit(
            rollout_id=rollout_id,
            initial_messages=row.messages,
            chat_completions_url=self.sidecar.base_url(rollout_id),
            llm_api_key=self.sidecar.bearer_of(rollout_id),
            label=row.label,
            metadata=row.metadata,
            agent_timeout_sec=self.config.agent_timeout_s,
            grader_timeout_sec=self.config.grader_timeout_s,
            extra_fields={"row_index": rollout.item.row_index, "run_index": rollout.item.run_index},
        )

    def _record(
        self,
        rollout: Rollout,
        totals: Totals,
        calls: Sequence[Call],
        status: AttemptStatus,
        fault: Fault | None,
    ) -> JournalRecord:
        sample = rollout.reply.sample if rollout.reply else None
        retries = retries_of(calls)
        return JournalRecord(
            row_index=rollout.item.row_index,
            run_index=rollout.item.run_index,
            rollout_id=rollout.rollout_id,
            status=status,
            duration_ms=round((rollout.finished - rollout.began) * 1000),
            source_row_index=rollout.row.source_row_index,
            timed_out=(rollout.reply.timed_out if rollout.reply else False) or None,
            reward=sample.reward if sample and status == "success" else None,
            tokens=totals.tokens,
            error_type=fault.kind if fault else None,
            error_phase=fault.phase if fault else None,
            error_message=self.redactor.message(fault.message) if fault else None,
            error_traceback=self.redactor.line(fault.traceback) if fault and fault.traceback else None,
            attempt=rollout.number,
            started_at=_iso(rollout.started_at),
            finished_at=_iso(datetime.now(UTC)),
            max_context_tokens=totals.max_context_tokens,
            calls=totals.calls,
            prompt_tokens=totals.prompt_tokens,
            completion_tokens=totals.completion_tokens,
            cached_tokens=totals.cached_tokens,
            cost_usd=totals.cost_usd,
            ttft_ms=median_ttft_ms(calls),
            provider_retries=retries.count or None,
            retry_wait_ms=retries.wait_ms or None,
        )


def judge(rollout: Rollout, calls: Sequence[Call]) -> tuple[AttemptStatus, Fault | None]:
    """Status and fault of an attempt that is over. Pure."""
    reply = rollout.reply
    if rollout.void:
        return "cancelled", rollout.fault
    if reply is None:
        return "failed", rollout.fault
    if reply.status == "cancelled":
        return "cancelled", None
    if reply.status != "success":
        return "failed", _failure(reply, calls, rollout.row)
    if reply.sample is not None and reply.sample.remove_sample:
        return "skipped", None
    return "success", None


def _failure(reply: ResultReply, calls: Sequence[Call], row: Row) -> Fault:
    kind = reply.err_category or reply.err_message or "rollout_failed"
    message = reply.err_message or (kind if reply.err_category else _unexplained(row))
    phase = PHASES.get(reply.err_phase or "")
    trouble = provider_trouble(calls) if phase != "grader" and kind == "agent_error" else None
    if trouble is not None:
        return Fault("provider_error", "provider", f"{trouble}: {message}", reply.err_traceback)
    return Fault(kind[:100], phase, message, reply.err_traceback)


def _unexplained(row: Row) -> str:
    text = "the rollout server does not say why"
    if row.label is None and row.metadata is None:
        # What osmosis-ai does with such a row.
        text += "; the row has neither label nor metadata, so there is nothing to grade it by"
    return text


def _transcript(reply: ResultReply | None, row: Row) -> Transcript | None:
    """What the server tells of the rollout's conversation."""
    sample = reply.sample if reply else None
    if sample is None or bytes(sample.messages) in (b"null", b"[]"):
        return None
    return Transcript(sample.messages, sample.metrics, sample.extra_fields, row.label, row.metadata)


def _heard(spoken: Spoken | None, row: Row) -> Transcript | None:
    """What the bridge saw of it."""
    if spoken is None or bytes(spoken.messages) == b"[]":
        return None
    return Transcript(spoken.messages, label=row.label, metadata=row.metadata, partial=True)


def _succeeded(rollout: Rollout) -> bool:
    return rollout.reply is not None and rollout.reply.status == "success"


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
