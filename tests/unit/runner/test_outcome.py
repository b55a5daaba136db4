from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec.structs import replace

from osmosis_runner.outcome import Ending, RunOutcome

OUTCOME = RunOutcome(
    ended="complete",
    reason=None,
    signal=None,
    plan=cast("Any", None),
    local_run_id=None,
    dispatched=0,
    succeeded=0,
    failed=0,
    skipped=0,
    resumed=0,
    cancelled=0,
    pending=0,
    duration_ms=0,
    metrics={},
)


@pytest.mark.parametrize(
    ("ended", "complete"),
    [
        ("complete", True),
        ("already_complete", True),
        ("declined", False),
        ("interrupted", False),
        ("halted", False),
    ],
)
def test_only_a_run_with_every_item_recorded_is_complete(ended: Ending, complete: bool) -> None:
    assert replace(OUTCOME, ended=ended).complete is complete
