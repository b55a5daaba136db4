"""The ledger is read while it is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

from osmosis_bridge.conformance.exact import Number
from osmosis_bridge.conformance.ledger_view import LedgerView


def test_records_are_found_by_rollout_and_half_a_line_waits(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    view = LedgerView(file)
    assert asyncio.run(view.of("a")) == []
    assert view.text() == b""
    file.write_text('{"rollout_id":"a","seq":1}\n{"rollout_id":"b","seq":1}\n{"rollout_id":"a","se')
    assert asyncio.run(view.of("a")) == [{"rollout_id": "a", "seq": Number("1")}]
    with file.open("a") as more:
        more.write('q":2}\nnot json\n')
    assert len(asyncio.run(view.of("a"))) == 2
    assert len(asyncio.run(view.of("b"))) == 1
    assert b'"b"' in view.text()


def test_a_record_that_is_late_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"

    async def run() -> int:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(_read(LedgerView(file)))
            await asyncio.sleep(0.03)
            file.write_text('{"rollout_id":"a"}\n')
        return waiting.result()

    async def _read(view: LedgerView) -> int:
        return len(await view.of("a", patience=8))

    assert asyncio.run(run()) == 1
