from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from osmosis_runner import attempt as attempt_module
from osmosis_runner.attempt import Attempts, Ended, Rollout, judge
from osmosis_runner.config import parse_config
from osmosis_runner.faults import LedgerUnavailable
from osmosis_runner.ledger_tail import LedgerTail
from osmosis_runner.plan import WorkItem
from osmosis_runner.protocol import (
    Admission,
    AdmissionRefused,
    ResultReply,
    RolloutClient,
    RolloutInit,
    SampleReply,
    ServerLost,
)
from osmosis_runner.redaction import run_redactor
from osmosis_runner.rows import Row
from osmosis_runner.sidecar import Sidecar, Spoken
from osmosis_runner.totals import Totals
from runner_fakes import FakeSidecar

CONFIG = parse_config(
    '[experiment]\nrollout="t"\nentrypoint="m.py"\nmodel_path="m/x"\ndataset="d"\n[evaluation]\n'
    "agent_workflow_timeout_s = 2.0\ngrader_timeout_s = 1.0\n[secrets]\nrequired=[]\n",
    Path("c.toml"),
)
ROW = Row(3, 7, [{"role": "user", "content": "hi"}], "56", {"a": 1})
SUCCESS = ResultReply("success", SampleReply(0.5))
OUT = {"status": "upstream_error", "http_status": 503}


class FakeClient:
    def __init__(self, result: ResultReply | Exception, admission: Exception | None = None) -> None:
        self._result, self._admission = result, admission
        self.admitted: list[RolloutInit] = []
        self.cancelled: list[str] = []

    async def admit(self, request: RolloutInit) -> Admission:
        self.admitted.append(request)
        if self._admission:
            raise self._admission
        return Admission("t0k")

    async def result(self, rollout_id: str, admission: Admission) -> ResultReply:
        if isinstance(self._result, Exception):
            raise self._result
        if self._result.status == "never":
            await asyncio.sleep(60)
        return self._result

    async def cancel(self, ids: list[str]) -> None:
        self.cancelled += ids


class FakeTail:
    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self._calls = calls
        self.expected: list[str] = []

    def expect(self, rollout_id: str) -> None:
        self.expected.append(rollout_id)

    def take(self, rollout_id: str) -> list[dict[str, Any]]:
        return self._calls


def carry_out(
    client: FakeClient, *calls: dict[str, Any], totals: Totals | None = None, told: Spoken | None = None
) -> tuple[Ended, Rollout]:
    async def main() -> tuple[Ended, Rollout]:
        sidecar = FakeSidecar(totals=totals)
        sidecar.told = told
        attempts = Attempts(
            CONFIG,
            cast("Sidecar", sidecar),
            cast("LedgerTail", FakeTail(list(calls))),
            run_redactor({}, ["hush-hush"]),
        )
        rollout = Rollout.of(WorkItem(3, 1), 2, ROW)
        await attempts.carry_out(rollout, cast("RolloutClient", client))
        ended = await attempts.settle(rollout)
        assert sidecar.closed == [rollout.rollout_id]
        if ended.record.status == "success":
            assert sidecar.heard == []
        return ended, rollout

    return asyncio.run(main())


def test_a_rollout_is_handed_over_with_its_row_and_its_own_way_to_the_model() -> None:
    client = FakeClient(SUCCESS)
    _, rollout = carry_out(client)
    (sent,) = client.admitted
    assert re.fullmatch(r"[0-9a-f]{32}", rollout.rollout_id)
    assert (sent.rollout_id, sent.label, sent.metadata) == (rollout.rollout_id, "56", {"a": 1})
    assert sent.chat_completions_url == f"http://bridge/v1/rollouts/{rollout.rollout_id}"
    assert sent.llm_api_key == f"orb-{rollout.rollout_id}"
    assert (sent.agent_timeout_sec, sent.grader_timeout_sec) == (2.0, 1.0)
    assert sent.extra_fields == {"row_index": 3, "run_index": 1}


def test_the_record_says_what_happened_and_what_it_used() -> None:
    totals = Totals(
        calls=2, tokens=30, max_context_tokens=20, prompt_tokens=25, completion_tokens=5, cost_usd=0.1
    )
    record = carry_out(FakeClient(SUCCESS), {"ttft_ms": 4.0, "status": "ok"}, totals=totals)[0].record
    assert (record.row_index, record.run_index, record.source_row_index, record.attempt) == (3, 1, 7, 2)
    assert (record.status, record.reward, record.error_type) == ("success", 0.5, None)
    assert (record.calls, record.tokens, record.max_context_tokens, record.cost_usd) == (2, 30, 20, 0.1)
    assert record.ttft_ms == 4.0
    assert record.started_at is not None
    assert record.started_at.endswith("Z")


def test_a_removed_sample_is_skipped_and_has_no_reward() -> None:
    record = carry_out(FakeClient(ResultReply("success", SampleReply(1.0, remove_sample=True))))[0].record
    assert (record.status, record.reward) == ("skipped", None)


