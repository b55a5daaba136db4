from __future__ import annotations

from typing import Any

import pytest

from osmosis_runner.standing import Standing, runs_again, standing_of
from runner_fakes import ended


@pytest.mark.parametrize(
    ("fields", "standing"),
    [
        ({"status": "success"}, Standing.SUCCESS),
        ({"status": "skipped"}, Standing.SKIPPED),
        ({"status": "cancelled"}, Standing.PENDING),
        ({"status": "failed", "error_type": "agent_error", "error_phase": "agent"}, Standing.FAILED),
        ({"status": "failed", "error_type": "timeout", "error_phase": "grader"}, Standing.FAILED),
        ({"status": "failed", "error_type": "server_died", "error_phase": "server"}, Standing.FAILED),
        ({"status": "failed", "error_type": "provider_error", "error_phase": "provider"}, Standing.THWARTED),
        ({"status": "failed", "error_type": "lease_expired", "error_phase": "agent"}, Standing.THWARTED),
        ({"status": "failed", "error_type": "cancelled", "error_phase": "server"}, Standing.THWARTED),
    ],
)
def test_what_was_not_the_items_own_doing_is_told_apart(fields: dict[str, Any], standing: Standing) -> None:
    assert standing_of(ended(0, **fields).record) is standing


def test_a_resume_runs_what_is_pending_and_what_was_thwarted_and_the_rest_when_asked() -> None:
    usual = {Standing.PENDING, Standing.THWARTED}
    assert runs_again() == usual
    assert runs_again(failed=True, skipped=False) == usual | {Standing.FAILED}
    assert runs_again(failed=False, skipped=True) == usual | {Standing.SKIPPED}
