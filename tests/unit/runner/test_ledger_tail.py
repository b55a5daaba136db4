from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from osmosis_runner.ledger_tail import (
    LedgerTail,
    Retries,
    Waits,
    median_ttft_ms,
    provider_trouble,
    retries_of,
)


def add(path: Path, *calls: dict[str, Any], end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("\n".join(json.dumps(call) for call in calls) + end)


def call(rollout_id: str, total: int | None = None, **fields: Any) -> dict[str, Any]:
    usage = (
        None if total is None else {"prompt_tokens": total - 1, "completion_tokens": 1, "total_tokens": total}
    )
    return {"rollout_id": rollout_id, "usage": usage, **fields}


def test_calls_are_handed_out_by_rollout_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    add(path, call("old"))
    tail = LedgerTail(path)
    tail.expect("a")
    tail.expect("b")
    add(path, call("a", seq=1), call("b", seq=1), call("a", seq=2))
    assert [found["seq"] for found in tail.take("a")] == [1, 2]
    assert tail.take("a") == []
    assert len(tail.take("b")) == 1
    assert tail.take("old") == []
    tail.close()


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.touch()
    tail = LedgerTail(path)
    tail.expect("a")
    text = json.dumps(call("a", seq=1))
    with path.open("a") as file:
        file.write(text[:10])
        file.flush()
        assert tail.waits() == Waits()
        file.write(text[10:] + "\n")
    assert len(tail.take("a")) == 1
    tail.close()


def test_a_renamed_ledger_is_followed_and_foreign_lines_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.touch()
    tail = LedgerTail(path)
    tail.expect("a")
    path = path.rename(tmp_path / "moved.jsonl")
    with path.open("a") as file:
        file.write('garbage\n[]\n{"no":"id"}\n')
    add(path, call("a"), call("b"))
    assert len(tail.take("a")) == 1
    assert tail.take("b") == []
    tail.close()


@pytest.mark.parametrize(
    ("calls", "trouble"),
    [
        ([], False),
        ([{"status": "ok"}], False),
        ([{"status": "upstream_error", "http_status": 503}], True),
        ([{"status": "upstream_error", "http_status": 401}], True),
        ([{"status": "upstream_error", "http_status": 429}], True),
        ([{"status": "upstream_error"}], True),
        ([{"status": "truncated"}], True),
        ([{"status": "upstream_error", "http_status": 400}], False),
        ([{"status": "refused", "http_status": 400}], False),
        ([{"status": "refused", "http_status": 503, "error_code": "ledger_unavailable"}], True),
        ([{"status": "upstream_error", "http_status": 500, "error_code": "ledger_unavailable"}], True),
        (
            [{"status": "refused", "http_status": 503, "error_code": "ledger_unavailable"}, {"status": "ok"}],
            False,
        ),
        ([{"status": "cancelled"}], False),
        ([{"status": "upstream_error", "http_status": 503}, {"status": "ok"}], False),
        ([{"status": "ok"}, {"status": "upstream_error", "http_status": 503}], True),
    ],
)
def test_the_provider_is_to_blame_by_the_last_call(calls: list[dict[str, Any]], trouble: bool) -> None:
    assert (provider_trouble(calls) is not None) is trouble


def test_the_median_is_over_the_calls_that_have_a_time() -> None:
    assert median_ttft_ms([{"ttft_ms": 9.0}, {}, {"ttft_ms": 1.0}, {"ttft_ms": 5.5}]) == 5.5
    assert median_ttft_ms([{}]) is None


def refused(rollout_id: str, status: int = 429, **fields: Any) -> dict[str, Any]:
    return call(rollout_id, status="upstream_error", http_status=status, **fields)


def test_who_waits_for_the_provider_is_known_while_it_does(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.touch()
    tail = LedgerTail(path)
    for name in "abc":
        tail.expect(name)
    assert tail.waits() == Waits()
    add(path, refused("a"), refused("a", 503), refused("b", 400), call("c", status="ok"))
    assert tail.waits() == Waits(refusals=2, waiting=1, status=503)
    add(path, call("a", status="ok"))
    assert tail.waits() == Waits(refusals=2, waiting=0, status=503)
    add(path, refused("b", 500, error_code="ledger_unavailable"))
    assert tail.waits() == Waits(refusals=2, waiting=0, status=503)
    add(path, refused("c"))
    tail.take("c")
    assert tail.waits() == Waits(refusals=3, waiting=0, status=429)
    tail.close()


def test_calls_that_end_after_their_rollout_was_taken_are_spend_and_told_once(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.touch()
    tail = LedgerTail(path)
    tail.expect("a")
    add(path, call("a", 5))
    tail.take("a")
    add(path, call("a", 7), call("preflight-x", 100))
    assert (tail.strays().tokens, tail.strays().tokens) == (7, None)
    add(path, call("a", 1))
    spend = tail.strays()
    assert (spend.tokens, spend.attempts) == (1, 0)
    tail.close()


def test_retries_of_a_rollout_are_counted_with_the_time_between() -> None:
    at = "2026-01-01T00:00:{:06.3f}Z".format
    calls = [
        refused("a", started_at=at(0), duration_ms=500.0),
        refused("a", 503, started_at=at(5.5), duration_ms=100.0),
        call("a", status="ok", started_at=at(6), duration_ms=100.0),
        refused("a", 400, started_at=at(7), duration_ms=1.0),
        refused("a", started_at=at(8), duration_ms=1.0),
    ]
    assert retries_of(calls) == Retries(2, 5_400)
    assert retries_of([refused("a"), call("a")]) == Retries(1, 0)
    assert retries_of([]) == Retries()


def test_half_a_line_that_its_writer_cut_off_is_forgotten_however_often_it_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.touch()
    tail = LedgerTail(path)
    tail.expect("a")
    for seq in (1, 2):
        whole = path.stat().st_size
        add(path, call("a", seq=99), end="")
        assert tail.waits() == tail.waits() == Waits()
        os.truncate(path, whole)
        add(path, call("a", seq=seq))
    assert [found["seq"] for found in tail.take("a")] == [1, 2]
    tail.close()


def test_a_line_longer_than_what_is_read_at_once_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osmosis_runner.ledger_tail.CHUNK", 16)
    path = tmp_path / "calls.jsonl"
    path.touch()
    tail = LedgerTail(path)
    tail.expect("a")
    add(path, call("a", seq=1, padding="x" * 200), call("a", seq=2))
    assert [found["seq"] for found in tail.take("a")] == [1, 2]
    tail.close()


def test_half_a_line_that_a_dead_bridge_left_is_not_taken_for_a_beginning(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    add(path, call("a"))
    tail = LedgerTail(path)
    tail.expect("a")
    add(path, call("a", seq=1))
    whole = path.stat().st_size
    add(path, call("a", seq=2), end="")
    assert tail.waits() == Waits()
    os.truncate(path, whole)
    add(path, call("a", seq=3))
    assert [found["seq"] for found in tail.take("a")] == [1, 3]
    tail.close()
