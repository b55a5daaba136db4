"""Fifty kills in one run, on every run of the tests; longer ones are `scripts/chaos.py`'s."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import uvloop

from chaos import ROLES, Chaos, miscounted, rampage, results_of, run_twice, unrecorded
from counting_upstream import Count, CountingUpstream

KILLS = 50


@pytest.mark.timeout(240)
def test_a_run_whose_processes_are_killed_fifty_times_ends_as_an_undisturbed_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def within_reason() -> tuple[Chaos, list[str]]:
        async with asyncio.timeout(220):
            return await rampage(tmp_path, KILLS)

    chaos, found = uvloop.run(within_reason())
    assert found == []
    assert all(chaos.kills[role] >= 3 for role in ROLES)
    assert {result.status for result in results_of(chaos.run_dir("wild")).values()} == {
        "success",
        "failed",
        "skipped",
    }
    calls, tokens = unrecorded(chaos)
    with capsys.disabled():
        print(
            f"\n{dict(chaos.kills)}, {calls} calls ({tokens} tokens) were in flight when the bridge was killed"
        )


def record(row: int, status: str = "success", rollout: str = "a", **fields: Any) -> dict[str, Any]:
    return {"row_index": row, "run_index": 0, "status": status, "rollout_id": rollout, **fields}


def lay(run: Path, records: list[dict[str, Any]], calls: list[dict[str, Any]], spent: int | None = 0) -> Path:
    run.mkdir(exist_ok=True)
    for name, lines in (("events.jsonl", records), ("calls.jsonl", calls)):
        (run / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "metrics.json").write_text(json.dumps({"summary": {"tokens_spent": spent}}))
    return run


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000Z"


def test_the_chaos_notices_a_row_that_ran_again_after_its_result(tmp_path: Path) -> None:
    once = record(0, finished_at=at(5))
    assert list(run_twice(lay(tmp_path, [record(0, "cancelled", "b"), once], []))) == []
    assert list(run_twice(lay(tmp_path, [once, record(0, rollout="b", finished_at=at(9))], []))) == [
        "item (0, 0) has 2 results"
    ]
    again = [record(0, "cancelled", "b"), once]
    late = {"rollout_id": "b", "started_at": at(6)}
    assert len(list(run_twice(lay(tmp_path, again, [late])))) == 1
    assert list(run_twice(lay(tmp_path, again, [{**late, "started_at": at(4)}]))) == []


def test_the_chaos_notices_tokens_that_are_counted_nowhere(tmp_path: Path) -> None:
    upstream = CountingUpstream()
    upstream.counts = {"x": Count(tokens=7), "y": Count(tokens=5)}
    calls = [{"upstream_request_id": "x", "usage": {}}, {"upstream_request_id": "z"}]
    assert list(miscounted(lay(tmp_path, [], calls, 7), upstream)) == []
    assert len(list(miscounted(lay(tmp_path, [], calls, 6), upstream))) == 1
    assert len(list(miscounted(lay(tmp_path, [], calls, None), upstream))) == 1
    chaos = Chaos(tmp_path, upstream, 0)
    lay(tmp_path / "wild", [], calls)
    chaos.run_dir = lambda name: tmp_path / name
    assert unrecorded(chaos) == (1, 5)