def test_a_failure_keeps_category_phase_message_and_traceback_without_secrets() -> None:
    reply = ResultReply(
        "failure", None, "RuntimeError: hush-hush\nmore", "agent_error", "workflow", "tb hush-hush"
    )
    record = carry_out(FakeClient(reply))[0].record
    assert (record.status, record.error_type, record.error_phase) == ("failed", "agent_error", "agent")
    assert record.error_message == "RuntimeError: [REDACTED] more"
    assert record.error_traceback == "tb [REDACTED]"


@pytest.mark.parametrize(
    ("reply", "kind", "phase"),
    [
        (ResultReply("failure", None, "x", "timeout", "grader"), "timeout", "grader"),
        (ResultReply("failure", None, "x", "agent_error"), "agent_error", None),
        (ResultReply("failure", None, "just words"), "just words", None),
        (ResultReply("failure"), "rollout_failed", None),
    ],
)
def test_other_servers_say_less_and_nothing_is_made_up(
    reply: ResultReply, kind: str, phase: str | None
) -> None:
    record = carry_out(FakeClient(reply))[0].record
    assert (record.error_type, record.error_phase) == (kind, phase)


def test_a_failure_after_a_failed_last_call_is_the_providers() -> None:
    ended, _ = carry_out(FakeClient(ResultReply("failure", None, "E: 503", "agent_error", "workflow")), OUT)
    assert (ended.record.error_type, ended.record.error_phase) == ("provider_error", "provider")
    assert ended.provider_trouble == "the provider answered 503"
    assert not ended.provider_answered


def test_a_success_in_spite_of_failed_calls_is_a_success() -> None:
    ended, _ = carry_out(FakeClient(SUCCESS), OUT)
    assert (ended.record.status, ended.provider_trouble) == ("success", None)


def test_a_grader_that_fails_is_not_blamed_on_the_provider() -> None:
    ended, _ = carry_out(FakeClient(ResultReply("failure", None, "x", "agent_error", "grader")), OUT)
    assert ended.record.error_type == "agent_error"


def test_a_refused_admission_is_the_items_failure() -> None:
    ended, _ = carry_out(FakeClient(SUCCESS, AdmissionRefused(422, "no such field")))
    assert (ended.record.error_type, ended.record.error_phase) == ("rollout_protocol_error", "admission")
    assert "no such field" in (ended.record.error_message or "")


def test_a_lost_server_leaves_a_void_attempt() -> None:
    ended, rollout = carry_out(FakeClient(ServerLost("cut: gone")))
    assert (ended.lost, ended.record.status, ended.record.error_type) == (True, "cancelled", "server_lost")
    assert rollout.void


def test_a_cancelled_rollout_has_no_verdict() -> None:
    assert carry_out(FakeClient(ResultReply("cancelled")))[0].record.status == "cancelled"


def test_a_server_that_never_ends_a_rollout_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempt_module, "DEADLINE_MARGIN_S", -2.95)
    client = FakeClient(ResultReply("never"))
    ended, rollout = carry_out(client)
    assert (ended.record.status, ended.record.error_type, ended.record.error_phase) == (
        "failed",
        "timeout",
        "server",
    )
    assert client.cancelled == [rollout.rollout_id]


def test_judging_needs_nothing_but_the_rollout_and_its_calls() -> None:
    rollout = Rollout.of(WorkItem(0, 0), 1, ROW)
    rollout.reply = SUCCESS
    assert judge(rollout, []) == ("success", None)


def test_a_blocking_rollout_is_marked() -> None:
    ended, _ = carry_out(FakeClient(ResultReply("success", blocked_ms=2500, blocked_at="main.py:8 in run")))
    assert (ended.blocked_ms, ended.blocked_at) == (2500, "main.py:8 in run")


def test_what_the_server_says_of_the_conversation_goes_along_unread() -> None:
    reply = ResultReply("success", SampleReply(0.5, messages=msgspec.Raw(b"[1]")))
    transcript = carry_out(FakeClient(reply))[0].transcript
    assert transcript is not None
    assert (bytes(transcript.messages), transcript.label, transcript.metadata) == (b"[1]", "56", {"a": 1})
    assert carry_out(FakeClient(ResultReply("failure")))[0].transcript is None


def test_a_failure_without_a_word_is_explained_where_it_can_be() -> None:
    told = carry_out(FakeClient(ResultReply("failure")))[0].record.error_message
    assert told == "the rollout server does not say why"
    rollout = Rollout.of(WorkItem(0, 0), 1, Row(0, 0, [], None, None))
    rollout.reply = ResultReply("failure")
    _, fault = judge(rollout, [])
    assert fault is not None
    assert "neither label nor metadata" in fault.message


SPOKEN = Spoken(msgspec.Raw(b'[{"role":"user","content":"hi"}]'))


