from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from osmosis_runner.ledger_spend import RolloutSet, Sums, spent_in, unrecorded_spend
from osmosis_runner.spend import Spend


def call(rollout_id: str, total: int | None = None, **fields: Any) -> dict[str, Any]:
    usage = (
        None if total is None else {"prompt_tokens": total - 1, "completion_tokens": 1, "total_tokens": total}
    )
    return {"rollout_id": rollout_id, "usage": usage, **fields}


def write(path: Path, *calls: dict[str, Any]) -> Path:
    path.write_text("garbage\n" + "".join(json.dumps(call) + "\n" for call in calls))
    return path


def test_what_killed_rollouts_spent_is_added_up_without_preflights(tmp_path: Path) -> None:
    path = write(
        tmp_path / "calls.jsonl",
        call("kept", 100),
        call("lost1", 7, cost_usd=0.5),
        call("lost1", 3, cost_usd=0.25),
        call("lost2"),
        call("preflight-1", 1000),
        call("lost3", 50, usage_source="estimated"),
    )
    spend = unrecorded_spend(path, {"kept"}, Spend(attempts=1, tokens=100, prompt_tokens=99))
    assert (spend.attempts, spend.tokens, spend.prompt_tokens, spend.cost_usd) == (3, 10, 8, 0.75)
    assert spend.cached_tokens is None
    assert unrecorded_spend(tmp_path / "missing", set(), Spend()).tokens is None


def test_a_call_that_ended_after_its_rollout_was_recorded_is_spend_and_no_attempt(tmp_path: Path) -> None:
    path = write(tmp_path / "calls.jsonl", call("kept", 100), call("kept", 20))
    spend = unrecorded_spend(path, {"kept"}, Spend(attempts=1, tokens=100, prompt_tokens=99))
    assert (spend.attempts, spend.tokens, spend.prompt_tokens) == (0, 20, 19)


def test_a_ledger_that_lost_lines_takes_nothing_from_what_the_journal_counts() -> None:
    sums = Sums()
    found = spent_in(json.dumps(call("kept", 10, cost_usd=0.1)).encode())
    assert found is not None
    sums.add(found)
    left = sums.beyond(Spend(attempts=1, tokens=50, prompt_tokens=40, cost_usd=0.1))
    assert (left.tokens, left.prompt_tokens, left.cost_usd, left.completion_tokens) == (None, None, None, 1)


def test_a_set_of_rollouts_knows_its_members_only() -> None:
    known = RolloutSet()
    for number in range(1000):
        known.add(f"rollout-{number}")
    known.seal()
    assert all(f"rollout-{number}" in known for number in range(1000))
    assert not any(f"other-{number}" in known for number in range(1000))
    assert 7 not in known
    assert "x" not in RolloutSet()
