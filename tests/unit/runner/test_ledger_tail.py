from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osmosis_runner.ledger_tail import LedgerTail, median_ttft_ms, provider_trouble, unrecorded_spend


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
    text = json.dumps(call("a", seq=1))
    with path.open("a") as file:
        file.write(text[:10])
        file.flush()
        assert tail.take("a") == []
        file.write(text[10:] + "\n")
    assert len(tail.take("a")) == 1
    tail.close()


def test_a_renamed_ledger_is_followed_and_foreign_lines_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.touch()
    tail = LedgerTail(path)
    path = path.rename(tmp_path / "moved.jsonl")
    with path.open("a") as file:
        file.write('garbage\n[]\n{"no":"id"}\n')
    add(path, call("a"), call("b"))
    assert len(tail.take("a")) == 1
    tail.forget_all_but({"c"})
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


def test_what_killed_rollouts_spent_is_added_up_without_preflights(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    add(
        path,
        call("kept", 100),
        call("lost1", 7, cost_usd=0.5),
        call("lost1", 3, cost_usd=0.25),
        call("lost2"),
    )
    add(path, call("preflight-1", 1000), call("lost3", 50, usage_source="estimated"))
    spend = unrecorded_spend(path, {"kept"})
    assert (spend.attempts, spend.tokens, spend.prompt_tokens, spend.cost_usd) == (3, 10, 8, 0.75)
    assert spend.cached_tokens is None
    assert unrecorded_spend(tmp_path / "missing", set()).tokens is None