@pytest.mark.parametrize(
    "result",
    [
        ResultReply("failure"),
        ResultReply("failure", SampleReply(messages=msgspec.Raw(b"[]"))),
        ResultReply("cancelled"),
        ServerLost("cut: gone"),
    ],
)
def test_a_rollout_that_failed_without_a_word_is_told_as_the_bridge_saw_it(
    result: ResultReply | Exception,
) -> None:
    transcript = carry_out(FakeClient(result), told=SPOKEN)[0].transcript
    assert transcript is not None
    assert transcript.partial
    assert (bytes(transcript.messages), transcript.label) == (bytes(SPOKEN.messages), "56")
    assert carry_out(FakeClient(result), told=Spoken(msgspec.Raw(b"[]")))[0].transcript is None


def test_what_the_server_tells_of_a_failed_rollout_goes_before_what_the_bridge_saw() -> None:
    reply = ResultReply("failure", SampleReply(messages=msgspec.Raw(b"[1]")))
    transcript = carry_out(FakeClient(reply), told=SPOKEN)[0].transcript
    assert transcript is not None
    assert (bytes(transcript.messages), transcript.partial) == (b"[1]", False)


def test_retries_of_its_calls_are_in_the_record() -> None:
    started = [f"2026-01-01T00:00:0{second}.000Z" for second in (1, 7)]
    busy = {"status": "upstream_error", "http_status": 429, "duration_ms": 1000, "started_at": started[0]}
    record = carry_out(FakeClient(SUCCESS), busy, {"status": "ok", "started_at": started[1]})[0].record
    assert (record.provider_retries, record.retry_wait_ms) == (1, 5000)


def under_a_dying_bridge(result: ResultReply, *calls: dict[str, Any], closes: bool = True) -> Ended:
    async def main() -> Ended:
        sidecar = FakeSidecar(totals=Totals(calls=9, tokens=999))
        tail = FakeTail(list(calls))
        attempts = Attempts(CONFIG, cast("Sidecar", sidecar), cast("LedgerTail", tail), run_redactor({}, []))
        rollout = Rollout.of(WorkItem(3, 1), 2, ROW)
        await attempts.carry_out(rollout, cast("RolloutClient", FakeClient(result)))
        if closes:
            await sidecar.restart()
        else:
            sidecar.child.exited.set()
        return await attempts.settle(rollout)

    return asyncio.run(main())


USED = {"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, "usage_source": "provider"}


@pytest.mark.parametrize("closes", [True, False])
def test_a_rollout_whose_bridge_died_is_void_and_its_ledger_says_what_it_spent(closes: bool) -> None:
    failure = ResultReply("failure", err_message="connection refused", err_category="agent_error")
    ended = under_a_dying_bridge(failure, {"status": "ok", **USED}, {"status": "ok", **USED}, closes=closes)
    assert (ended.orphaned, ended.record.status, ended.record.error_type) == (
        True,
        "cancelled",
        "bridge_lost",
    )
    assert (ended.record.calls, ended.record.tokens, ended.record.max_context_tokens) == (2, 14, 7)


def test_a_rollout_that_had_succeeded_when_its_bridge_died_counts() -> None:
    ended = under_a_dying_bridge(SUCCESS, {"status": "ok", **USED})
    assert (ended.record.status, ended.record.reward, ended.record.tokens) == ("success", 0.5, 7)


def settled_unsynced(result: ResultReply) -> tuple[Ended, FakeSidecar]:
    """An attempt whose records the bridge cannot put on disk, settled all the same."""

    async def main() -> tuple[Ended, FakeSidecar]:
        sidecar = FakeSidecar(totals=Totals(calls=3, tokens=39, max_context_tokens=13))
        sidecar.close_fault = LedgerUnavailable("the ledger cannot be written")
        attempts = Attempts(
            CONFIG,
            cast("Sidecar", sidecar),
            cast("LedgerTail", FakeTail([{"status": "ok"}])),
            run_redactor({}, []),
        )
        rollout = Rollout.of(WorkItem(3, 1), 1, ROW)
        await attempts.carry_out(rollout, cast("RolloutClient", FakeClient(result)))
        with pytest.raises(LedgerUnavailable):
            await attempts.settle(rollout)
        return await attempts.settle(rollout, unsynced=True), sidecar

    return asyncio.run(main())


def test_a_success_counts_with_what_the_bridge_knows_where_its_ledger_stays_unwritable() -> None:
    record = settled_unsynced(SUCCESS)[0].record
    assert (record.status, record.reward) == ("success", 0.5)
    assert (record.calls, record.tokens, record.max_context_tokens) == (3, 39, 13)


def test_a_failure_whose_calls_could_not_be_recorded_is_void() -> None:
    ended, _ = settled_unsynced(ResultReply("failure", err_category="agent_error", err_message="503"))
    assert ended.record.status == "cancelled"
    assert ended.orphaned
    assert ended.record.error_message == "its calls could not be recorded"
