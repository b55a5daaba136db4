"""The record of a call in the making: the first end stands, and there is exactly one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes import FakeLedger, FakeTransport, a_bridge, a_call, admitted
from osmosis_bridge.call import Admitted, Outcome, Usage
from osmosis_bridge.dialects.chat import CHAT_DIALECT
from osmosis_bridge.entry import Entry
from osmosis_bridge.errors import BridgeError, LedgerFailed, Refused, Unrecordable, UpstreamFailed
from osmosis_bridge.transcripts import Told, Transcripts

OK = Outcome(status="ok", http_status=200, usage=Usage(3, 4, 7), usage_source="provider")


class Made:
    """An entry of one call, and what it wrote."""

    def __init__(self, **fields: Any) -> None:
        self.ledger = FakeLedger(**fields)
        self.bridge = a_bridge(FakeTransport(), self.ledger)
        self.bridge.accounts.next_seq("r-1")
        self.entry = Entry(self.bridge.recorder, a_call(b"{}"), CHAT_DIALECT)

    @property
    def record(self) -> dict[str, Any]:
        (line,) = self.ledger.lines
        return json.loads(line)


def test_the_first_end_stands_and_is_kept_once() -> None:
    made = Made()
    made.entry.settle(OK)
    made.entry.settle(Outcome(status="cancelled"))
    made.entry.settle_cancelled()
    made.entry.settle_lost()
    assert made.entry.settle_failure(UpstreamFailed("late")).message == "late"
    assert (made.record["status"], made.ledger.appends, made.bridge.accounts.whole.calls) == ("ok", 1, 1)
    assert made.entry.ended_well


def test_an_entry_that_nobody_ended_is_a_fault_of_ours() -> None:
    made = Made()
    made.entry.settle_lost()
    assert (made.record["status"], made.record["http_status"], made.record["error_code"]) == (
        "upstream_error", 500, "internal_error"
    )  # fmt: skip
    assert not made.entry.ended_well


@pytest.mark.parametrize(
    ("error", "status", "http_status", "code"),
    [
        (Refused("x", code="invalid_json"), "refused", 400, "invalid_json"),
        (UpstreamFailed("x", status=429, code=429), "upstream_error", 429, "429"),
        (UpstreamFailed("x"), "upstream_error", 502, "upstream_error"),
        (BridgeError("x", status=503, code="upstream_busy"), "upstream_error", 503, "upstream_busy"),
    ],
)
def test_a_failure_is_recorded_by_whose_doing_it_is(
    error: BridgeError, status: str, http_status: int, code: str
) -> None:
    made = Made()
    assert made.entry.settle_failure(error) is error
    assert (made.record["status"], made.record["http_status"], made.record["error_code"]) == (
        status,
        http_status,
        code,
    )
    assert "usage_source" not in made.record


def test_a_failure_keeps_the_usage_that_is_known_of_the_call() -> None:
    made = Made()
    made.entry.outcome_hint = OK
    made.entry.status = "truncated"
    made.entry.settle_failure(UpstreamFailed("x"))
    assert (made.record["status"], made.record["usage"]["total_tokens"], made.record["usage_source"]) == (
        "truncated", 7, "provider"
    )  # fmt: skip


def test_a_call_that_left_before_the_provider_was_asked_lacks_no_usage() -> None:
    made, asked = Made(), Made()
    made.entry.settle_cancelled()
    asked.entry.asked = True
    asked.entry.settle_cancelled()
    assert "usage_source" not in made.record
    assert asked.record["usage_source"] == "missing"
    assert [one.bridge.accounts.whole.calls_without_usage for one in (made, asked)] == [0, 1]


def test_a_record_that_must_wait_says_what_the_client_is_told_and_counts_once() -> None:
    made = Made(fail_at=1)
    with pytest.raises(LedgerFailed):
        made.entry.settle(OK)
    made.entry.settle(OK)
    assert (made.ledger.appends, made.ledger.lines, made.ledger.held) == (1, [], 1)
    accounts = made.bridge.accounts
    assert (accounts.whole.calls, accounts.whole.tokens, accounts.in_flight("r-1")) == (1, 7, 0)
    assert not made.entry.ended_well
    made.ledger.mend()
    kept = {name: made.record[name] for name in ("status", "http_status", "error_code", "usage_source")}
    assert kept == {
        "status": "upstream_error", "http_status": 500, "error_code": "ledger_unavailable", "usage_source": "provider",
    }  # fmt: skip
    assert made.record["usage"]["total_tokens"] == 7


@pytest.mark.parametrize("settle", [Entry.settle_cancelled, Entry.settle_lost])
def test_a_record_that_must_wait_keeps_an_end_that_was_no_success(settle: Callable[[Entry], None]) -> None:
    plain, waits = Made(), Made(fail_at=1)
    settle(plain.entry)
    settle(waits.entry)
    assert waits.ledger.lines == []
    waits.ledger.mend()
    assert waits.record == plain.record


def test_where_the_record_must_wait_the_failure_shown_is_that() -> None:
    assert isinstance(Made(fail_at=1).entry.settle_failure(Refused("x")), LedgerFailed)


def test_a_refusal_for_want_of_a_record_is_itself_recorded_as_one() -> None:
    made, refusal = Made(fail_at=1), Unrecordable("x", code="ledger_unavailable")
    assert made.entry.settle_failure(refusal) is refusal
    made.ledger.mend()
    found = made.record
    assert (found["status"], found["http_status"], found["error_code"]) == (
        "refused",
        503,
        "ledger_unavailable",
    )


def test_a_refusal_that_is_not_even_held_does_not_count() -> None:
    made = Made(fail_at=1)
    made.ledger.hold = lambda line, *, admitted: admitted
    made.entry.settle_failure(Unrecordable("x"))
    assert (made.bridge.accounts.whole.calls, made.bridge.accounts.in_flight("r-1")) == (0, 0)


def test_names_and_aliases_are_bounded_and_a_secret_at_the_cut_leaves_nothing() -> None:
    made = Made()
    names = tuple("x" * length + "the-secret-key" for length in range(85, 101)) + ("y",) * 100
    made.entry.admitted = Admitted("m" * 190 + "the-secret-key", b'"m"', False, False, b"", names, names)
    made.entry.settle(OK)
    for kind in ("forwarded", "stripped"):
        assert len(made.record[kind]) == 64
        assert max(map(len, made.record[kind])) <= 100
        assert not any("the-secret" in name for name in made.record[kind])
    assert len(made.record["alias"]) <= 200
    assert "the-" not in made.record["alias"]


def test_pieces_are_kept_for_an_attempt_only() -> None:
    made = Made()
    made.entry.keep(b"x")
    attempt = made.entry.attempt = made.bridge.attempts.begin("r-1", b"{}", "call-1")
    made.entry.keep(b"y")
    assert attempt.pieces == [b"y"]


def test_what_is_known_of_the_call_is_in_its_record() -> None:
    made = Made()
    made.entry.admitted = admitted("mine", stream=True)
    made.entry.ttft = 0.25
    made.entry.upstream_request_id = "req-1"
    made.entry.settle(Outcome(status="ok", replay_of="call-0"))
    found = {
        name: made.record[name] for name in ("alias", "stream", "ttft_ms", "upstream_request_id", "replay_of")
    }
    assert found == {
        "alias": "mine",
        "stream": True,
        "ttft_ms": 250.0,
        "upstream_request_id": "req-1",
        "replay_of": "call-0",
    }


def test_clients_are_told_not_to_send_a_call_again_where_the_run_wants_no_retries() -> None:
    made = Made()
    headers = ((b"retry-after", b"5"), (b"x-should-retry", b"true"))
    assert made.entry.for_error(headers) == headers
    entry = Entry(replace(made.bridge.recorder, client_retries=False), a_call(b"{}"), CHAT_DIALECT)
    assert entry.for_error(headers) == ((b"retry-after", b"5"), (b"x-should-retry", b"false"))


def test_what_is_said_is_kept_only_when_somebody_keeps_it() -> None:
    made = Made()
    made.entry.ask(stream=False)
    made.entry.keep(b"x")
    kept = Transcripts()
    entry = Entry(replace(made.bridge.recorder, transcripts=kept), a_call(b"{}"), CHAT_DIALECT)
    assert len(kept) == 0
    entry.ask(stream=False)
    entry.settle(OK)
    entry.keep(b'{"choices":[{"message":{"content":"4"}}]}')
    assert kept.tell("r-1") == Told([{"content": "4"}], complete=True)
