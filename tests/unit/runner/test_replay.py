from __future__ import annotations

from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.replay import Spend, add_known, fold


def record(row: int, status: str, **fields: object) -> JournalRecord:
    base: dict[str, object] = {
        "row_index": row, "run_index": 0, "rollout_id": f"r{row}", "status": status, "duration_ms": 1,
    }  # fmt: skip
    return JournalRecord(**(base | fields))  # type: ignore[arg-type]


def test_the_last_final_record_of_an_item_wins_and_all_of_them_cost() -> None:
    replayed = fold(
        [
            record(0, "failed", tokens=10, cost_usd=0.5),
            record(1, "success", tokens=None),
            record(0, "cancelled", tokens=5),
            record(0, "success", tokens=20, cost_usd=0.25, prompt_tokens=15),
            record(2, "cancelled", tokens=1),
        ],
        dropped_tail=3,
    )
    assert replayed.statuses() == {(0, 0): "success", (1, 0): "success"}
    assert replayed.latest[0, 0].tokens == 20
    assert replayed.attempts == {(0, 0): 3, (1, 0): 1, (2, 0): 1}
    assert replayed.spent == Spend(attempts=5, tokens=36, prompt_tokens=15, cost_usd=0.75)
    assert (replayed.lines, replayed.dropped_tail) == (5, 3)


def test_an_unknown_figure_stays_unknown_until_one_is_told() -> None:
    assert fold([record(0, "success")]).spent == Spend(attempts=1)
    assert add_known(None, None) is None
    assert add_known(None, 0) == 0
    assert add_known(2, 3) == 5


def test_sums_of_sums_count_attempts_once() -> None:
    spent = (
        Spend(attempts=2, tokens=5).plus(Spend(attempts=3, cost_usd=1.0)).plus(record(0, "failed", tokens=1))
    )
    assert spent == Spend(attempts=6, tokens=6, cost_usd=1.0)
