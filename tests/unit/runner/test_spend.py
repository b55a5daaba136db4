from __future__ import annotations

from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.spend import Spend, add_known


def record(row: int, status: str, **fields: object) -> JournalRecord:
    base: dict[str, object] = {
        "row_index": row, "run_index": 0, "rollout_id": f"r{row}", "status": status, "duration_ms": 1,
    }  # fmt: skip
    return JournalRecord(**(base | fields))  # type: ignore[arg-type]


def test_every_attempt_adds_what_it_told() -> None:
    spent = Spend()
    for one in (
        record(0, "failed", tokens=10, cost_usd=0.5),
        record(1, "success", tokens=None),
        record(0, "cancelled", tokens=5),
        record(0, "success", tokens=20, cost_usd=0.25, prompt_tokens=15),
    ):
        spent = spent.plus(one)
    assert spent == Spend(attempts=4, tokens=35, prompt_tokens=15, cost_usd=0.75)


def test_an_unknown_figure_stays_unknown_until_one_is_told() -> None:
    assert Spend().plus(record(0, "success")) == Spend(attempts=1)
    assert add_known(None, None) is None
    assert add_known(None, 0) == 0
    assert add_known(2, 3) == 5


def test_sums_of_sums_count_attempts_once() -> None:
    spent = (
        Spend(attempts=2, tokens=5).plus(Spend(attempts=3, cost_usd=1.0)).plus(record(0, "failed", tokens=1))
    )
    assert spent == Spend(attempts=6, tokens=6, cost_usd=1.0)
